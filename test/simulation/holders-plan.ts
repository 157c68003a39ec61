import type {Limit} from '../../src/lib/core/limits/limit.js'
import {type Planned, plain, SYSTEM} from './rare.js'
import {type LeaseAction, RESOURCE, type ScenarioEvent, type Step, type Tokens} from './scenario.js'
import {someFaults, someLimits} from './traffic.js'
import type {Draws} from './world/draws.js'
import {OTHERS} from './world/world.js'

type Acquire = Extract<ScenarioEvent, {kind: 'acquire'}>

const CHILDREN = {c0: 'team', c1: 'team'} as const

/** A second resource, of which some requests take slots too. */
const OTHER_RESOURCE = 'embeddings'

const LONGEST_PAUSE_MS = 90_000

/** How long a process keeps asking after another one died, in ms. */
const ASKING_MS = 60_000

const inFlight = (name: string, capacity: number): Limit => ({
  ...{name, capacity, refillAmount: 0, refillPeriodSeconds: 1, inFlight: true},
})

/** Requests hold slots for a time while processes die, stop and continue, and while limits and buckets change. */
export function planHolders(draws: Draws): Planned {
  const rates = draws.chance(0.3) ? [] : someLimits(draws, draws.int(1, 2)).map(raised)
  const slots = ['parallel', 'batch'].slice(0, draws.int(1, 2)).map(name => inFlight(name, draws.int(1, 6)))
  const limits = [...rates, ...slots]
  const processes = draws.int(2, 4)
  const isFamily = draws.chance(0.3)
  const entities = isFamily ? ['c0', 'c0', 'c1', 'team'] : draws.pick([['u0'], ['u0'], ['u0', 'u1']])
  const untilMs = draws.pick([20_000, 120_000, 300_000])
  const steps: Step[] = []
  let atMs = 10
  const count = draws.int(15, 60)
  for (let request = 0; request < count; request++) {
    if (!draws.chance(0.4)) atMs += Math.floor(draws.random() * ((2 * untilMs) / count))
    const event = someRequest(draws, draws.pick(entities), rates, slots)
    const by = draws.int(0, processes - 1)
    steps.push({atMs, by, event: draws.chance(0.06) ? {...event, abortAfterMs: draws.int(0, 20)} : event})
    if (draws.chance(0.02)) steps.push({atMs, by, event: {kind: 'recycle'}})
  }
  if (draws.chance(0.3)) steps.push(...beforeBeats(draws.pick(entities), processes, slots[0]?.capacity ?? 1))
  if (draws.chance(0.6)) steps.push(...deaths(draws, processes, untilMs, entities))
  if (draws.chance(0.4)) steps.push(...pauses(draws, processes, untilMs, entities, slots[0]?.capacity ?? 1))
  if (draws.chance(0.4)) steps.push(...cuts(draws, processes, untilMs, entities))
  if (draws.chance(0.5)) steps.push(...changes(draws, entities, limits, untilMs))
  const hasClocks = draws.chance(0.3)
  if (hasClocks && draws.chance(0.5)) {
    const ms = draws.chance(0.3) ? draws.pick([40_000, 3_600_000, -3_600_000]) : draws.int(-10_000, 10_000)
    steps.push({atMs: draws.int(1000, untilMs), by: draws.int(0, processes - 1), event: {kind: 'skew', ms}})
  }
  const planned = plain(processes, limits)
  const configs = [...planned.configs]
  const ofOthers = [inFlight('parallel', draws.int(1, 6))]
  configs.push({scope: {level: 'resource', resource: OTHER_RESOURCE}, limits: ofOthers})
  if (isFamily && draws.chance(0.7)) {
    const scope = {level: 'entity', entity: 'team', resource: RESOURCE} as const
    configs.push({scope, limits: [...rates, inFlight('parallel', draws.int(1, 8))]})
  }
  const skewsMs = Array.from({length: processes}, () => (hasClocks ? draws.int(-10_000, 10_000) : 0))
  const faults = draws.chance(0.5) ? someFaults(draws, processes, draws.pick([0.03, 0.08, 0.2])) : []
  const partitionUnits = draws.pick([4, 1000, 1000, 1000])
  const sharedSlots = draws.chance(0.1)
  if (draws.chance(0.4)) steps.push(...orphans(draws, processes, untilMs, draws.pick(entities)))
  return {...planned, configs, children: CHILDREN, skewsMs, steps, faults, partitionUnits, sharedSlots}
}

/**
 * A process dies or is cut off, with slots or while it returns them: that write arrives after others have returned them.
 * Two others that just started look for it at the same time.
 */
function orphans(draws: Draws, processes: number, untilMs: number, entity: string): Step[] {
  const [by, atMs] = [draws.int(0, processes - 1), draws.int(1000, untilMs)]
  const returns = draws.chance(0.5)
  const actions: LeaseAction[] = [{kind: 'commit', afterMs: returns ? 1000 : 60_000}]
  const late = {kind: 'cut', ms: 900, answers: true, beats: false, lateMs: draws.int(45_000, 58_000)} as const
  const off = {kind: 'cut', ms: 70_000, answers: false, beats: false} as const
  const steps: Step[] = [
    {atMs, by, event: {kind: 'acquire', entity, consume: {}, slots: {parallel: draws.pick([1, 1, 2])}, actions}},
    {atMs: atMs + 1700, by, event: draws.chance(0.7) ? {kind: 'kill'} : off},
  ]
  if (returns) steps.push({atMs: atMs + 800, by, event: late})
  const others = [1, 2].filter(other => other < processes).map(other => (by + other) % processes)
  for (const other of others) steps.push({atMs: atMs + 1800, by: other, event: {kind: 'recycle'}})
  return [...steps, ...asks(draws, others, entity, atMs + 1800)]
}

/** A process takes all slots before it has beaten: others, which are refused, find an account without a record. */
function beforeBeats(entity: string, processes: number, parallel: number): Step[] {
  const ask = (by: number, atMs: number, slots: number, afterMs: number): Step => {
    const actions: LeaseAction[] = [{kind: 'commit', afterMs}]
    return {atMs, by, event: {kind: 'acquire', entity, consume: {}, slots: {parallel: slots}, actions}}
  }
  const cut = {kind: 'cut', ms: 230, answers: false, beats: true} as const
  const steps = [ask(1, 2, 1, 0), {atMs: 204, by: 0, event: cut}, ask(0, 205, parallel, 2000)]
  for (let atMs = 300; atMs < 420; atMs += 40) for (let by = 1; by < processes; by++) steps.push(ask(by, atMs, 1, 2000))
  return steps
}

/** Every lease ends while its process lives. */
export function endLeases(planned: Planned): Planned {
  const steps = planned.steps.map((step): Step => {
    const {event} = step
    if (event.kind !== 'acquire' || event.actions.some(({kind}) => kind === 'commit' || kind === 'rollback'))
      return step
    return {...step, event: {...event, actions: [...event.actions, {kind: 'commit', afterMs: 50}]}}
  })
  return {...planned, steps}
}

/** Rates that seldom refuse. */
function raised(limit: Limit): Limit {
  return {...limit, capacity: limit.capacity * 20, refillAmount: limit.refillAmount * 20}
}

function someRequest(draws: Draws, entity: string, rates: readonly Limit[], slots: readonly Limit[]): Acquire {
  const consume: Tokens = Object.fromEntries(rates.map(({name}) => [name, draws.int(1, 3)]))
  const actions: LeaseAction[] = []
  const [rate] = rates
  if (rate && draws.chance(0.3))
    actions.push({kind: 'adjust', deltas: {[rate.name]: draws.pick([-1, 2])}, afterMs: draws.pick([0, 500])})
  const afterMs = draws.pick([0, 0, 10, 500, 5000, 20_000, 60_000, 120_000])
  actions.push({kind: draws.pick(['commit', 'commit', 'rollback'] as const), afterMs})
  // A request names at least one limit.
  const isNamed = rates.length === 0 || draws.chance(0.3)
  const named = Object.fromEntries(
    slots.map(({name}) => [name, draws.pick(rates.length === 0 ? [1, 1, 2, 3] : [0, 1, 2, 3])]),
  )
  return {
    ...{kind: 'acquire', entity, consume, actions},
    ...(isNamed && {slots: named}),
    ...(draws.chance(0.15) && {resources: {[OTHER_RESOURCE]: {parallel: draws.pick([1, 1, 2])}}}),
  }
}

/** Processes die; another one often keeps asking. */
function deaths(draws: Draws, processes: number, untilMs: number, entities: readonly string[]): Step[] {
  const steps: Step[] = []
  for (let death = 0; death < draws.int(1, 3); death++) {
    const by = draws.int(0, processes - 1)
    const atMs = draws.int(1000, untilMs)
    steps.push({atMs, by, event: {kind: 'kill'}})
    if (draws.chance(0.8)) steps.push({atMs: atMs + draws.pick([10, 2000, 50_000]), by, event: {kind: 'restart'}})
    if (draws.chance(0.3)) continue
    const [asker, entity] = [(by + 1) % processes, draws.pick(entities)]
    // Two processes that compare the same beat at the same time return the slots at the same time.
    const askers = draws.chance(0.5) ? [asker] : [asker, (by + 2) % processes]
    steps.push(...asks(draws, askers, entity, atMs))
  }
  return steps
}

/** Others ask for the slots of a process, again and again. */
function asks(draws: Draws, askers: readonly number[], entity: string, sinceMs: number): Step[] {
  const steps: Step[] = []
  const everyMs = draws.pick([1100, 3000, 8000])
  for (let askMs = draws.int(1000, 5000); askMs < ASKING_MS; askMs += everyMs) {
    const slots = {parallel: draws.pick([1, 1, 3])}
    const actions: LeaseAction[] = [{kind: 'commit', afterMs: draws.pick([0, 0, 500])}]
    for (const by of askers)
      steps.push({atMs: sinceMs + askMs, by, event: {kind: 'acquire', entity, consume: {}, slots, actions}})
  }
  return steps
}

/** The calls of a process that works fail for a time. Then a single beat may succeed, or its answer arrive late. */
function cuts(draws: Draws, processes: number, untilMs: number, entities: readonly string[]): Step[] {
  const [by, entity] = [draws.int(0, processes - 1), draws.pick(entities)]
  const startMs = draws.int(1000, untilMs)
  const steps: Step[] = []
  const slots = {parallel: 1}
  const actions: LeaseAction[] = [{kind: 'commit', afterMs: draws.pick([60_000, 120_000])}]
  steps.push({atMs: startMs, by, event: {kind: 'acquire', entity, consume: {}, slots, actions}})
  let atMs = startMs + draws.int(500, 12_000)
  for (let cut = 0; cut < draws.int(1, 3); cut++) {
    const ms = draws.pick([3000, 12_000, 25_000, 60_000])
    steps.push({atMs, by, event: {kind: 'cut', ms, answers: draws.chance(0.5), beats: draws.chance(0.5)}})
    atMs += ms + draws.int(500, 4000)
  }
  if (draws.chance(0.7)) steps.push(...asks(draws, [(by + 1) % processes], entity, startMs))
  // It asks too, with a holder that may be lost.
  if (draws.chance(0.5)) steps.push(...asks(draws, [by], entity, startMs))
  return steps
}

function pauses(
  draws: Draws,
  processes: number,
  untilMs: number,
  entities: readonly string[],
  capacity: number,
): Step[] {
  return Array.from({length: draws.int(1, 3)}).flatMap((): Step[] => {
    const event = {kind: 'pause', ms: draws.int(5000, LONGEST_PAUSE_MS), isSuspended: draws.chance(0.4)} as const
    const [atMs, by] = [draws.int(1000, untilMs), draws.int(0, processes - 1)]
    const pause = {atMs, by, event}
    if (draws.chance(0.5)) return [pause]
    // It works when it is stopped, and asks for more as soon as it continues.
    const entity = draws.pick(entities)
    const ask = (actions: LeaseAction[], parallel = 1): ScenarioEvent => ({
      ...{kind: 'acquire', entity, consume: {}, slots: {parallel}, actions},
    })
    const works = {
      atMs: Math.max(0, atMs - 800),
      by,
      event: ask([{kind: 'commit', afterMs: 120_000}], Math.max(1, capacity - 1)),
    }
    // It decides when it is stopped, and goes on with an answer from before.
    const decides = {atMs: Math.max(0, atMs - draws.int(1, 25)), by, event: ask([{kind: 'commit', afterMs: 1000}])}
    // Its former lease ends while it holds new slots.
    const continues = {atMs: atMs + event.ms + 5, by, event: ask([{kind: 'commit', afterMs: 120_000}])}
    const others = draws.chance(0.5) ? asks(draws, [(by + 1) % processes], entity, atMs) : []
    return [pause, works, decides, continues, ...others]
  })
}

/** Capacities are raised, lowered, removed and added again; buckets are split, copied, reset, deleted and bypassed. */
function changes(draws: Draws, entities: readonly string[], limits: readonly Limit[], untilMs: number): Step[] {
  const steps: Step[] = []
  const change = (event: ScenarioEvent, atMs = draws.int(1000, untilMs)) => steps.push({atMs, by: OTHERS, event})
  const scope = SYSTEM
  for (let at = 0; at < draws.int(1, 3); at++) {
    const entity = draws.pick(entities)
    const kind = draws.pick([
      'limits',
      'limits',
      'limits',
      'split',
      'split',
      'python-clone',
      'heat',
      'reset',
      'delete-entity',
      'bypass',
    ] as const)
    if (kind === 'limits') {
      const atMs = draws.int(1000, untilMs)
      const changed = limits.flatMap(limit => {
        if (!limit.inFlight || draws.chance(0.3)) return [limit]
        return draws.chance(0.4) ? [] : [{...limit, capacity: draws.int(1, 8)}]
      })
      if (changed.length > 0) change({kind: 'set-limits', scope, limits: changed}, atMs)
      if (draws.chance(0.5)) change({kind: 'set-limits', scope, limits}, atMs + draws.pick([1000, 70_000]))
    } else if (kind === 'heat') change({kind, entity, writes: 5000})
    else if (kind === 'bypass') {
      const atMs = draws.int(1000, untilMs)
      const place = {level: 'entity', entity, resource: RESOURCE} as const
      change({kind: 'set-access', scope: place, access: 'bypass'}, atMs)
      change({kind: 'set-access', scope: place, access: undefined}, atMs + draws.pick([2000, 90_000]))
    } else change({kind, entity})
  }
  return steps
}
