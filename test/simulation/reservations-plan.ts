import {type Limit, makeLimit} from '../../src/lib/core/limits/limit.js'
import {type Planned, plain} from './rare.js'
import type {LeaseAction, ScenarioEvent, Step} from './scenario.js'
import {someFaults} from './traffic.js'
import type {Draws} from './world/draws.js'
import {OTHERS} from './world/world.js'

const CHILDREN = {c0: 'team', c1: 'team'} as const

/** Longest stop of a process, in ms: others take it for dead after 35 seconds. */
const LONGEST_PAUSE_MS = 120_000

/** How long another process keeps asking after a death, in ms. */
const ASKING_MS = 120_000

/** Leases reserve quota tokens while processes die, stop and continue, periods end, and buckets change. */
export function planReservations(draws: Draws): Planned {
  const quota = someReservedQuota(draws)
  const rate: Limit = {name: 'rpm', capacity: 500, refillAmount: 500, refillPeriodSeconds: 60}
  const limits = draws.chance(0.5) ? [quota, rate] : [quota]
  const processes = draws.int(2, 4)
  const isFamily = draws.chance(0.3)
  const entities = isFamily ? ['c0', 'c0', 'c1', 'team'] : draws.pick([['u0'], ['u0'], ['u0', 'u1']])
  const untilMs = draws.pick([60_000, 300_000, 900_000])
  const steps: Step[] = []
  let atMs = 10
  const count = draws.int(10, 40)
  for (let request = 0; request < count; request++) {
    if (!draws.chance(0.3)) atMs += Math.floor(draws.random() * ((2 * untilMs) / count))
    const by = draws.int(0, processes - 1)
    steps.push({atMs, by, event: someRequest(draws, draws.pick(entities), limits)})
    if (draws.chance(0.02)) steps.push({atMs, by, event: {kind: 'recycle'}})
  }
  for (let death = 0; death < draws.int(0, 3); death++) {
    const by = draws.int(0, processes - 1)
    const killMs = draws.int(1000, untilMs)
    steps.push({atMs: killMs, by, event: {kind: 'kill'}})
    if (draws.chance(0.7)) steps.push({atMs: killMs + draws.pick([10, 2000, 50_000]), by, event: {kind: 'restart'}})
    const entity = draws.pick(entities)
    // Two processes that compare the same beat at the same time return the tokens at the same time.
    const askers = draws.chance(0.5) ? [1] : [1, 2]
    for (let askMs = draws.int(1000, 5000); askMs < ASKING_MS; askMs += 7000) {
      const actions: LeaseAction[] = [{kind: 'rollback', afterMs: 0}]
      const consume = {[quota.name]: quota.capacity}
      for (const asker of askers)
        steps.push({
          ...{atMs: killMs + askMs, by: (by + asker) % processes},
          event: {kind: 'acquire', entity, consume, actions},
        })
    }
  }
  for (let pause = 0; pause < draws.int(0, 2); pause++) {
    const event = {kind: 'pause', ms: draws.int(20_000, LONGEST_PAUSE_MS), isSuspended: draws.chance(0.4)} as const
    steps.push({atMs: draws.int(1000, untilMs), by: draws.int(0, processes - 1), event})
  }
  for (let change = 0; change < draws.int(0, 2); change++) {
    const kind = draws.pick(['split', 'split', 'heat', 'reset', 'delete-entity'] as const)
    const [changeMs, entity] = [draws.int(1000, untilMs), draws.pick(entities)]
    const event = kind === 'heat' ? ({kind, entity, writes: 5000} as const) : ({kind, entity} as const)
    steps.push({atMs: changeMs, by: OTHERS, event})
  }
  const skewsMs = Array.from({length: processes}, () => (draws.chance(0.2) ? draws.int(-10_000, 10_000) : 0))
  const faults = draws.chance(0.5) ? someFaults(draws, processes, draws.pick([0.03, 0.08, 0.2])) : []
  const sharedSlots = draws.chance(0.1)
  if (draws.chance(0.6)) steps.push(...orphans(draws, quota, processes, untilMs, draws.pick(entities)))
  if (draws.chance(0.3)) steps.push(...lateStore(draws, processes, untilMs, draws.pick(entities)))
  return {...plain(processes, limits), children: CHILDREN, skewsMs, steps, faults, sharedSlots}
}

const reserved = (entity: string, q: number, end: LeaseAction): ScenarioEvent => ({
  ...{kind: 'acquire', entity, consume: {q}, actions: [end], reserve: true},
})

/** A process dies or stops with reserved tokens, and two others that just started look for it at the same time. */
function orphans(draws: Draws, quota: Limit, processes: number, untilMs: number, entity: string): Step[] {
  const by = draws.int(0, processes - 1)
  // Near the end of a period of five minutes, or anywhere.
  const atMs = draws.chance(0.4) ? draws.pick([100_000, 400_000]) - draws.int(3000, 30_000) : draws.int(1000, untilMs)
  const stops = draws.chance(0.4)
  const event: ScenarioEvent = stops ? {kind: 'pause', ms: 70_000, isSuspended: false} : {kind: 'kill'}
  const end = {kind: draws.pick(['commit', 'rollback'] as const), afterMs: 60_000}
  const steps: Step[] = [
    {atMs, by, event: reserved(entity, Math.ceil(quota.capacity / 2), end)},
    {atMs: atMs + 2500, by, event},
  ]
  if (draws.chance(0.2)) steps.push({atMs: atMs + 5000, by: OTHERS, event: {kind: 'delete-entity', entity}})
  for (const asker of [1, 2]) {
    if (asker >= processes) continue
    const other = (by + asker) % processes
    steps.push({atMs: atMs + 3000, by: other, event: {kind: 'recycle'}})
    const actions: LeaseAction[] = [{kind: 'rollback', afterMs: 0}]
    const ask: ScenarioEvent = {kind: 'acquire', entity, consume: {q: quota.capacity}, actions}
    for (const askMs of [4000, 30_000, 55_000]) steps.push({atMs: atMs + askMs, by: other, event: ask})
  }
  return steps
}

/** A reservation is stored late: its lease has ended by then. */
function lateStore(draws: Draws, processes: number, untilMs: number, entity: string): Step[] {
  const [by, atMs] = [draws.int(0, processes - 1), draws.int(5000, untilMs)]
  const late = {kind: 'cut', ms: 600, answers: true, beats: false, lateMs: draws.int(1200, 4000)} as const
  return [
    // So that the process need not beat first.
    {atMs: atMs - 4000, by, event: reserved(entity, 1, {kind: 'commit', afterMs: 2500})},
    {atMs, by, event: reserved(entity, 1, {kind: draws.pick(['commit', 'rollback'] as const), afterMs: 2000})},
    {atMs: atMs + 900, by, event: late},
  ]
}

/** Periods that end once or never while the scenario runs. */
function someReservedQuota(draws: Draws): Limit {
  const quota = {name: 'q', capacity: draws.pick([20, 100, 1000]), refillAmount: 0, refillPeriodSeconds: 1}
  if (draws.chance(0.2)) return makeLimit({...quota, reset: {afterSeconds: draws.pick([120, 18_000])}})
  return makeLimit({...quota, reset: {crons: [draws.pick(['0 0 * * *', '0 0 * * *', '*/5 * * * *'])]}, timeZone: 'UTC'})
}

function someRequest(draws: Draws, entity: string, limits: readonly Limit[]): ScenarioEvent {
  const [quota, ...others] = limits as [Limit, ...Limit[]]
  const tokens = draws.int(1, Math.ceil(quota.capacity / 4))
  const actions: LeaseAction[] = []
  const afterMs = () => draws.pick([0, 500, 1500, 5000, 20_000, 60_000])
  if (draws.chance(0.5)) actions.push({kind: 'adjust', deltas: {q: draws.int(-tokens, 2)}, afterMs: afterMs()})
  if (draws.chance(0.1)) actions.push({kind: 'consume', amounts: {q: 1}, afterMs: afterMs()})
  actions.push({kind: draws.pick(['commit', 'commit', 'rollback'] as const), afterMs: afterMs()})
  const rest = Object.fromEntries(others.map(({name}) => [name, 1]))
  return {kind: 'acquire', entity, consume: {q: tokens, ...rest}, actions, reserve: draws.chance(0.85)}
}
