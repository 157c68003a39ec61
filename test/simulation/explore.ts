import {createHash} from 'node:crypto'
import {type Limit, makeLimit} from '../../src/lib/core/limits/limit.js'
import {isRead} from '../../src/lib/dynamo/transport.js'
import {LeasePlay} from './events/lease-play.js'
import {operate} from './events/operator.js'
import {Stage} from './events/stage.js'
import {Oracles} from './oracles/oracles.js'
import type {Violation} from './oracles/verdicts.js'
import {type LeaseAction, RESOURCE, type Scenario, type ScenarioEvent, USUAL_CACHE_SIZE} from './scenario.js'
import type {Message} from './world/network.js'
import type {SimulatedProcess} from './world/process.js'
import {installVirtualTime, VirtualTime} from './world/virtual-time.js'
import {World} from './world/world.js'

/** If no message is sent for this long, in ms, backoff and refunds are finished. */
const LONGEST_IDLE_MS = 400
const IDLE_STEP_MS = 20

/** In situations that last for seconds: timers that end within it send messages that can arrive in any order. */
const LONG_STEP_MS = 200

type Acquire = Extract<ScenarioEvent, {kind: 'acquire'}>

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
  /** Default: a rate of one token per second. */
  readonly limit?: Limit
  /** A process that dies at any step, or never. */
  readonly killed?: number
  /** How long the situation goes on without messages, in ms. */
  readonly lastsMs?: number
  /** Requests: process, entity, tokens or slots, and when; by default all at the same instant. */
  readonly requests: readonly {
    readonly by: number
    readonly entity: string
    readonly tokens: number
    readonly atMs?: number
    readonly isReturned?: boolean
    /** After so many ms, the lease ends and keeps its tokens. */
    readonly commitMs?: number
    readonly reserve?: boolean
  }[]
}

type Asked = Situation['requests'][number]

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
      if (isChosen(message, situation)) messages.push(message)
      else message.arrive()
    }
    for (const asked of situation.requests) {
      const process = world.processes[asked.by] as SimulatedProcess
      const event = eventOf(asked, situation)
      // The start of a request is a choice too.
      const begin = () => {
        if (process.isAlive) void new LeasePlay(stage, process, event).play()
        return 'begin'
      }
      const send = () => messages.push({process: asked.by, operation: 'UpdateItem', input: event, arrive: begin})
      if (asked.atMs === undefined) send()
      else time.after(asked.atMs, send)
    }
    const {killed, lastsMs = LONGEST_IDLE_MS} = situation
    const stepMs = situation.lastsMs === undefined ? IDLE_STEP_MS : LONG_STEP_MS
    const victim = killed === undefined ? undefined : world.processes[killed]
    const path: number[] = []
    const options: number[] = []
    /** Nothing has happened since the last choice whether the process dies now. */
    let isWaiting = false
    // Time passes only when no message is in flight.
    for (let idleMs = 0; idleMs < lastsMs; ) {
      await time.runUntil(time.nowMs)
      const mayDie = victim?.isAlive === true
      if (messages.length === 0 && (isWaiting || !mayDie)) {
        idleMs += stepMs
        await time.runUntil(time.nowMs + stepMs)
        continue
      }
      const ways = Math.max(1, messages.length) + (mayDie ? 1 : 0)
      const isChoice = ways > 1
      if (isChoice && path.length >= prefix.length) {
        const state = digest([time.nowMs, heard, world.items, mayDie])
        // Keep the violations so far; the rest is already explored.
        if (seen.states.has(state)) return {path, options, violations: oracles.verdicts.violations}
        seen.states.add(state)
      }
      const choice = isChoice ? (prefix[path.length] ?? 0) : 0
      if (isChoice) {
        path.push(choice)
        options.push(ways)
      }
      if (victim && mayDie && choice === ways - 1) {
        stage.oracles.slots.killed(victim.number)
        victim.kill()
        continue
      }
      const [message] = messages.splice(choice, 1)
      isWaiting = message === undefined
      if (!message) continue
      const answer = message.arrive()
      heard[message.process] = digest([heard[message.process], time.nowMs, message.input, answer])
      seen.contents.add(digest(world.items))
    }
    for (const {by, what, endedAtMs} of stage.operations)
      if (endedAtMs === undefined && world.processes[by]?.isAlive !== false) oracles.answers.hangs(what)
    for (const each of stage.atEnd) each()
    if (killed !== undefined) {
      oracles.slots.checkEnd(false)
      oracles.reserved.checkEnd()
    }
    oracles.books.check({checkHigh: true, returned: oracles.reserved.returned})
    return {path, options, violations: oracles.verdicts.violations}
  } finally {
    restore()
  }
}

function digest(value: unknown): string {
  return createHash('sha1').update(JSON.stringify(value)).digest('base64')
}

function eventOf({entity, tokens, isReturned, commitMs, reserve}: Asked, situation: Situation): Acquire {
  const {name, inFlight} = limitOf(situation)
  const amounts = {[name]: tokens}
  const actions: LeaseAction[] = []
  if (isReturned) actions.push({kind: 'rollback', afterMs: 0})
  if (commitMs !== undefined) actions.push({kind: 'commit', afterMs: commitMs})
  const asked = inFlight ? {consume: {}, slots: amounts} : {consume: amounts}
  return {kind: 'acquire', entity, ...asked, actions, ...(reserve && {reserve})}
}

/** The bucket exists, is split, and had time to fill. */
async function prepare(stage: Stage, situation: Situation): Promise<void> {
  const {requests, splits, capacity, isNew, limit} = situation
  const {world} = stage
  if (isNew) return
  const entities = [...new Set(requests.map(({entity}) => entity))]
  const process = world.processes.at(-1)
  for (const entity of entities) {
    const asked = {by: 0, entity, tokens: Math.ceil(capacity / 2), isReturned: limit !== undefined}
    const event = eventOf(asked, situation)
    if (process) void new LeasePlay(stage, process, event).play()
    await world.time.runUntil(world.time.nowMs + 1000)
    for (let split = 0; split < splits; split++) {
      void operate(stage, {kind: 'split', entity})
      await world.time.runUntil(world.time.nowMs + 1000)
    }
  }
  await world.time.runUntil(world.time.nowMs + capacity * 1000)
}

/** The instant of other reads does not matter. */
function isChosen({input, operation}: Message, {killed}: Situation): boolean {
  const text = JSON.stringify(input)
  return text.includes('/BUCKET#') || (killed !== undefined && !isRead(operation) && text.includes('/HOLDER#'))
}

const limitOf = ({limit, capacity}: Situation): Limit =>
  limit ?? {name: 'rpm', capacity, refillAmount: 1, refillPeriodSeconds: 1}

/** The last process only prepares, so that the others have empty caches. */
function scenarioOf(situation: Situation): Scenario {
  const {processes, children} = situation
  const limit = limitOf(situation)
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
  {
    name: 'two processes, one slot, one of them dies, a third asks later',
    processes: 3,
    capacity: 1,
    limit: {name: 'parallel', capacity: 1, refillAmount: 0, refillPeriodSeconds: 1, inFlight: true},
    children: {},
    splits: 0,
    killed: 0,
    lastsMs: 46_000,
    requests: [
      {by: 0, entity: 'u0', tokens: 1, commitMs: 1000},
      {by: 1, entity: 'u0', tokens: 1, commitMs: 1000},
      {by: 2, entity: 'u0', tokens: 1, commitMs: 0, atMs: 5000},
    ],
  },
  {
    name: 'reserved tokens of a quota, their process dies, two others return them',
    processes: 3,
    capacity: 10,
    limit: makeLimit({
      ...{name: 'q', capacity: 10, refillAmount: 0, refillPeriodSeconds: 1, timeZone: 'UTC'},
      reset: {crons: ['0 0 * * *']},
    }),
    children: {},
    splits: 0,
    killed: 0,
    lastsMs: 46_000,
    requests: [
      {by: 0, entity: 'u0', tokens: 6, reserve: true, commitMs: 2000},
      {by: 1, entity: 'u0', tokens: 6, isReturned: true, atMs: 5000},
      {by: 2, entity: 'u0', tokens: 6, isReturned: true, atMs: 5000},
    ],
  },
]
