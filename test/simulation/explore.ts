import {createHash} from 'node:crypto'
import {LeasePlay} from './events/lease-play.js'
import {operate} from './events/operator.js'
import {Stage} from './events/stage.js'
import {Oracles} from './oracles/oracles.js'
import type {Violation} from './oracles/verdicts.js'
import {RESOURCE, type Scenario, type ScenarioEvent, USUAL_CACHE_SIZE} from './scenario.js'
import type {Message} from './world/network.js'
import type {SimulatedProcess} from './world/process.js'
import {installVirtualTime, VirtualTime} from './world/virtual-time.js'
import {World} from './world/world.js'

/** If no message is sent for this long, in ms, backoff and refunds are finished. */
const LONGEST_IDLE_MS = 400
const IDLE_STEP_MS = 20

/** A small situation that is played in every order of messages. */
export interface Situation {
  readonly name: string
  readonly processes: number
  readonly capacity: number
  readonly children: Readonly<Record<string, string>>
  /** Whether the bucket does not exist before the requests. */
  readonly isNew?: boolean
  /** Splits before the requests. */
  readonly splits: number
  /** Requests sent at the same instant: process, entity, tokens. */
  readonly requests: readonly {
    readonly by: number
    readonly entity: string
    readonly tokens: number
    readonly isReturned?: boolean
  }[]
}

export interface Exploration {
  /** Orders played to the end, or to a state that was already explored. */
  readonly orders: number
  /** Distinct states in which more than one message could arrive next. */
  readonly states: number
  /** Distinct contents of the table. */
  readonly contents: number
  /** Whether every order was played. */
  readonly isComplete: boolean
  readonly violations: ReadonlyMap<string, {readonly violation: Violation; readonly orders: number}>
}

/**
 * Plays every order of arrival of a situation's messages, up to a maximum. Messages to different items commute: both
 * orders lead to the same state, which is continued once. Two states are equal if the table is, and every process
 * received the same responses at the same instants.
 */
export async function explore(situation: Situation, mostOrders: number): Promise<Exploration> {
  const violations = new Map<string, {violation: Violation; orders: number}>()
  const seen: Seen = {states: new Set(), contents: new Set()}
  let orders = 0
  let path: number[] | undefined = []
  while (path && orders < mostOrders) {
    const taken = await playOrder(situation, path, seen)
    orders++
    for (const violation of taken.violations) {
      const known = violations.get(violation.oracle)
      violations.set(violation.oracle, {violation, orders: (known?.orders ?? 0) + 1})
    }
    path = nextPath(taken.path, taken.options)
  }
  const {states, contents} = seen
  return {orders, states: states.size, contents: contents.size, isComplete: path === undefined, violations}
}

/** The next order, depth first; `undefined` after the last. */
function nextPath(path: readonly number[], options: readonly number[]): number[] | undefined {
  for (let at = path.length - 1; at >= 0; at--) {
    const choice = (path[at] as number) + 1
    if (choice < (options[at] as number)) return [...path.slice(0, at), choice]
  }
  return undefined
}

interface Seen {
  readonly states: Set<string>
  readonly contents: Set<string>
}

interface Taken {
  readonly path: number[]
  readonly options: number[]
  readonly violations: readonly Violation[]
}

async function playOrder(situation: Situation, prefix: readonly number[], seen: Seen): Promise<Taken> {
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
    /** The responses each process has received, and when. */
    const heard = world.processes.map(() => '')
    world.dispatch = message => {
      if (isAboutBuckets(message)) messages.push(message)
      else message.arrive()
    }
    for (const {by, entity, tokens, isReturned} of situation.requests) {
      const process = world.processes[by] as SimulatedProcess
      const actions = isReturned ? [{kind: 'rollback', afterMs: 0} as const] : []
      const event = {kind: 'acquire', entity, consume: {rpm: tokens}, actions} as const
      // The start of a request is a choice too.
      messages.push({
        process: by,
        operation: 'UpdateItem',
        input: event,
        arrive: () => {
          void new LeasePlay(stage, process, event).play()
          return 'begin'
        },
      })
    }
    const path: number[] = []
    const options: number[] = []
    // Time passes only when no message is in flight.
    for (let idleMs = 0; idleMs < LONGEST_IDLE_MS; ) {
      await time.runUntil(time.nowMs)
      if (messages.length === 0) {
        idleMs += IDLE_STEP_MS
        await time.runUntil(time.nowMs + IDLE_STEP_MS)
        continue
      }
      const isChoice = messages.length > 1
      if (isChoice && path.length >= prefix.length) {
        const state = digest([time.nowMs, heard, world.items])
        // Keep the violations so far; the rest is already explored.
        if (seen.states.has(state)) return {path, options, violations: oracles.verdicts.violations}
        seen.states.add(state)
      }
      const choice = isChoice ? (prefix[path.length] ?? 0) : 0
      if (isChoice) {
        path.push(choice)
        options.push(messages.length)
      }
      const [message] = messages.splice(choice, 1) as [Message]
      const answer = message.arrive()
      heard[message.process] = digest([heard[message.process], time.nowMs, message.input, answer])
      seen.contents.add(digest(world.items))
    }
    for (const {what, endedAtMs} of stage.operations) if (endedAtMs === undefined) oracles.answers.hangs(what)
    for (const each of stage.atEnd) each()
    oracles.books.check({checkHigh: true, returned: []})
    return {path, options, violations: oracles.verdicts.violations}
  } finally {
    restore()
  }
}

function digest(value: unknown): string {
  return createHash('sha1').update(JSON.stringify(value)).digest('base64')
}

/** The bucket exists, is split, and had time to fill. */
async function prepare(stage: Stage, {requests, splits, capacity, isNew}: Situation): Promise<void> {
  const {world} = stage
  if (isNew) return
  const entities = [...new Set(requests.map(({entity}) => entity))]
  const process = world.processes.at(-1)
  for (const entity of entities) {
    const event: ScenarioEvent = {kind: 'acquire', entity, consume: {rpm: Math.ceil(capacity / 2)}, actions: []}
    if (process) void new LeasePlay(stage, process, event).play()
    await world.time.runUntil(world.time.nowMs + 1000)
    for (let split = 0; split < splits; split++) {
      void operate(stage, {kind: 'split', entity})
      await world.time.runUntil(world.time.nowMs + 1000)
    }
  }
  await world.time.runUntil(world.time.nowMs + capacity * 1000)
}

/** Only buckets are written: the instant of other reads does not matter. */
function isAboutBuckets({input}: Message): boolean {
  return JSON.stringify(input).includes('/BUCKET#')
}

/** The last process only prepares, so that the others have empty caches. */
function scenarioOf({processes, capacity, children}: Situation): Scenario {
  const limit = {name: 'rpm', capacity, refillAmount: 1, refillPeriodSeconds: 1}
  return {
    seed: 1,
    profile: 'burst',
    skewsMs: Array.from({length: processes + 1}, () => 0),
    configs: [{scope: {level: 'resource', resource: RESOURCE}, limits: [limit]}],
    children,
    sharedSlots: false,
    cacheSize: USUAL_CACHE_SIZE,
    partitionUnits: 1000,
    longestWayMs: 1,
    aggregatorLagMs: undefined,
    steps: [],
    faults: [],
  }
}

/** Two processes, up to two shards, three requests. */
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
    name: 'two processes, a child and its parent, three requests, one refunded',
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
  {
    name: 'two processes, an unused bucket, three requests, one refunded',
    processes: 2,
    capacity: 10,
    isNew: true,
    children: {},
    splits: 0,
    requests: [
      {by: 0, entity: 'u0', tokens: 6, isReturned: true},
      {by: 1, entity: 'u0', tokens: 6},
      {by: 1, entity: 'u0', tokens: 3},
    ],
  },
]
