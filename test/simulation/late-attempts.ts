import {type Planned, plain, SYSTEM} from './rare.js'
import type {Fault, FaultKind, LeaseAction, ScenarioEvent, Step} from './scenario.js'
import type {Draws} from './world/draws.js'
import {OTHERS} from './world/world.js'

/** Attempts without a response that arrive at the worst moment: many of them, each on its own bucket. */

/** Calls of a process that may fail: more than it makes. */
const MOST_CALLS = 200

/**
 * A client raises limits without updating buckets, while one process's clock is so far ahead that rewrites by the
 * others do not move the refill instant. First tries of these rewrites arrive after their retries.
 */
export function rewritesArriveLate(draws: Draws): Planned {
  const capacity = draws.int(20, 100)
  const limits = [{name: 'rpm', capacity, refillAmount: draws.int(1, 20), refillPeriodSeconds: 60}]
  // A write also requires the capacity it saw, but not the rate.
  const isLarger = draws.chance(0.5)
  const raised = limits.map(limit => ({
    ...limit,
    ...(isLarger ? {capacity: 2 * capacity} : {refillAmount: 2 * limit.refillAmount}),
  }))
  const steps: Step[] = [{atMs: 4000, by: OTHERS, event: {kind: 'python-config', scope: SYSTEM, limits: raised}}]
  for (const entity of entities(6)) {
    steps.push(ask(draws.int(0, 500), 0, entity, 1))
    for (const by of [1, 2]) {
      steps.push(ask(draws.int(1500, 3000), by, entity, 1))
      steps.push(ask(draws.int(70_000, 72_000), by, entity, draws.int(1, 3)))
    }
  }
  const skewsMs = [draws.int(120_000, 200_000), draws.int(-2000, 0), draws.int(-2000, 0)]
  const faults = disturbed(draws, [1, 2], ['late'], [40, 300])
  return {...plain(3, limits), skewsMs, steps, faults, sharedSlots: draws.chance(0.5)}
}

/** Processes take from unread buckets. First tries arrive while they are being ruled out. */
export function firstTriesArriveLate(draws: Draws): Planned {
  const capacity = draws.int(50, 300)
  const limits = [{name: 'rpm', capacity, refillAmount: draws.int(1, capacity), refillPeriodSeconds: 3600}]
  const steps: Step[] = []
  for (const [number, entity] of entities(8).entries()) {
    steps.push(ask(number * 100, 0, entity, Math.ceil(capacity / 2)))
    for (const by of [1, 2]) steps.push(ask(5000 + number * 3000 + draws.int(0, 2000), by, entity, draws.int(1, 4)))
  }
  const faults = disturbed(draws, [1, 2], ['late'], [5, 90])
  return {...plain(3, limits), steps, faults, sharedSlots: draws.chance(0.5)}
}

/**
 * A process whose clock is ahead takes from unread buckets. Operators reset these buckets, which moves the refill
 * instant back, before ruled-out first tries arrive.
 */
export function resetsBeforeFirstTries(draws: Draws): Planned {
  const capacity = draws.int(50, 300)
  const limits = [{name: 'rpm', capacity, refillAmount: draws.int(1, capacity), refillPeriodSeconds: 3600}]
  const steps: Step[] = []
  for (const [number, entity] of entities(8).entries()) {
    const [atMs, half] = [5000 + number * 4000, Math.ceil(capacity / 2)]
    steps.push(ask(number * 100, 0, entity, half))
    steps.push(ask(atMs, 1, entity, draws.int(1, 4)))
    const resetMs = atMs + draws.int(500, 900)
    steps.push({atMs: resetMs, by: OTHERS, event: {kind: 'reset', entity}})
    // By the clock that is ahead, a full bucket has overflowed: the first try would not be applied.
    steps.push(ask(resetMs + draws.int(150, 400), 0, entity, half))
  }
  return {
    ...plain(2, limits),
    skewsMs: [0, draws.int(5000, 50_000)],
    steps,
    faults: disturbed(draws, [1], ['late'], [1300, 3000]),
    // Every late attempt arrives after its outcome is decided.
    sharedSlots: draws.chance(0.5) && 'decidable',
  }
}

/** Refusals piggyback on writes with unknown outcomes, some because other processes overwrite the marks. */
export function refusalsInDoubt(draws: Draws): Planned {
  const capacity = draws.int(40, 80)
  const limits = [{name: 'rpm', capacity, refillAmount: draws.int(1, 3), refillPeriodSeconds: 3600}]
  const steps: Step[] = [ask(0, 1, 'u0', 1)]
  for (let round = 0; round < 10; round++) {
    const atMs = 2000 + round * 4000
    steps.push(ask(atMs + draws.int(0, 200), 0, 'u0', capacity))
    steps.push(ask(atMs + 300, 0, 'u0', 1))
    // Other processes write all the time, so that a write falls between an attempt and its retry.
    for (let rival = 0; rival < 12; rival++) {
      const action: LeaseAction = {kind: 'rollback', afterMs: 1000}
      const event: ScenarioEvent = {kind: 'acquire', entity: 'u0', consume: {rpm: 1}, actions: [action]}
      steps.push({atMs: atMs + 290 + rival * 10 + draws.int(0, 9), by: 1 + (rival % 2), event})
    }
  }
  const kinds = ['hang', 'lost-after', 'lost-after', 'lost-after'] as const
  return {
    ...plain(3, limits),
    steps,
    faults: disturbed(draws, [0], kinds, [10, 100]),
    sharedSlots: draws.chance(0.8),
  }
}

/** Operators top up with keys, repeat that at once and later, and lose responses, while others consume. */
export function topUpsInDoubt(draws: Draws): Planned {
  const capacity = draws.int(20, 100)
  const limits = [{name: 'rpm', capacity, refillAmount: draws.int(1, 10), refillPeriodSeconds: 3600}]
  const steps: Step[] = [ask(0, 0, 'u0', capacity)]
  if (draws.chance(0.4)) steps.push({atMs: 500, by: OTHERS, event: {kind: 'split', entity: 'u0'}})
  for (let order = 0; order < 6; order++) {
    const atMs = 2000 + order * 12_000
    const tokens = draws.int(1, Math.ceil(capacity / 2))
    const event: ScenarioEvent = {kind: 'top-up', entity: 'u0', tokens, key: `order-${order}`, limit: 'rpm'}
    const again = draws.pick([[], [0], [5, 40], [0, 6000], [200, 8000]])
    for (const laterMs of [0, ...again]) steps.push({atMs: atMs + laterMs, by: OTHERS, event})
    for (let request = 0; request < draws.int(1, 4); request++)
      steps.push(ask(atMs + draws.int(0, 10_000), draws.int(0, 1), 'u0', draws.int(1, tokens)))
  }
  const kinds = ['late', 'lost-after', 'server-error-applied', 'hang', 'conflict', 'lost-before'] as const
  const faults = disturbed(draws, [OTHERS], kinds, [20, 400])
  return {...plain(2, limits), steps, faults: faults.filter(() => draws.chance(0.6))}
}

/**
 * A request opens a session of a two-shard quota on one shard, which announces it to the other. Before the other shard
 * starts it, a lease or another client charges that shard: the session must include the charge.
 */
export function chargesAfterAnnouncement(draws: Draws): Planned {
  const capacity = draws.int(30, 60)
  const quota = {name: 'q', capacity, refillAmount: 0, refillPeriodSeconds: 1, reset: {afterSeconds: 60}}
  const take = (atMs: number, by: number, tokens: number, actions: LeaseAction[] = []): Step => {
    return {atMs, by, event: {kind: 'acquire', entity: 'u0', consume: {q: tokens}, actions}}
  }
  const steps: Step[] = [take(0, 0, 1), {atMs: 500, by: OTHERS, event: {kind: 'split', entity: 'u0'}}]
  const roundMs = 70_000
  for (let round = 1; round <= 6; round++) {
    const atMs = round * roundMs
    steps.push(take(atMs, 0, 1))
    const adjust: LeaseAction = {
      kind: 'adjust',
      deltas: {q: draws.int(1, 3)},
      afterMs: roundMs - 900 + draws.int(0, 300),
    }
    for (const by of [0, 1]) steps.push(take(atMs + 1000, by, 1, [adjust]))
    const other: ScenarioEvent = {kind: 'python-adjust', entity: 'u0', consume: {q: draws.int(1, 3)}}
    steps.push({atMs: atMs + draws.int(150, 700), by: OTHERS, event: other})
    for (const by of [0, 1]) for (let more = 0; more < 3; more++) steps.push(take(atMs + 3000 + more * 100, by, 2))
  }
  return {...plain(2, [quota]), steps}
}

const entities = (count: number): string[] => Array.from({length: count}, (_, number) => `u${number}`)

function ask(atMs: number, by: number, entity: string, tokens: number): Step {
  const event: ScenarioEvent = {kind: 'acquire', entity, consume: {rpm: tokens}, actions: []}
  return {atMs, by, event}
}

/** Every second call of some processes fails. */
function disturbed(
  draws: Draws,
  processes: readonly number[],
  kinds: readonly FaultKind[],
  [least, most]: readonly [number, number],
): Fault[] {
  return processes.flatMap(by =>
    Array.from({length: MOST_CALLS}, (_, at): Fault[] => {
      const fault = {by, call: at + 1, kind: draws.pick(kinds), delayMs: draws.int(least, most)}
      return draws.chance(0.5) ? [fault] : []
    }).flat(),
  )
}
