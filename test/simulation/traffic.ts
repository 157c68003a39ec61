import type {Limit} from '../../src/lib/core/limits/limit.js'
import {FAULT_KINDS, type Fault, type LeaseAction, type ScenarioEvent, type Step, type Tokens} from './scenario.js'
import type {Draws} from './world/draws.js'
import {AGGREGATOR, OTHERS} from './world/world.js'

/** Fast and slow limits, with capacities that are and are not multiples of their rates. */
export function someLimits(draws: Draws, count: number): Limit[] {
  const shapes = [
    {capacity: draws.int(2, 20), refillAmount: draws.int(1, 10), refillPeriodSeconds: 1},
    {capacity: draws.int(5, 100), refillAmount: draws.int(10, 60), refillPeriodSeconds: 60},
    {capacity: draws.int(10, 1000), refillAmount: draws.int(7, 500), refillPeriodSeconds: draws.pick([7, 60, 3600])},
    {capacity: draws.int(1, 10), refillAmount: draws.int(1, 10), refillPeriodSeconds: 86_400},
  ]
  return ['rpm', 'tpm', 'tpd']
    .slice(0, count)
    .map((name, at) => ({name, ...(at === 0 ? draws.pick(shapes.slice(0, 3)) : draws.pick(shapes))}))
}

export function changed(draws: Draws, limits: readonly Limit[]): Limit[] {
  const factor = draws.pick([0.02, 0.1, 0.5, 2, 10])
  const scaled = (tokens: number) => Math.max(1, Math.round(tokens * factor))
  return limits.map(limit => ({...limit, capacity: scaled(limit.capacity), refillAmount: scaled(limit.refillAmount)}))
}

export function fillTimeMs(limits: readonly Limit[]): number {
  return Math.max(
    ...limits.map(
      ({capacity, refillAmount, refillPeriodSeconds}) => (capacity * refillPeriodSeconds * 1000) / refillAmount,
    ),
  )
}

interface Traffic {
  readonly processes: number
  readonly limits: readonly Limit[]
  readonly entities: readonly string[]
  readonly untilMs: number
  readonly count: number
  /** Share of requests with further actions on their lease. */
  readonly lease?: number
  readonly patient?: number
  readonly recycle?: number
  /** Share of requests at the instant of the previous one. Default: 0.4. */
  readonly together?: number
}

/** Requests of all kinds at random instants, some in bursts. */
export function traffic(
  draws: Draws,
  {processes, limits, entities, untilMs, count, lease = 0, patient = 0, recycle = 0, together = 0.4}: Traffic,
): Step[] {
  const steps: Step[] = []
  let atMs = 10
  const gapMs = (2 * untilMs) / count
  for (let request = 0; request < count; request++) {
    if (!draws.chance(together)) atMs += Math.floor(draws.random() * gapMs)
    if (atMs > untilMs) break
    const by = draws.int(0, processes - 1)
    const entity = draws.pick(entities)
    if (draws.chance(recycle)) steps.push({atMs, by, event: {kind: 'recycle'}})
    const consume = someTokens(draws, limits)
    if (draws.chance(0.05)) steps.push({atMs, by, event: {kind: 'available', entity}})
    if (draws.chance(patient)) steps.push({atMs, by, event: {kind: 'patient', entity, consume}})
    else {
      const actions = draws.chance(lease) ? someActions(draws, consume) : []
      const event: ScenarioEvent = {kind: 'acquire', entity, consume, actions}
      steps.push({atMs, by, event: draws.chance(0.06) ? {...event, abortAfterMs: draws.int(0, 20)} : event})
    }
  }
  return steps
}

function someTokens(draws: Draws, limits: readonly Limit[]): Tokens {
  const asked = limits.filter((_, at) => at === 0 || draws.chance(0.7))
  return Object.fromEntries(
    asked.map(({name, capacity}) => {
      const most = draws.pick([1, Math.ceil(capacity / 4), Math.ceil(capacity / 2), capacity])
      return [name, draws.chance(0.02) ? capacity + 1 : draws.int(1, most)]
    }),
  )
}

/** Charges and refunds, then an end; refunds never exceed the holding. */
export function someActions(draws: Draws, consume: Tokens): LeaseAction[] {
  const held = new Map(Object.entries(consume))
  const actions: LeaseAction[] = []
  for (let action = 0; action < draws.int(0, 3); action++) {
    const afterMs = draws.pick([0, 1, 30, 500, 5000])
    const kind = draws.pick(['adjust', 'adjust', 'release', 'consume'] as const)
    const deltas: Record<string, number> = {}
    for (const [name, tokens] of held) {
      const isReturn = kind === 'release' || (kind === 'adjust' && draws.chance(0.5))
      if (isReturn && tokens > 0) deltas[name] = -draws.int(1, tokens)
      else if (!isReturn) deltas[name] = draws.int(1, Math.max(1, Math.ceil((consume[name] ?? 1) / 2)))
    }
    if (Object.keys(deltas).length === 0) continue
    for (const [name, delta] of Object.entries(deltas))
      if (kind !== 'consume') held.set(name, (held.get(name) ?? 0) + delta)
    if (kind === 'adjust') actions.push({kind, deltas, afterMs})
    else
      actions.push({
        kind,
        afterMs,
        amounts: Object.fromEntries(Object.entries(deltas).map(([name, delta]) => [name, Math.abs(delta)])),
      })
  }
  actions.push({
    kind: draws.pick(['commit', 'rollback', 'rollback'] as const),
    afterMs: draws.pick([0, 10, 1000, 20_000]),
  })
  return actions
}

export function kills(draws: Draws, processes: number, untilMs: number): Step[] {
  const steps: Step[] = []
  for (let by = 0; by < processes; by++) {
    if (!draws.chance(0.15)) continue
    const atMs = draws.int(100, untilMs)
    steps.push({atMs, by, event: {kind: 'kill'}}, {atMs: atMs + draws.int(10, 5000), by, event: {kind: 'restart'}})
  }
  return steps
}

/** Instants at which the stream's shards are split. */
export function streamSplits(draws: Draws, untilMs: number): Step[] {
  const count = draws.pick([0, 0, 1, 2])
  return Array.from({length: count}, () => ({atMs: draws.int(0, untilMs), by: OTHERS, event: {kind: 'split-stream'}}))
}

/** Occasional reads of everything. */
export function looks(draws: Draws, untilMs: number): Step[] {
  if (draws.chance(0.7)) return []
  return [{atMs: draws.int(0, untilMs), by: OTHERS, event: {kind: 'look', entity: 'u0'}}]
}

/** Faulty calls of every process, or of the aggregator if there are none. Often only responses are lost. */
export function someFaults(draws: Draws, processes: number, share: number): Fault[] {
  const faults: Fault[] = []
  const kinds = draws.chance(0.3) ? (['lost-before', 'lost-after', 'late'] as const) : FAULT_KINDS
  for (const by of processes === 0 ? [AGGREGATOR] : Array.from({length: processes}, (_, number) => number)) {
    for (let call = 3; call < 200; call++) {
      if (!draws.chance(share)) continue
      // Some arrive between their retry and the next write.
      const delayMs = draws.int(5, draws.pick([60, 4000]))
      faults.push({by, call, kind: draws.pick(kinds), delayMs})
    }
  }
  return faults
}
