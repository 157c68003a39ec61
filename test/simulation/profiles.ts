import type {Limit} from '../../src/lib/core/limits/limit.js'
import {batchesInDoubt, isAboutBatches} from './batched-settlements.js'
import {deepen, planFamilies, planHierarchies} from './family-plan.js'
import {planFeedback} from './feedback-plan.js'
import {endLeases, planHolders} from './holders-plan.js'
import {
  chargesAfterAnnouncement,
  firstTriesArriveLate,
  refusalsInDoubt,
  resetsBeforeFirstTries,
  rewritesArriveLate,
  topUpsInDoubt,
} from './late-attempts.js'
import {isAboutClocks, isAboutSplits, leasesAcrossSplits, planClockChange, planQuotas} from './quotas/plan.js'
import {
  batchForNewBucket,
  firstWritesInDoubt,
  gathersInDoubt,
  leaseAcross,
  limitsChangeBehindClock,
  loweredByOthers,
  type Planned,
  plain,
  refundsAfterEviction,
  SYSTEM,
  sharedSlotRush,
  slowLimitFillsUp,
  softnessRunsOut,
} from './rare.js'
import {repeatSome} from './repeats.js'
import {planReservations} from './reservations-plan.js'
import {type Profile, RESOURCE, type Scenario, type ScenarioEvent, type Step, USUAL_CACHE_SIZE} from './scenario.js'
import {settleSomeSoon} from './settle-soon.js'
import {changed, fillTimeMs, kills, looks, someFaults, someLimits, streamSplits, traffic} from './traffic.js'
import {Draws} from './world/draws.js'
import {START_MS} from './world/virtual-time.js'
import {OTHERS} from './world/world.js'

const ENTITIES = ['u0', 'u1'] as const
const CHILDREN = {c0: 'team', c1: 'team'} as const

/** Generates a scenario, always the same for one seed. */
export function scenarioOf(profile: Profile, seed: number): Scenario {
  const draws = new Draws(seed * 2_654_435 + profile.length)
  const planned = planOf(profile, seed, draws)
  // Separate draws, so that the rest of a seed does not depend on these.
  const settled = settleSomeSoon(planned, new Draws(seed * 7919 + profile.length))
  const cacheSize = Math.min(planned.cacheSize, someCacheSize(new Draws(seed * 104_729 + profile.length)))
  const synced = syncSome(settled, new Draws(seed * 32_452_843 + profile.length))
  const repeated = repeatSome(synced, seed, new Draws(seed * 15_485_863 + profile.length))
  const ended = profile === 'holders' || profile === 'reservations' ? endLeases(repeated) : repeated
  return {seed, profile, ...deepenSome(profile, ended, new Draws(seed * 6_700_417 + profile.length)), cacheSize}
}

function planOf(profile: Profile, seed: number, draws: Draws): Planned {
  if (isAboutBatches(profile, seed)) return batchesInDoubt(draws, profile)
  // Rare otherwise: some seeds play only this.
  if (profile === 'config' && seed % 6 === 0) return loweredByOthers(draws)
  if (profile === 'faults' && seed % 12 === 1) return refundsAfterEviction(draws)
  if (profile === 'family' && seed % 2 === 1) return planHierarchies(draws)
  if (isAboutSplits(profile, seed)) return leasesAcrossSplits(draws)
  return isAboutClocks(profile, seed) ? planClockChange(draws) : PLANS[profile](draws)
}

/** Some children get a grandparent and its parent, which are charged too. */
function deepenSome(profile: Profile, planned: Planned, draws: Draws): Planned {
  return profile !== 'family' && draws.chance(0.3) ? deepen(planned) : planned
}

/** Half of the Python configurations also update buckets. */
function syncSome(planned: Planned, draws: Draws): Planned {
  const isSynced = draws.chance(0.5)
  const steps = planned.steps.map(step =>
    step.event.kind === 'python-config' ? {...step, event: {isSynced, ...step.event}} : step,
  )
  return {...planned, steps}
}

/** One of five seeds uses a tiny cache. */
function someCacheSize(draws: Draws): number {
  return draws.pick([1, 2, ...Array.from({length: 8}, () => USUAL_CACHE_SIZE)])
}

const scopeOf = (entity: string) => ({level: 'entity', entity, resource: RESOURCE}) as const

const PLANS: Record<Profile, (draws: Draws) => Planned> = {
  burst: draws => {
    if (draws.chance(0.25)) return draws.pick([slowLimitFillsUp, softnessRunsOut])(draws)
    const limits = someLimits(draws, 1)
    const [limit] = limits as [Limit]
    const fillMs = fillTimeMs(limits)
    const processes = draws.int(2, 4)
    const steps: Step[] = []
    let atMs = 0
    for (let burst = 0; burst < draws.int(2, 4); burst++) {
      for (let by = 0; by < processes; by++) {
        if (draws.chance(0.3)) steps.push({atMs: atMs + draws.int(0, 5), by, event: {kind: 'recycle'}})
        for (let request = 0; request < draws.int(1, 4); request++) {
          const consume = {[limit.name]: draws.int(1, limit.capacity)}
          const event: ScenarioEvent = {kind: 'acquire', entity: 'u0', consume, actions: []}
          steps.push({atMs: atMs + 10 + draws.int(0, 30), by, event})
        }
        if (draws.chance(0.1)) steps.push({atMs: atMs + draws.int(10, 60), by, event: {kind: 'kill'}})
      }
      for (let by = 0; by < processes; by++) steps.push({atMs: atMs + 900, by, event: {kind: 'restart'}})
      atMs += Math.floor(fillMs * draws.pick([0.3, 1, 1.2, 3])) + 1000
    }
    steps.push(...batchForNewBucket(draws, limit))
    return {...plain(processes, limits), steps}
  },

  config: draws => {
    const limits = someLimits(draws, 1)
    const processes = draws.int(2, 4)
    const entities = ['u0', 'u1']
    const change = (atMs: number): Step => {
      const kind = draws.chance(0.8) ? 'set-limits' : 'python-config'
      return {atMs, by: OTHERS, event: {kind, scope: SYSTEM, limits: changed(draws, limits)}}
    }
    // Long-lived processes first, some of them restarted; then mostly processes that decide once.
    const early = traffic(draws, {processes, limits, entities, untilMs: 90_000, count: draws.int(15, 40), recycle: 0.1})
    const late = traffic(draws, {processes, limits, entities, untilMs: 250_000, count: draws.int(10, 30), recycle: 0.7})
    const steps = [
      ...early,
      ...late.map(step => ({...step, atMs: step.atMs + 100_000})),
      change(draws.int(5000, 80_000)),
    ]
    for (let by = 0; by < processes; by++) {
      if (draws.chance(0.6)) steps.push({atMs: 95_000, by, event: {kind: 'recycle'}})
    }
    if (draws.chance(0.4)) steps.push(change(draws.int(20_000, 250_000)))
    return {...plain(processes, limits), steps}
  },

  faults: draws => {
    const rare = [sharedSlotRush, firstWritesInDoubt, firstTriesArriveLate, refusalsInDoubt]
    if (draws.chance(0.5)) return draws.pick(rare)(draws)
    const limits = someLimits(draws, draws.int(1, 3))
    const processes = draws.int(2, 3)
    const steps = traffic(draws, {
      processes,
      limits,
      entities: ['u0'],
      untilMs: 20_000,
      count: draws.int(6, 20),
      lease: 0.8,
    })
    return {
      ...plain(processes, limits),
      steps: [...steps, ...kills(draws, processes, 20_000)],
      faults: someFaults(draws, processes, draws.pick([0.05, 0.15, 0.3])),
      sharedSlots: draws.chance(0.4),
    }
  },

  cascade: draws => {
    const limits = someLimits(draws, draws.int(1, 2))
    const parent = limits
      .slice(0, draws.int(1, limits.length))
      .map(limit => ({...limit, capacity: Math.max(1, Math.ceil(limit.capacity * draws.pick([0.5, 1, 1.5])))}))
    const processes = draws.int(1, 3)
    const steps = traffic(draws, {
      processes,
      limits,
      entities: ['c0', 'c1', 'team'],
      untilMs: 120_000,
      count: draws.int(8, 30),
      lease: 0.3,
      patient: 0.4,
      recycle: draws.pick([0, 0.2]),
      together: draws.pick([0, 0.4]),
    })
    const configs = [
      ...plain(processes, limits).configs,
      {scope: {level: 'entity', entity: 'team', resource: RESOURCE} as const, limits: parent},
    ]
    const faults = draws.chance(0.3) ? someFaults(draws, processes, 0.08) : []
    return {...plain(processes, limits), configs, children: CHILDREN, steps, faults}
  },

  shards: draws => {
    if (draws.chance(0.3)) return draws.pick([gathersInDoubt, chargesAfterAnnouncement])(draws)
    const limits = someLimits(draws, draws.int(1, 2))
    const processes = draws.int(1, 3)
    const steps = traffic(draws, {
      processes,
      limits,
      entities: ['u0'],
      untilMs: 200_000,
      count: draws.int(8, 30),
      lease: 0.3,
      patient: 0.4,
      recycle: draws.pick([0, 0.2]),
      together: draws.pick([0, 0.4]),
    })
    steps.push({
      atMs: 0,
      by: 0,
      event: {kind: 'acquire', entity: 'u0', consume: {[(limits[0] as Limit).name]: 1}, actions: []},
    })
    for (let split = 0; split < draws.int(1, 3); split++) {
      const atMs = draws.chance(0.6) ? 500 + split * 500 : draws.int(1000, 150_000)
      const kind = draws.pick(['split', 'split', 'python-clone', 'heat'] as const)
      const event: ScenarioEvent = kind === 'heat' ? {kind, entity: 'u0', writes: 5000} : {kind, entity: 'u0'}
      steps.push({atMs, by: OTHERS, event})
    }
    if (draws.chance(0.3))
      steps.push({
        atMs: draws.int(5000, 60_000),
        by: OTHERS,
        event: {kind: 'set-limits', scope: SYSTEM, limits: changed(draws, limits)},
      })
    const faults = draws.chance(0.3) ? someFaults(draws, processes, 0.05) : []
    return {...plain(processes, limits), steps, faults, aggregatorLagMs: draws.chance(0.5) ? 2000 : undefined}
  },

  lifecycle: draws => {
    if (draws.chance(0.15)) return topUpsInDoubt(draws)
    const limits = someLimits(draws, draws.int(1, 2))
    const processes = draws.int(1, 3)
    const untilMs = 300_000
    const steps = traffic(draws, {
      processes,
      limits,
      entities: ENTITIES,
      untilMs,
      count: draws.int(8, 30),
      lease: 0.7,
      recycle: 0.1,
    })
    const isPurge = draws.chance(0.25)
    for (let change = 0; change < draws.int(1, 4); change++) {
      const entity = draws.pick(ENTITIES)
      const kind = draws.pick(['reset', 'delete-entity', 'expire'] as const)
      const event: ScenarioEvent = kind === 'expire' ? {kind} : {kind, entity}
      const atMs = draws.int(2000, untilMs)
      steps.push({atMs, by: OTHERS, event})
      if (kind !== 'expire') steps.push(...leaseAcross(draws, atMs, {by: draws.int(0, processes - 1), entity, limits}))
    }
    if (isPurge) steps.push({atMs: draws.int(20_000, untilMs), by: OTHERS, event: {kind: 'purge'}})
    const faults = draws.chance(0.2) ? someFaults(draws, processes, 0.05) : []
    return {...plain(processes, limits), steps: [...steps, ...looks(draws, untilMs)], faults}
  },

  skew: draws => {
    if (draws.chance(0.4))
      return draws.pick([limitsChangeBehindClock, rewritesArriveLate, resetsBeforeFirstTries])(draws)
    const limits = someLimits(draws, 1)
    const processes = draws.int(2, 4)
    const steps = traffic(draws, {
      processes,
      limits,
      entities: ['u0'],
      untilMs: 120_000,
      count: draws.int(10, 40),
      lease: 0.2,
    })
    for (let jump = 0; jump < draws.int(0, 3); jump++) {
      const ms = draws.chance(0.1) ? draws.pick([3_600_000, 86_400_000]) : draws.int(-10_000, 10_000)
      steps.push({atMs: draws.int(1000, 100_000), by: draws.int(0, processes - 1), event: {kind: 'skew', ms}})
    }
    const skewsMs = Array.from({length: processes}, () => draws.int(-10_000, 10_000))
    return {...plain(processes, limits), skewsMs, steps}
  },

  aggregator: draws => {
    const limits = someLimits(draws, draws.int(1, 2))
    const processes = draws.int(1, 2)
    const steps = traffic(draws, {
      processes,
      limits,
      entities: ENTITIES,
      untilMs: 60_000,
      count: draws.int(10, 40),
      lease: 0.4,
    })
    const isPoisoned = draws.chance(0.2)
    if (isPoisoned)
      steps.push({
        atMs: draws.int(1000, 40_000),
        by: OTHERS,
        event: {kind: 'poison', entity: 'villain', how: draws.pick(['many-limits', 'huge-number'])},
      })
    if (draws.chance(0.3))
      steps.push({atMs: draws.int(1000, 40_000), by: OTHERS, event: {kind: 'heat', entity: 'u0', writes: 4000}})
    if (draws.chance(0.2))
      steps.push({
        atMs: draws.int(1000, 40_000),
        by: OTHERS,
        event: {kind: 'python-consume', entity: 'u0', consume: {[(limits[0] as Limit).name]: 1}},
      })
    const faults = [
      ...someFaults(draws, 0, draws.pick([0, 0.1, 0.3])),
      ...(draws.chance(0.2) ? someFaults(draws, processes, 0.05) : []),
    ]
    const aggregatorLagMs = draws.pick([200, 2000, 20_000])
    return {...plain(processes, limits), steps: [...steps, ...streamSplits(draws, 60_000)], faults, aggregatorLagMs}
  },

  /** Traffic around midnight; usage is rolled up while the aggregator fails. */
  rollups: draws => {
    const limits = someLimits(draws, draws.int(1, 2))
    const processes = draws.int(1, 2)
    const some = (fromMs: number, untilMs: number, count: number): Step[] =>
      traffic(draws, {processes, limits, entities: ENTITIES, untilMs: untilMs - fromMs, count, lease: 0.3}).map(
        step => ({
          ...step,
          atMs: step.atMs + fromMs,
        }),
      )
    const midnightMs = 86_400_000 - (START_MS % 86_400_000)
    const steps = [
      ...some(midnightMs - 90_000, midnightMs + 10_000, draws.int(5, 20)),
      // Late records of the previous day, and the batches that sweep it.
      ...some(midnightMs + 40_000, midnightMs + 100_000, draws.int(2, 10)),
      ...some(midnightMs + 280_000, midnightMs + 900_000, draws.int(5, 15)),
    ]
    const faults = someFaults(draws, 0, draws.pick([0, 0.1, 0.3]))
    return {...plain(processes, limits), steps, faults, aggregatorLagMs: draws.pick([2000, 20_000, 100_000])}
  },

  bypass: draws => {
    const limits = someLimits(draws, draws.int(1, 2))
    const processes = draws.int(2, 3)
    const entities = draws.pick([['u0'], ['u0'], ['c0']])
    const untilMs = draws.pick([10_000, 60_000, 200_000])
    const steps = traffic(draws, {
      processes,
      limits,
      entities,
      untilMs,
      count: draws.int(15, 50),
      lease: 0.6,
      recycle: draws.pick([0, 0.1]),
    })
    const switched = [...entities, ...(entities.includes('c0') ? ['team'] : [])]
    for (let at = 0; at < draws.int(3, 12); at++) {
      const entity = draws.pick(switched)
      const isBypassed = draws.chance(0.6)
      const event: ScenarioEvent = draws.chance(0.5)
        ? {
            kind: 'set-access',
            scope: scopeOf(entity),
            access: isBypassed ? 'bypass' : draws.pick(['enabled', undefined]),
          }
        : {kind: 'peer-bypass', entity, isBypassed, misses: draws.chance(0.2)}
      steps.push({atMs: draws.int(0, untilMs), by: OTHERS, event})
    }
    const others: ScenarioEvent[] = [
      {kind: 'set-limits', scope: SYSTEM, limits: changed(draws, limits)},
      ...switched.map(entity => ({kind: 'split', entity}) as const),
      {kind: 'heat', entity: 'u0', writes: 4000},
    ]
    for (const event of others) if (draws.chance(0.15)) steps.push({atMs: draws.int(1000, untilMs), by: OTHERS, event})
    for (const entity of switched)
      steps.push({
        atMs: untilMs + 1000,
        by: OTHERS,
        event: {kind: 'set-access', scope: scopeOf(entity), access: undefined},
      })
    const faults = draws.chance(0.7) ? someFaults(draws, processes, draws.pick([0.05, 0.15, 0.3])) : []
    const lag = draws.chance(0.3) ? 3000 : undefined
    return {
      ...plain(processes, limits),
      children: CHILDREN,
      steps: [...steps, ...kills(draws, processes, untilMs)],
      faults,
      aggregatorLagMs: lag,
      sharedSlots: draws.chance(0.3),
    }
  },
  family: planFamilies,
  quotas: planQuotas,
  feedback: planFeedback,
  holders: planHolders,
  reservations: planReservations,

  mixed: draws => {
    const limits = someLimits(draws, draws.int(1, 3))
    const processes = draws.int(2, 4)
    const entities = ['u0', 'c0', 'c1']
    const untilMs = 200_000
    const steps = traffic(draws, {
      processes,
      limits,
      entities,
      untilMs,
      count: draws.int(15, 50),
      lease: 0.5,
      patient: 0.15,
      recycle: 0.1,
    })
    const others: ScenarioEvent[] = [
      {kind: 'set-limits', scope: SYSTEM, limits: changed(draws, limits)},
      {kind: 'python-config', scope: SYSTEM, limits: changed(draws, limits)},
      {kind: 'split', entity: 'u0'},
      {kind: 'split', entity: 'team'},
      {kind: 'reset', entity: 'u0'},
      {kind: 'delete-entity', entity: 'u0'},
      {kind: 'expire'},
      {kind: 'heat', entity: 'u0', writes: 4000},
      {kind: 'python-consume', entity: 'u0', consume: {[(limits[0] as Limit).name]: 1}},
    ]
    for (const event of others) if (draws.chance(0.25)) steps.push({atMs: draws.int(1000, untilMs), by: OTHERS, event})
    const faults = draws.chance(0.6) ? someFaults(draws, processes, 0.06) : []
    const lag = draws.chance(0.5) ? 3000 : undefined
    const killed = kills(draws, processes, untilMs)
    const partitionUnits = draws.pick([3, 1000, 1000])
    return {
      ...plain(processes, limits),
      children: CHILDREN,
      steps: [...steps, ...killed, ...streamSplits(draws, untilMs), ...looks(draws, untilMs)],
      faults,
      aggregatorLagMs: lag,
      partitionUnits,
      sharedSlots: draws.chance(0.1),
    }
  },
}
