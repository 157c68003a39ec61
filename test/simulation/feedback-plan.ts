import type {Limit} from '../../src/lib/core/limits/limit.js'
import {type Planned, plain, SYSTEM} from './rare.js'
import {RESOURCE, type ScenarioEvent, type Step, type Tokens} from './scenario.js'
import {changed, kills, someFaults, someLimits, traffic} from './traffic.js'
import type {Draws} from './world/draws.js'
import {OTHERS} from './world/world.js'

/** A provider as an entity and as a parent. Its feedback reaches several processes, late and repeatedly. */
export function planFeedback(draws: Draws): Planned {
  const limits = someLimits(draws, draws.int(1, 3))
  const processes = draws.int(2, 4)
  const isParent = draws.chance(0.3)
  const provider = isParent ? 'team' : 'u0'
  const untilMs = draws.pick([5000, 60_000, 200_000])
  const steps = traffic(draws, {
    processes,
    limits,
    entities: isParent ? ['c0', 'c1', 'team'] : ['u0'],
    untilMs,
    count: draws.int(15, 45),
    lease: draws.pick([0.2, 0.7]),
    patient: draws.pick([0, 0.2]),
    recycle: draws.pick([0, 0.1]),
  })
  for (let feedback = 0; feedback < draws.int(4, 20); feedback++) {
    const atMs = draws.int(20, untilMs)
    const event = someFeedback(draws, provider, limits)
    steps.push({atMs, by: draws.int(0, processes - 1), event})
    // The same feedback to another process, or again to the same one.
    for (let again = 0; again < draws.pick([0, 0, 1, 3]); again++)
      steps.push({atMs: atMs + draws.pick([0, 1, 40, 2000]), by: draws.int(0, processes - 1), event})
  }
  const others: ScenarioEvent[] = [
    {kind: 'set-limits', scope: SYSTEM, limits: changed(draws, limits)},
    {kind: 'split', entity: provider},
    {kind: 'split', entity: provider},
    {kind: 'reset', entity: provider},
    {kind: 'delete-entity', entity: provider},
    {kind: 'expire'},
  ]
  for (const event of others) if (draws.chance(0.15)) steps.push({atMs: draws.int(100, untilMs), by: OTHERS, event})
  const skewsMs = draws.chance(0.3) ? Array.from({length: processes}, () => draws.int(-5000, 5000)) : undefined
  const isFaulty = draws.chance(0.6)
  return {
    ...plain(processes, limits),
    ...(skewsMs && {skewsMs}),
    ...(isParent && {
      children: {c0: 'team', c1: 'team'},
      configs: [
        ...plain(processes, limits).configs,
        {scope: {level: 'entity', entity: 'team', resource: RESOURCE} as const, limits},
      ],
    }),
    steps: [...steps, ...(isFaulty ? kills(draws, processes, untilMs) : [])] satisfies Step[],
    faults: isFaulty ? someFaults(draws, processes, draws.pick([0.05, 0.15, 0.3])) : [],
    aggregatorLagMs: draws.chance(0.3) ? 2000 : undefined,
  }
}

function someFeedback(draws: Draws, entity: string, limits: readonly Limit[]): ScenarioEvent {
  const some = (least: number): Tokens =>
    Object.fromEntries(
      limits.filter(() => draws.chance(0.7)).map(({name, capacity}) => [name, draws.int(least, capacity)]),
    )
  const left = draws.chance(0.7) ? some(0) : undefined
  const ageMs = draws.pick([0, 0, 1000, 20_000])
  if (left && draws.chance(0.8)) return {kind: 'report-feedback', entity, left, ageMs}
  const refused = {consume: some(draws.pick([0, 1])), retryAfterMs: draws.pick([0, 1, 300, 2000, 30_000])}
  return {kind: 'report-feedback', entity, refused, ...(left && {left, ageMs})}
}
