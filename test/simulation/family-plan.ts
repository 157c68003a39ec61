import {DEFAULT_RESOURCE} from '../../src/lib/core/names.js'
import {type Planned, plain} from './rare.js'
import {RESOURCE, type ScenarioEvent, type Step} from './scenario.js'
import {kills, someFaults, someLimits, traffic} from './traffic.js'
import type {Draws} from './world/draws.js'
import {OTHERS} from './world/world.js'

const CHILDREN = {c0: 'team', c1: 'team'} as const
const PARENTS = ['team', 'org'] as const

/** Four levels, and two tops. */
const TREE = {c0: 'user', c1: 'user', user: 'team', team: 'org'} as const

/** Children move to other parents, and cascade policies change, under traffic. */
export function planFamilies(draws: Draws): Planned {
  const limits = someLimits(draws, draws.int(1, 2))
  const processes = draws.int(1, 3)
  const untilMs = draws.pick([20_000, 100_000, 240_000])
  const steps = traffic(draws, {
    processes,
    limits,
    entities: ['c0', 'c0', 'c1', 'team', 'org'],
    untilMs,
    count: draws.int(15, 45),
    lease: 0.5,
    recycle: draws.pick([0, 0.1]),
    together: draws.pick([0, 0.4]),
  })
  const changes = draws.int(1, 4)
  for (let change = 0; change < changes; change++) {
    const atMs = Math.floor(((change + draws.random()) * untilMs) / changes)
    steps.push({atMs, by: OTHERS, event: someChange(draws)})
  }
  if (draws.chance(0.2)) {
    const entity = draws.pick(['c0', 'team'])
    steps.push({atMs: draws.int(1000, untilMs), by: OTHERS, event: {kind: 'split', entity}})
  }
  // Often one of the parents is exhausted.
  const configs = PARENTS.map(parent => {
    const factor = draws.pick([0.5, 1, 3])
    const own = limits.map(limit => ({...limit, capacity: Math.max(1, Math.ceil(limit.capacity * factor))}))
    return {scope: {level: 'entity', entity: parent, resource: RESOURCE} as const, limits: own}
  })
  const planned = plain(processes, limits)
  const disturbed = draws.chance(0.3) ? [...kills(draws, processes, untilMs)] : []
  return {
    ...planned,
    configs: [...planned.configs, ...configs],
    children: CHILDREN,
    steps: [...steps, ...disturbed] satisfies Step[],
    faults: draws.chance(0.3) ? someFaults(draws, processes, 0.08) : [],
  }
}

function someChange(draws: Draws): ScenarioEvent {
  const entity = draws.pick(['c0', 'c0', 'c1'])
  if (draws.chance(0.55)) return {kind: 'move', entity, parent: draws.pick(['org', 'org', 'team', undefined])}
  const scope = draws.pick([
    {level: 'resource', resource: RESOURCE} as const,
    {level: 'entity', entity, resource: RESOURCE} as const,
    {level: 'entity', entity, resource: DEFAULT_RESOURCE} as const,
  ])
  return {kind: 'set-cascade', scope, cascade: draws.pick([true, false, false, undefined])}
}

/** Requests charge four levels. Subtrees move, and links stop cascading, under traffic. */
export function planHierarchies(draws: Draws): Planned {
  const limits = someLimits(draws, draws.int(1, 2))
  const processes = draws.int(1, 3)
  const untilMs = draws.pick([20_000, 100_000, 240_000])
  const steps = traffic(draws, {
    processes,
    limits,
    entities: ['c0', 'c0', 'c0', 'c1', 'user', 'team', 'org'],
    untilMs,
    count: draws.int(15, 45),
    lease: 0.5,
    recycle: draws.pick([0, 0.1]),
    together: draws.pick([0, 0.4]),
  })
  const changes = draws.int(0, 4)
  for (let change = 0; change < changes; change++) {
    const atMs = Math.floor(((change + draws.random()) * untilMs) / changes)
    steps.push({atMs, by: OTHERS, event: someMove(draws)})
  }
  if (draws.chance(0.2))
    steps.push({
      atMs: draws.int(1000, untilMs),
      by: OTHERS,
      event: {kind: 'split', entity: draws.pick(['c0', 'user', 'team', 'org'])},
    })
  const configs = ['user', 'team', 'org', 'org-2'].map(entity => {
    const factor = draws.pick([0.5, 1, 3])
    const own = limits.map(limit => ({...limit, capacity: Math.max(1, Math.ceil(limit.capacity * factor))}))
    return {scope: {level: 'entity', entity, resource: RESOURCE} as const, limits: own}
  })
  const planned = plain(processes, limits)
  return {
    ...planned,
    configs: [...planned.configs, ...configs],
    children: TREE,
    levels: 'all',
    steps: [...steps, ...(draws.chance(0.4) ? kills(draws, processes, untilMs) : [])],
    faults: draws.chance(0.4) ? someFaults(draws, processes, 0.08) : [],
  }
}

/** Only upward: no cycle. */
function someMove(draws: Draws): ScenarioEvent {
  const entity = draws.pick(['c0', 'user', 'user', 'team', 'team'] as const)
  if (draws.chance(0.3)) {
    const scope = {level: 'entity', entity, resource: draws.pick([RESOURCE, DEFAULT_RESOURCE])} as const
    return {kind: 'set-cascade', scope, cascade: draws.pick([true, false, false, undefined])}
  }
  const above = {c0: ['user', 'team', 'org-2'], user: ['team', 'team', 'org', 'org-2'], team: ['org', 'org-2', 'org-2']}
  return {kind: 'move', entity, parent: draws.pick([...above[entity], undefined])}
}

/** The same scenario with two more levels: `team` becomes the third one of four. */
export function deepen(planned: Planned): Planned {
  const {children} = planned
  const isPlain = Object.values(children).every(parent => parent === 'team')
  return isPlain && children.c0 !== undefined ? {...planned, children: {...children, ...TREE}, levels: 'all'} : planned
}
