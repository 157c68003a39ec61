import {type Limit, makeLimit} from '../../../src/lib/core/limits/limit.js'
import {type Planned, plain, SYSTEM} from '../rare.js'
import {type LeaseAction, type Profile, RESOURCE, type ScenarioEvent, type Step, type Tokens} from '../scenario.js'
import {kills, someActions, someFaults} from '../traffic.js'
import type {Draws} from '../world/draws.js'
import {START_MS} from '../world/virtual-time.js'
import {OTHERS} from '../world/world.js'
import {
  boundariesOf,
  changedQuota,
  type Place,
  quotaAtClockChange,
  scheduledRate,
  softLimit,
  somePlace,
  someQuota,
} from './some-quotas.js'

const CHILDREN = {c0: 'team', c1: 'team'} as const

/** Settings of a scenario. */
interface Plot {
  readonly place: Place
  readonly quota: Limit
  readonly limits: readonly Limit[]
  readonly processes: number
  readonly entities: readonly string[]
  /** Epoch ms. */
  readonly boundaries: readonly number[]
}

/** Quotas, schedules, soft limits and switches around the starts of windows. */
export function planQuotas(draws: Draws): Planned {
  if (draws.chance(0.2)) return sessionsOverShards(draws)
  const place = somePlace(draws)
  return planAround(draws, place, someQuota(draws, place))
}

/** Seeds of `quotas` that play around a clock change; the others stay the same. */
export const isAboutClocks = (profile: Profile, seed: number): boolean => profile === 'quotas' && seed % 8 === 5

/** Rare otherwise. */
export const isAboutSplits = (profile: Profile, seed: number): boolean => profile === 'quotas' && seed % 8 === 3

export function planClockChange(draws: Draws): Planned {
  const {place, quota} = quotaAtClockChange(draws)
  return planAround(draws, place, quota)
}

function planAround(draws: Draws, place: Place, quota: Limit): Planned {
  const limits = [
    quota,
    ...(draws.chance(0.3) ? [scheduledRate(draws, place)] : []),
    ...(draws.chance(0.25) ? [softLimit(draws)] : []),
    ...(draws.chance(0.3) ? [{name: 'rpm', capacity: 20, refillAmount: 60, refillPeriodSeconds: 60}] : []),
  ]
  const isFamily = draws.chance(0.3)
  const processes = draws.int(1, 3)
  const entities = isFamily ? ['c0', 'c1', 'team'] : ['u0']
  const boundaries = boundariesOf(quota, place, draws.int(2, 5))
  const plot = {place, quota, limits, processes, entities, boundaries}
  const steps = boundaries.flatMap((endMs, at) =>
    windowTraffic(draws, plot, boundaries[at - 1] ?? place.originMs, endMs),
  )
  steps.push(...others(draws, plot))
  const lastMs = (boundaries.at(-1) ?? 0) - START_MS
  const firstMs = place.originMs - START_MS
  const killed = draws.chance(0.3) ? kills(draws, processes, lastMs - firstMs) : []
  const team = {level: 'entity', entity: 'team', resource: RESOURCE} as const
  const parent = someQuota(draws, place, Math.max(1, Math.round(quota.capacity * draws.pick([0.7, 1.5, 3]))))
  const configs = [
    {scope: SYSTEM, limits},
    ...(isFamily && draws.chance(0.7) ? [{scope: team, limits: [parent, ...limits.slice(1)]}] : []),
  ]
  const isSkewed = draws.chance(0.35)
  return {
    ...plain(processes, limits),
    configs,
    children: isFamily ? CHILDREN : {},
    skewsMs: Array.from({length: processes}, () => (isSkewed ? draws.int(-10_000, 10_000) : 0)),
    steps: [
      ...steps,
      ...killed.map(step => ({...step, atMs: step.atMs + firstMs})),
      ...(isSkewed ? jumps(draws, plot) : []),
    ],
    faults: draws.chance(0.4) ? someFaults(draws, processes, draws.pick([0.05, 0.15])) : [],
    aggregatorLagMs: draws.chance(0.4) ? draws.pick([200, 2000]) : undefined,
  }
}

/** Leases that hold much of a quota when its bucket is split, and refund it in the same window. */
export function leasesAcrossSplits(draws: Draws): Planned {
  const place = somePlace(draws)
  const capacity = draws.int(40, 400)
  const reset = draws.pick([{afterSeconds: 3600}, {crons: ['0 0 * * *'], zone: 'UTC'}])
  const quota = makeLimit({name: 'q', capacity, refillAmount: 0, refillPeriodSeconds: 1, reset})
  const processes = draws.int(1, 3)
  const firstMs = place.originMs - START_MS
  const splits = draws.int(1, 3)
  const steps: Step[] = Array.from({length: splits}, (_, at) => ({
    atMs: firstMs + 3000 * (at + 1),
    by: OTHERS,
    event: {kind: 'split', entity: 'u0'},
  }))
  for (let request = 0; request < draws.int(4, 10); request++) {
    const consume = {q: draws.int(1, Math.ceil(capacity / 3))}
    const actions: LeaseAction[] = []
    if (draws.chance(0.4)) actions.push({kind: 'adjust', deltas: {q: draws.int(-1, 9)}, afterMs: draws.int(0, 6000)})
    actions.push({kind: draws.pick(['rollback', 'rollback', 'commit'] as const), afterMs: draws.int(0, 8000)})
    const atMs = firstMs + draws.int(0, 3000 * splits + 2000)
    steps.push({atMs, by: draws.int(0, processes - 1), event: {kind: 'acquire', entity: 'u0', consume, actions}})
  }
  return {...plain(processes, [quota]), steps}
}

/** Small requests of several processes in successive sessions: one shard opens each, the others start it. */
function sessionsOverShards(draws: Draws): Planned {
  const place = somePlace(draws)
  const afterSeconds = draws.pick([60, 600])
  const capacity = draws.int(8, 40)
  const quota = makeLimit({name: 'q', capacity, refillAmount: 0, refillPeriodSeconds: 1, reset: {afterSeconds}})
  const processes = draws.int(1, 3)
  const firstMs = place.originMs - START_MS
  const ask = (atMs: number, tokens: number): Step => ({
    atMs,
    by: draws.int(0, processes - 1),
    event: {kind: 'acquire', entity: 'u0', consume: {q: tokens}, actions: []},
  })
  const steps: Step[] = [ask(firstMs, 1), {atMs: firstMs + 500, by: OTHERS, event: {kind: 'split', entity: 'u0'}}]
  for (let session = 1; session <= 3; session++) {
    const startMs = firstMs + session * (afterSeconds * 1000 + 2000)
    for (let request = 0; request < draws.int(4, 12); request++)
      steps.push(
        ask(startMs + draws.int(0, draws.pick([100, afterSeconds * 900])), draws.int(1, Math.ceil(capacity / 4))),
      )
  }
  return {...plain(processes, [quota]), steps}
}

/** Requests of one window: at its start, in its middle and at its end; their sum often exceeds the allowance. */
function windowTraffic(draws: Draws, plot: Plot, startMs: number, endMs: number): Step[] {
  const {processes, entities, limits} = plot
  const steps: Step[] = []
  const lengthMs = endMs - startMs
  for (let request = 0; request < draws.int(4, 14); request++) {
    const atMs = Math.max(plot.place.originMs, instant()) - START_MS
    const by = draws.int(0, processes - 1)
    const entity = draws.pick(entities)
    const consume = someTokens(draws, limits)
    if (draws.chance(0.1)) steps.push({atMs, by, event: {kind: 'recycle'}})
    if (draws.chance(0.15)) steps.push({atMs, by, event: {kind: 'patient', entity, consume}})
    else {
      const actions = draws.chance(0.4) ? someActions(draws, consume) : []
      // Some leases are refunded in the next window.
      const late = actions.map(action => ({
        ...action,
        afterMs: draws.chance(0.2) ? Math.floor(lengthMs / 2) : action.afterMs,
      }))
      steps.push({atMs, by, event: {kind: 'acquire', entity, consume, actions: late}})
    }
  }
  return steps

  function instant(): number {
    const where = draws.random()
    if (where < 0.25) return startMs + draws.int(0, 40)
    if (where < 0.4) return startMs + draws.int(-12_000, 12_000)
    if (where < 0.5) return endMs - draws.int(0, 40)
    return startMs + Math.floor(draws.random() * lengthMs)
  }
}

function someTokens(draws: Draws, limits: readonly Limit[]): Tokens {
  const asked = limits.filter((_, at) => at === 0 || draws.chance(0.4))
  return Object.fromEntries(
    asked.map(({name, capacity, soft}) => {
      const most = draws.pick([1, Math.ceil(capacity / 4), Math.ceil(capacity / 2), capacity])
      return [name, draws.int(1, soft ? 2 * capacity : most)]
    }),
  )
}

/** Actions of operators and other clients. */
function others(draws: Draws, plot: Plot): Step[] {
  const {place, quota, limits, entities, boundaries} = plot
  const steps: Step[] = []
  const lastMs = boundaries.at(-1) ?? place.originMs
  const at = () => {
    const near = draws.pick(boundaries) + draws.int(-3000, 3000)
    const anywhere = place.originMs + Math.floor(draws.random() * (lastMs - place.originMs))
    return Math.max(place.originMs, draws.chance(0.4) ? near : anywhere) - START_MS
  }
  const add = (event: ScenarioEvent, atMs = at()) => steps.push({atMs, by: OTHERS, event})
  const entity = () => draws.pick(entities)
  const rest = limits.slice(1)
  if (draws.chance(0.6))
    for (let split = 0; split < draws.int(1, 2); split++) {
      const whose = entity()
      const atMs = draws.chance(0.5) ? at() : place.originMs + 1000 + split * 500 - START_MS
      add({kind: 'split', entity: whose}, atMs)
      // A split needs an existing bucket.
      const event: ScenarioEvent = {kind: 'acquire', entity: whose, consume: {q: 1}, actions: []}
      steps.push({atMs: atMs - 500, by: 0, event})
    }
  if (draws.chance(0.2)) add({kind: 'peer-grow', entity: entity(), cloneAfterMs: draws.pick([0, 100, 3000, undefined])})
  if (draws.chance(0.3))
    for (let taken = 0; taken < draws.int(1, 6); taken++) {
      const consume = {q: draws.int(1, Math.ceil(quota.capacity / 3))}
      add({kind: 'peer-consume', entity: entity(), consume, spreadAfterMs: draws.pick([0, 50, 2000, undefined])})
    }
  if (draws.chance(0.3)) {
    const changed = [changedQuota(draws, quota, place), ...rest]
    const backAtMs = at()
    add(someChange(draws, changed), Math.min(backAtMs, at()))
    if (draws.chance(0.6)) add(someChange(draws, limits), backAtMs)
  }
  if (draws.chance(0.15)) add({kind: 'reset', entity: entity()})
  if (draws.chance(0.25))
    for (let bought = 0; bought < draws.int(1, 3); bought++) {
      const event: ScenarioEvent = {
        kind: 'top-up',
        entity: entity(),
        tokens: draws.int(1, quota.capacity),
        key: `order-${bought}`,
      }
      const atMs = at()
      add(event, atMs)
      // Repeat it, at once or later.
      if (draws.chance(0.5)) add(event, atMs + draws.pick([0, 5, 200, 30_000]))
    }
  if (draws.chance(0.1)) add({kind: 'expire'})
  if (draws.chance(0.05)) add({kind: 'delete-entity', entity: entity()})
  if (draws.chance(0.3)) {
    const scope = draws.pick([
      SYSTEM,
      {level: 'entity', entity: entity(), resource: RESOURCE} as const,
      {level: 'entity', entity: entity(), resource: '_default_'} as const,
    ])
    const kind = draws.pick(['set-access', 'peer-access'] as const)
    const fromMs = at() + 2000
    // Processes that cache the bucket and have just read the configuration.
    for (const by of Array(plot.processes).keys())
      for (const whose of entities)
        steps.push({
          atMs: fromMs - draws.int(500, 1500),
          by,
          event: {kind: 'acquire', entity: whose, consume: {q: 1}, actions: [{kind: 'rollback', afterMs: 0}]},
        })
    add({kind, scope, access: 'disabled'}, fromMs)
    if (draws.chance(0.3))
      add(
        {kind, scope: {level: 'entity', entity: entity(), resource: RESOURCE}, access: 'enabled'},
        fromMs + draws.int(0, 5000),
      )
    if (draws.chance(0.8))
      add({kind, scope, access: draws.pick(['enabled', undefined])}, fromMs + draws.pick([200, 5000, 70_000]))
    // Other requests at the same moment.
    for (let request = 0; request < draws.int(2, 6); request++)
      steps.push({
        atMs: fromMs + draws.pick([0, 20, 100, 1000, 5000, 70_000]) + draws.int(0, 100),
        by: draws.int(0, plot.processes - 1),
        event: {kind: 'acquire', entity: entity(), consume: {q: 1}, actions: []},
      })
  }
  return steps
}

function someChange(draws: Draws, limits: readonly Limit[]): ScenarioEvent {
  if (draws.chance(0.6)) return {kind: 'set-limits', scope: SYSTEM, limits}
  return {kind: 'peer-config', scope: SYSTEM, limits, isSynced: draws.chance(0.6)}
}

/** Clocks jump, mostly by seconds. */
function jumps(draws: Draws, {processes, boundaries}: Plot): Step[] {
  return Array.from({length: draws.int(0, 2)}, () => ({
    atMs: draws.pick(boundaries) + draws.int(-15_000, 15_000) - START_MS,
    by: draws.int(0, processes - 1),
    event: {kind: 'skew', ms: draws.int(-10_000, 10_000)} as const,
  }))
}
