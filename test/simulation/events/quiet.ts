import {CACHE_PERIOD_MS} from '../oracles/limits-timeline.js'
import {AFTERMATH_MS} from '../world/process.js'
import type {Stage} from './stage.js'

/** Judges the cost of isolated decisions: no other operation of the process, no fault, settled limits. */
export function checkCosts(stage: Stage): void {
  const {world, oracles, operations} = stage
  const startMs = world.time.nowMs - world.time.elapsedMs
  const settledMs =
    oracles.timeline.changedAtMs === 0 ? 0 : oracles.timeline.changedAtMs + 2 * CACHE_PERIOD_MS - startMs
  for (const operation of operations) {
    const {by, what, startedAtMs: fromMs, endedAtMs: untilMs, decided} = operation
    const process = world.processes[by]
    if (!decided || !process || untilMs === undefined || fromMs < settledMs) continue
    if (process.wasDisturbed(fromMs, untilMs) || stage.hasOthers(operation, fromMs - AFTERMATH_MS, untilMs)) continue
    oracles.costs.judge({what, process: by, fromMs, untilMs, ...decided})
  }
}
