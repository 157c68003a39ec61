import {LeasePlay} from './deeds/lease-play.js'
import {operate} from './deeds/operator.js'
import {Stage} from './deeds/stage.js'
import {Oracles} from './oracles/oracles.js'
import type {Violation} from './oracles/verdicts.js'
import {type Deed, RESOURCE, type Scenario} from './scenario.js'
import {extendHash} from './world/draws.js'
import type {Message} from './world/network.js'
import type {SimulatedProcess} from './world/process.js'
import {installVirtualTime, VirtualTime} from './world/virtual-time.js'
import {World} from './world/world.js'

/** Backoff and returns are over when no message is sent for so long, in ms. */
const LONGEST_IDLE_MS = 400
const IDLE_STEP_MS = 20

/** A small situation of which every order of messages is tried. */
export interface Situation {
  readonly name: string
  readonly processes: number
  /** A limit such as {capacity: 10, refillAmount: 1, refillPeriodSeconds: 1}. */
  readonly capacity: number
  readonly children: Readonly<Record<string, string>>
  /** Splits before the requests. */
  readonly splits: number
  /** Requests that are sent at the same instant: process, entity, tokens. */
  readonly requests: readonly {
    readonly by: number
    readonly entity: string
    readonly tokens: number
    readonly isReturned?: boolean
  }[]
}

export interface Exploration {
  /** Orders that were played to their end. */
  readonly orders: number
  /** Points at which more than one message could have arrived next. */
  readonly choices: number
  /** Different contents of the table that were seen. */
  readonly states: number
  /** Whether every order was played. */
  readonly isComplete: boolean
  readonly violations: ReadonlyMap<string, {readonly violation: Violation; readonly orders: number}>
}

/** Plays every order in which the messages of a situation can arrive, up to a number of orders. */
export async function explore(situation: Situation, mostOrders: number): Promise<Exploration> {
  const violations = new Map<string, {violation: Violation; orders: number}>()
  const states = new Set<number>()
  let [orders, choices] = [0, 0]
  let path: number[] | undefined = []
  while (path && orders < mostOrders) {
    const taken = await playOrder(situation, path, states)
    orders++
    choices += taken.options.length - path.length
    for (const violation of taken.violations) {
      const known = violations.get(violation.oracle)
      violations.set(violation.oracle, {violation, orders: (known?.orders ?? 0) + 1})
    }
    path = nextPath(taken.path, taken.options)
  }
  return {orders, choices, states: states.size, isComplete: path === undefined, violations}
}

/** The next one in the order of a search in depth; `undefined` after the last. */
function nextPath(path: readonly number[], options: readonly number[]): number[] | undefined {
  for (let at = path.length - 1; at >= 0; at--) {
    const choice = (path[at] as number) + 1
    if (choice < (options[at] as number)) return [...path.slice(0, at), choice]
  }
  return undefined
}

interface Taken {
  readonly path: number[]
  readonly options: number[]
  readonly violations: readonly Violation[]
}

async function playOrder(situation: Situation, prefix: readonly number[], states: Set<number>): Promise<Taken> {
  const time = new VirtualTime()
  const restore = installVirtualTime(time)
  try {
    const world = new World(scenarioOf(situation), time)
    const oracles = new Oracles(world)
    world.onWrite = write => oracles.observe(write)
    await world.setUp()
    const stage = new Stage(world, oracles)
    await prepare(stage, situation)
    const messages: Message[] = []
    world.dispatch = message => {
      if (isAboutBuckets(message)) messages.push(message)
      else message.arrive()
    }
    for (const {by, entity, tokens, isReturned} of situation.requests) {
      const process = world.processes[by] as SimulatedProcess
      const actions = isReturned ? [{kind: 'rollback', afterMs: 0} as const] : []
      const deed = {kind: 'acquire', entity, consume: {rpm: tokens}, actions} as const
      // When a request begins is a choice like any other.
      messages.push({
        operation: 'UpdateItem',
        input: deed,
        arrive: () => void new LeasePlay(stage, process, deed).play(),
      })
    }
    const path: number[] = []
    const options: number[] = []
    // Time passes only when no message is under way.
    for (let idleMs = 0; idleMs < LONGEST_IDLE_MS; ) {
      await time.runUntil(time.nowMs)
      if (messages.length === 0) {
        idleMs += IDLE_STEP_MS
        await time.runUntil(time.nowMs + IDLE_STEP_MS)
        continue
      }
      const choice = messages.length > 1 ? (prefix[path.length] ?? 0) : 0
      if (messages.length > 1) {
        path.push(choice)
        options.push(messages.length)
      }
      messages.splice(choice, 1)[0]?.arrive()
      states.add(extendHash(0, JSON.stringify(world.items)))
    }
    for (const {what, endedAtMs} of stage.operations) if (endedAtMs === undefined) oracles.answers.hangs(what)
    for (const each of stage.atEnd) each()
    oracles.books.check({checkHigh: true})
    return {path, options, violations: oracles.verdicts.violations}
  } finally {
    restore()
  }
}

/** The bucket exists, is split, and has had the time to fill up. */
async function prepare(stage: Stage, {requests, splits, capacity}: Situation): Promise<void> {
  const {world} = stage
  const entities = [...new Set(requests.map(({entity}) => entity))]
  const process = world.processes.at(-1)
  for (const entity of entities) {
    const deed: Deed = {kind: 'acquire', entity, consume: {rpm: Math.ceil(capacity / 2)}, actions: []}
    if (process) void new LeasePlay(stage, process, deed).play()
    await world.time.runUntil(world.time.nowMs + 1000)
    for (let split = 0; split < splits; split++) {
      void operate(stage, {kind: 'split', entity})
      await world.time.runUntil(world.time.nowMs + 1000)
    }
  }
  await world.time.runUntil(world.time.nowMs + capacity * 1000)
}

/** Nothing else is written: when it is read makes no difference. */
function isAboutBuckets({input}: Message): boolean {
  return JSON.stringify(input).includes('/BUCKET#')
}

/** The last process only prepares, so that the others know nothing. */
function scenarioOf({processes, capacity, children}: Situation): Scenario {
  const limit = {name: 'rpm', capacity, refillAmount: 1, refillPeriodSeconds: 1}
  return {
    seed: 1,
    profile: 'burst',
    skewsMs: Array.from({length: processes + 1}, () => 0),
    configs: [{scope: {level: 'resource', resource: RESOURCE}, limits: [limit]}],
    children,
    sharedSlots: false,
    partitionUnits: 1000,
    longestWayMs: 1,
    aggregatorLagMs: undefined,
    steps: [],
    faults: [],
  }
}

/** What is explored: two processes, up to two shards, three requests. */
export const SITUATIONS: readonly Situation[] = [
  {
    name: 'two processes, one shard, three requests',
    processes: 2,
    capacity: 10,
    children: {},
    splits: 0,
    requests: [
      {by: 0, entity: 'u0', tokens: 6},
      {by: 1, entity: 'u0', tokens: 6},
      {by: 1, entity: 'u0', tokens: 3},
    ],
  },
  {
    name: 'two processes, two shards, three requests',
    processes: 2,
    capacity: 10,
    children: {},
    splits: 1,
    requests: [
      {by: 0, entity: 'u0', tokens: 6},
      {by: 1, entity: 'u0', tokens: 4},
      {by: 1, entity: 'u0', tokens: 3},
    ],
  },
  {
    name: 'two processes, a child and its parent, three requests, one returned',
    processes: 2,
    capacity: 10,
    children: {c0: 'team'},
    splits: 0,
    requests: [
      {by: 0, entity: 'c0', tokens: 6, isReturned: true},
      {by: 1, entity: 'c0', tokens: 5},
      {by: 1, entity: 'team', tokens: 3},
    ],
  },
]
