import {CACHE_PERIOD_MS} from '../oracles/limits-timeline.js'
import type {Stage} from './stage.js'

/** Work of a process that follows an answer, such as the return of a charge, is over after this time, in ms. */
const AFTERMATH_MS = 15_000

/** Judges the cost of every decision that stood alone: no other of its process, no fault, limits that had settled. */
export function checkCosts(stage: Stage): void {
  const {world, oracles, operations} = stage
  const startMs = world.time.nowMs - world.time.elapsedMs
  const settledMs =
    oracles.timeline.changedAtMs === 0 ? 0 : oracles.timeline.changedAtMs + 2 * CACHE_PERIOD_MS - startMs
  for (const operation of operations) {
    const {by, what, startedAtMs: fromMs, endedAtMs: untilMs, decided} = operation
    const process = world.processes[by]
    if (!decided || !process || untilMs === undefined || fromMs < settledMs) continue
    const isDisturbed = process.disturbedAtMs.some(atMs => atMs >= fromMs - AFTERMATH_MS && atMs <= untilMs)
    if (isDisturbed || stage.hasOthers(operation, fromMs - AFTERMATH_MS, untilMs)) continue
    oracles.costs.judge({what, process: by, fromMs, untilMs, ...decided})
  }
}
