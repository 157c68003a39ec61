import {expect, it} from 'vitest'
import {type Planned, plain, SYSTEM} from './rare.js'
import {run} from './run.js'
import {RESOURCE, type Step} from './scenario.js'
import {someActions, someFaults} from './traffic.js'
import {Draws} from './world/draws.js'
import {START_MS} from './world/virtual-time.js'
import {OTHERS} from './world/world.js'

const MINUTE_MS = 60_000
const SEEDS = 3

/** A temporary limit under traffic from processes with wrong clocks, most of it around the expiry. */
function planBoost(draws: Draws): Planned & {readonly untilMs: number} {
  const processes = draws.int(2, 3)
  const capacity = draws.int(10, 60)
  const base = {name: 'rpm', capacity, refillAmount: draws.int(5, 40), refillPeriodSeconds: 60}
  const factor = draws.pick([0.3, 2, 4])
  const scaled = (amount: number): number => Math.max(1, Math.round(amount * factor))
  const value = {...base, capacity: scaled(capacity), refillAmount: scaled(base.refillAmount)}
  const setAtMs = draws.int(5000, 60_000)
  const untilMs = Math.ceil((START_MS + setAtMs + draws.int(1, 6) * MINUTE_MS) / MINUTE_MS) * MINUTE_MS
  const endMs = untilMs - START_MS
  const scope = draws.chance(0.5) ? SYSTEM : ({level: 'entity', entity: 'u0', resource: RESOURCE} as const)
  const instant = (): number => {
    const where = draws.random()
    if (where < 0.4) return endMs + draws.int(-15_000, 15_000)
    if (where < 0.5) return endMs + draws.int(-40, 40)
    return draws.int(0, endMs + 4 * MINUTE_MS)
  }
  const steps: Step[] = Array.from({length: draws.int(40, 90)}, () => {
    const consume = {rpm: draws.int(1, Math.ceil(Math.max(capacity, value.capacity) / draws.pick([1, 2, 4, 8])))}
    const actions = draws.chance(0.3) ? someActions(draws, consume) : []
    return {
      atMs: instant(),
      by: draws.int(0, processes - 1),
      event: {kind: 'acquire', entity: 'u0', consume, actions},
    }
  })
  steps.push({atMs: setAtMs, by: OTHERS, event: {kind: 'boost', scope, limits: [value], untilMs}})
  if (draws.chance(0.3)) steps.push({atMs: draws.int(4000, endMs), by: OTHERS, event: {kind: 'split', entity: 'u0'}})
  if (draws.chance(0.3))
    steps.push({atMs: draws.int(0, endMs), by: 0, event: {kind: 'skew', ms: draws.int(-10_000, 10_000)}})
  // More than the base allows, after the expiry by every clock.
  for (let atMs = endMs + 20_000; atMs < endMs + 110_000; atMs += 1500)
    steps.push({
      atMs,
      by: draws.int(0, processes - 1),
      event: {kind: 'acquire', entity: 'u0', consume: {rpm: Math.ceil(capacity / 8)}, actions: []},
    })
  // Long after the expiry, only the base applies.
  for (let late = 0; late < 6; late++)
    steps.push({
      atMs: endMs + 8 * MINUTE_MS + late * 200,
      by: draws.int(0, processes - 1),
      event: {kind: 'acquire', entity: 'u0', consume: {rpm: capacity}, actions: []},
    })
  return {
    ...plain(processes, [base]),
    steps: steps.sort((a, b) => a.atMs - b.atMs),
    skewsMs: Array.from({length: processes}, () => draws.int(-10_000, 10_000)),
    faults: draws.chance(0.3) ? someFaults(draws, processes, 0.05) : [],
    aggregatorLagMs: draws.chance(0.5) ? draws.pick([200, 2000]) : undefined,
    untilMs,
  }
}

it('admits by the limits of each instant and expires, however wrong the clocks are', async () => {
  const largest: number[] = []
  for (let seed = 1; seed <= SEEDS; seed++) {
    const {untilMs: _, ...planned} = planBoost(new Draws(seed))
    const {violations, counts} = await run({...planned, seed, profile: 'quotas'})
    expect(violations, `seed ${seed}`).toEqual([])
    largest.push(counts.calls)
  }
  expect(Math.min(...largest)).toBeGreaterThan(0)
})
