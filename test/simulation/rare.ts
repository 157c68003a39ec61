import type {Limit} from '../../src/lib/core/limits/limit.js'
import {
  type Fault,
  type LeaseAction,
  RESOURCE,
  type Scenario,
  type ScenarioEvent,
  type Step,
  type Tokens,
  USUAL_CACHE_SIZE,
} from './scenario.js'
import {changed, someFaults} from './traffic.js'
import type {Draws} from './world/draws.js'
import {OTHERS} from './world/world.js'

/** Situations that random traffic seldom meets. */

export const SYSTEM = {level: 'resource', resource: RESOURCE} as const

export type Planned = Omit<Scenario, 'seed' | 'profile'>

/**
 * Several requests of one process at one instant, for an unused bucket. They share its first write because the request
 * before them is too large to create it.
 */
export function batchForNewBucket(draws: Draws, {name, capacity}: Limit): Step[] {
  const others = draws.pick([0, 2, 3])
  const amounts = Array.from({length: others}, () => draws.int(Math.ceil(capacity / 2), capacity))
  if (others > 0 && draws.chance(0.5)) amounts.unshift(capacity + 1)
  return amounts.map(tokens => {
    const event: ScenarioEvent = {kind: 'acquire', entity: 'u1', consume: {[name]: tokens}, actions: []}
    return {atMs: 5, by: 0, event}
  })
}

/**
 * A lease from before a bucket is reset or deleted, which ends after its process has used the new bucket. With two
 * limits, one settlement first refunds one and charges the other.
 */
export function leaseAcross(
  draws: Draws,
  atMs: number,
  {by, entity, limits}: {readonly by: number; readonly entity: string; readonly limits: readonly Limit[]},
): Step[] {
  const consume: Tokens = Object.fromEntries(
    limits.map(({name, capacity}) => [name, draws.int(1, Math.ceil(capacity / 4))]),
  )
  const [returned, charged] = limits
  const afterMs = draws.int(2500, 3000)
  const actions: LeaseAction[] = []
  if (returned && charged)
    actions.push({kind: 'adjust', deltas: {[returned.name]: -1, [charged.name]: draws.int(1, 3)}, afterMs})
  actions.push({kind: 'rollback', afterMs: actions.length > 0 ? draws.pick([0, 100]) : afterMs})
  const single = Object.fromEntries(limits.map(({name}) => [name, 1]))
  return [
    {atMs: atMs - draws.int(200, 1000), by, event: {kind: 'acquire', entity, consume, actions}},
    {atMs: atMs + draws.int(300, 900), by, event: {kind: 'acquire', entity, consume: single, actions: []}},
  ]
}

/**
 * Processes that share a mark slot refund tokens at once while responses are lost: they overwrite each other's marks.
 */
export function sharedSlotRush(draws: Draws): Planned {
  const processes = draws.int(2, 3)
  const capacity = draws.int(50, 200)
  const limits = ['rpm', 'tpm'].map(name => ({name, capacity, refillAmount: capacity, refillPeriodSeconds: 3600}))
  const steps: Step[] = []
  for (let rush = 0; rush < 4; rush++) {
    for (let request = 0; request < draws.int(4, 8); request++) {
      const consume = {rpm: draws.int(1, 4), tpm: draws.int(1, 4)}
      const actions: LeaseAction[] = []
      if (draws.chance(0.4))
        actions.push({kind: 'adjust', deltas: {rpm: -1, tpm: draws.int(1, 3)}, afterMs: draws.int(0, 40)})
      actions.push({kind: draws.pick(['commit', 'rollback', 'rollback'] as const), afterMs: draws.int(0, 40)})
      const event: ScenarioEvent = {kind: 'acquire', entity: 'u0', consume, actions}
      steps.push({atMs: rush * 20_000 + draws.int(0, 100), by: draws.int(0, processes - 1), event})
    }
  }
  const faults = lostAnswers(draws, processes, 0.25)
  return {...plain(processes, limits), steps, faults, sharedSlots: draws.chance(0.7)}
}

/** Processes take from unread buckets, whose limits they know from other buckets, while responses are lost. */
export function firstWritesInDoubt(draws: Draws): Planned {
  const capacity = draws.int(20, 300)
  const limits = [{name: 'rpm', capacity, refillAmount: draws.int(1, capacity), refillPeriodSeconds: 3600}]
  const processes = draws.int(2, 3)
  const entities = Array.from({length: 8}, (_, number) => `u${number}`)
  const steps: Step[] = []
  const ask = (atMs: number, by: number, entity: string, tokens: number) =>
    steps.push({atMs, by, event: {kind: 'acquire', entity, consume: {rpm: tokens}, actions: []}})
  for (const [number, entity] of entities.entries()) {
    ask(number * 100, 0, entity, Math.ceil(capacity / 2))
    for (let by = 1; by < processes; by++) ask(5000 + number * 5000 + draws.int(0, 4000), by, entity, draws.int(1, 4))
    if (draws.chance(0.3)) ask(5000 + number * 5000 + draws.int(0, 4000), 0, entity, draws.int(1, 4))
  }
  return {...plain(processes, limits), steps, faults: lostAnswers(draws, processes, 0.3)}
}

/**
 * Leases refund tokens to buckets that the cache has evicted since, and single calls are lost. The second request for
 * the bucket replaces the mark of the charge in the slot.
 */
export function refundsAfterEviction(draws: Draws): Planned {
  const capacity = draws.int(50, 200)
  const limits = [{name: 'rpm', capacity, refillAmount: 1, refillPeriodSeconds: 3600}]
  const steps: Step[] = []
  for (let round = 0; round < 6; round++) {
    const startMs = round * 40_000
    const actions: LeaseAction[] = [{kind: 'adjust', deltas: {rpm: -draws.int(1, 4)}, afterMs: 5000}]
    const lease: ScenarioEvent = {kind: 'acquire', entity: 'u0', consume: {rpm: 5}, actions}
    steps.push({atMs: startMs, by: 0, event: lease})
    for (const [at, entity] of ['u0', 'u1', 'u2'].entries())
      steps.push({
        atMs: startMs + 1000 * (at + 1),
        by: 0,
        event: {kind: 'acquire', entity, consume: {rpm: 1}, actions: []},
      })
  }
  return {...plain(1, limits), cacheSize: 1, steps, faults: lostAnswers(draws, 1, 0.1)}
}

/**
 * Requests that charge several shards, while another process takes from them and refunds, and responses are lost: the
 * first try of a transaction arrives after its retry was refused.
 */
export function gathersInDoubt(draws: Draws): Planned {
  const capacity = draws.int(20, 100)
  const limits = [{name: 'rpm', capacity, refillAmount: draws.int(1, 10), refillPeriodSeconds: 3600}]
  const part = (low: number, high: number) => ({rpm: draws.int(Math.ceil(capacity * low), Math.floor(capacity * high))})
  // Never full from here on, so that requests do not move the refill instant.
  const steps: Step[] = [{atMs: 0, by: 0, event: {kind: 'acquire', entity: 'u0', consume: part(0.2, 0.3), actions: []}}]
  steps.push({atMs: 500, by: OTHERS, event: {kind: 'split', entity: 'u0'}})
  const rollback = (afterMs: number): LeaseAction[] => [{kind: 'rollback', afterMs}]
  for (let round = 0; round < 24; round++) {
    const atMs = 5000 + round * 3000
    const whole: ScenarioEvent = {kind: 'acquire', entity: 'u0', consume: part(0.5, 0.7), actions: rollback(1000)}
    steps.push({atMs, by: 0, event: whole})
    for (let rival = 0; rival < draws.int(1, 3); rival++) {
      const event: ScenarioEvent = {
        kind: 'acquire',
        entity: 'u0',
        consume: part(0.1, 0.3),
        actions: rollback(draws.int(0, 100)),
      }
      steps.push({atMs: atMs + draws.int(30, 90), by: 1, event})
    }
  }
  const faults = Array.from({length: 100}, (_, at): Fault => {
    const kind = draws.pick(['late', 'late', 'late', 'lost-before', 'lost-after'] as const)
    return {by: 0, call: at + 1, operation: 'TransactWriteItems', kind, delayMs: draws.int(100, 400)}
  })
  return {...plain(2, limits), steps, faults: faults.filter(() => draws.chance(0.5))}
}

/**
 * Limits change while one process is ahead of the others, whose writes do not move the refill instant, and responses
 * are lost.
 */
export function limitsChangeBehindClock(draws: Draws): Planned {
  const capacity = draws.int(20, 100)
  const limits = [{name: 'rpm', capacity, refillAmount: draws.int(1, 20), refillPeriodSeconds: 60}]
  // A fourth process would share the slot of the first.
  const processes = draws.int(2, 3)
  const steps: Step[] = []
  const ask = (atMs: number, by: number) => {
    const event: ScenarioEvent = {kind: 'acquire', entity: 'u0', consume: {rpm: draws.int(1, 3)}, actions: []}
    steps.push({atMs, by, event})
  }
  ask(0, 0)
  let atMs = 1000
  for (let change = 0; change < draws.int(1, 3); change++) {
    for (let by = 0; by < processes; by++) if (draws.chance(0.7)) ask(atMs + draws.int(0, 500), by)
    const kind = draws.pick(['set-limits', 'python-config'] as const)
    steps.push({atMs: atMs + 1000, by: OTHERS, event: {kind, scope: SYSTEM, limits: changed(draws, limits)}})
    atMs += draws.pick([1000, 5000, 61_000, 62_000])
    for (let request = 0; request < draws.int(3, 8); request++)
      ask(atMs + draws.int(0, 400), draws.int(0, processes - 1))
    atMs += 1000
  }
  const skewsMs = Array.from({length: processes}, (_, by) =>
    by === 0 ? draws.int(1000, 200_000) : draws.int(-3000, 0),
  )
  return {...plain(processes, limits), skewsMs, steps, faults: lostAnswers(draws, processes, 0.25)}
}

/** Responses are lost, and some requests arrive late. */
export const lostAnswers = (draws: Draws, processes: number, share: number): Fault[] =>
  someFaults(draws, processes, share).map(fault => ({
    ...fault,
    kind: draws.pick(['lost-before', 'lost-after', 'late'] as const),
  }))

/** A slow and a fast limit, requested around the instant at which the slow one is full again. */
export function slowLimitFillsUp(draws: Draws): Planned {
  const capacity = draws.int(2, 10)
  const slow = {name: 'tpd', capacity, refillAmount: draws.int(1, 10), refillPeriodSeconds: 86_400}
  const limits = [{name: 'rpm', capacity: 10, refillAmount: 10, refillPeriodSeconds: 1}, slow]
  const fullMs = Math.floor(86_400_000 / slow.refillAmount)
  const steps: Step[] = [
    {atMs: 0, by: 0, event: {kind: 'acquire', entity: 'u0', consume: {rpm: 1, tpd: 1}, actions: []}},
  ]
  for (let at = 0; at < 12; at++) {
    const atMs = fullMs + draws.int(-100_000, 20_000)
    steps.push({atMs, by: draws.int(0, 1), event: {kind: 'patient', entity: 'u0', consume: {rpm: draws.int(5, 10)}}})
  }
  return {...plain(2, limits), steps}
}

/** A soft limit is in debt when the bucket's stored softness expires, 54 s after it was stored. */
export function softnessRunsOut(draws: Draws): Planned {
  const capacity = draws.int(2, 20)
  const soft = {name: 'rpm', capacity, refillAmount: draws.int(1, 5), refillPeriodSeconds: 60, soft: true} as const
  const ask = (atMs: number, by: number, tokens: number): Step => {
    return {atMs, by, event: {kind: 'acquire', entity: 'u0', consume: {rpm: tokens}, actions: []}}
  }
  const processes = draws.int(1, 2)
  const steps: Step[] = [ask(0, 0, draws.int(1, capacity))]
  for (let request = 0; request < 4; request++)
    steps.push(ask(draws.int(500, 20_000), draws.int(0, processes - 1), draws.int(1, capacity + 5)))
  for (const startMs of [52_000, 106_000])
    for (let atMs = startMs; atMs < startMs + 5000; atMs += draws.int(150, 500))
      steps.push(ask(atMs, draws.int(0, processes - 1), draws.int(1, 5)))
  return {...plain(processes, [soft]), steps}
}

export function plain(processes: number, limits: readonly Limit[]): Planned {
  return {
    skewsMs: Array.from({length: processes}, () => 0),
    configs: [{scope: SYSTEM, limits}],
    children: {},
    sharedSlots: false,
    cacheSize: USUAL_CACHE_SIZE,
    partitionUnits: 1000,
    longestWayMs: 12,
    aggregatorLagMs: undefined,
    steps: [],
    faults: [],
  }
}

/** Processes with cached buckets keep asking while another client lowers the limits without changing the revision. */
export function loweredByOthers(draws: Draws): Planned {
  const capacity = draws.int(50, 100)
  const limits = [{name: 'rpm', capacity, refillAmount: capacity, refillPeriodSeconds: 60}]
  const lowered = limits.map(limit => ({...limit, capacity: 10, refillAmount: 10}))
  const processes = draws.int(1, 3)
  const steps: Step[] = [
    {atMs: 4000, by: OTHERS, event: {kind: 'python-config', scope: SYSTEM, limits: lowered, isSynced: true}},
  ]
  for (const entity of ['u0', 'u1', 'u2', 'u3']) {
    for (let request = 0; request < 12; request++) {
      // Some buckets are nearly full, some need a refill.
      const tokens = entity < 'u2' ? 1 : Math.ceil(capacity / 8)
      const event: ScenarioEvent = {kind: 'acquire', entity, consume: {rpm: request < 9 ? tokens : 1}, actions: []}
      steps.push({atMs: 400 * request + draws.int(0, 400), by: draws.int(0, processes - 1), event})
    }
  }
  return {...plain(processes, limits), steps}
}
