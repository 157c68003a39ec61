import {RollupSchedule} from '../../../src/lib/core/window.js'
import {loadTableDefinition} from '../../../src/lib/dynamo/table-definition.js'
import type {Operation} from '../../../src/lib/dynamo/transport.js'
import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import type {NamespaceTable, Table} from '../../../src/lib/repository/table/table.js'
import {encodeConfig} from '../../../src/lib/schema/config-record.js'
import {encodeEntity} from '../../../src/lib/schema/entity-record.js'
import {encodeRollups} from '../../../src/lib/schema/registry-records.js'
import {MemoryOperations} from '../../helpers/memory-table/operations.js'
import type {Change} from '../../helpers/memory-table/table.js'
import {type Fault, type Scenario, USUAL_CACHE_SIZE} from '../scenario.js'
import {Draws, drawAt, extendHash} from './draws.js'
import {MarkSlots} from './mark-slots.js'
import {type Message, SimulatedTransport} from './network.js'
import {DECISION_TIMEOUT_MS, OPERATOR_SLOT, randomBytes, SimulatedProcess} from './process.js'
import {SimulatedStream} from './stream.js'
import {
  costOf,
  isBatched,
  isRefusalWrite,
  shardChange,
  type TableRequest,
  type TableWrite,
  type Writer,
} from './table-writes.js'
import type {VirtualTime} from './virtual-time.js'

export const STACK = 'sim'

/** The namespace of the run, and another one that must stay untouched. */
export const TENANT = 'tenant'
const BYSTANDER = 'bystander'

/** Mark slot of the aggregator; limiters use others. */
const AGGREGATOR_SLOT = 7

/** Number of the aggregator as a caller. */
export const AGGREGATOR = -1
/** Number of operators, Python clients and the table itself. */
export const OTHERS = -2
/** Number of readers, with separate delays, so that other callers' delays do not change. */
export const READERS = -3

export interface WorldCounts {
  calls: number
  faults: number
  writes: number
  deliveries: number
  /** Writes that batch requests with refunds. */
  batched: number
}

/** One table, the processes that use it, and the connections between them. */
export class World {
  readonly time: VirtualTime
  readonly scenario: Scenario
  readonly counts: WorldCounts = {calls: 0, faults: 0, writes: 0, deliveries: 0, batched: 0}
  readonly stream: SimulatedStream
  readonly slots: MarkSlots
  processes: SimulatedProcess[] = []
  /** The id of the namespace. */
  namespace = ''
  bystander = ''
  /** No more faults from here on. */
  isCalm = false
  /** A hash of every call and write, in order. */
  trace = 0x811c9dc5
  /** Readable log, for a violation. */
  readonly log: string[] = []
  onWrite: (write: TableWrite) => void = () => {}
  onRequest: (request: TableRequest) => void = () => {}
  /** Decides when requests of limiters arrive, instead of the delays. */
  dispatch: ((message: Message) => void) | undefined
  readonly #operations: MemoryOperations
  readonly #faults = new Map<string, Fault>()
  #changes: Change[] = []
  #calls = new Map<number, number>()
  readonly #operationCalls = new Map<string, number>()
  #latestMs = 0
  #earliestMs = 0
  #faultLagMs = 0
  #isThrottled = false
  readonly #units = new Map<string, {second: number; used: number}>()
  readonly #draws: Draws
  #fresh = 0

  constructor(scenario: Scenario, time: VirtualTime) {
    this.scenario = scenario
    this.time = time
    this.slots = new MarkSlots(OPERATOR_SLOT, scenario.sharedSlots !== false)
    this.#draws = new Draws(scenario.seed ^ 0x5f3759df)
    this.#operations = new MemoryOperations(
      () => time.nowMs,
      change => this.#changes.push(change),
      (partition, units) => this.#mayWrite(partition, units),
    )
    for (const fault of scenario.faults) this.#faults.set(faultKey(fault.by, fault.call, fault.operation), fault)
    const kills = new Set(
      scenario.faults.filter(({by, kind}) => by === AGGREGATOR && kind === 'hang').map(({call}) => call),
    )
    this.stream = new SimulatedStream({
      seed: scenario.seed,
      time,
      table: () => this.table({kind: 'aggregator', process: AGGREGATOR}, AGGREGATOR_SLOT),
      lagMs: scenario.aggregatorLagMs,
      isKilled: delivery => !this.isCalm && kills.has(delivery),
      onDelivery: () => this.counts.deliveries++,
    })
  }

  /** Creates the table, the namespaces, the configuration and the processes. */
  async setUp(): Promise<void> {
    const {create} = await loadTableDefinition({tableName: STACK})
    this.#operations.carryOut('CreateTable', create as never)
    const setup: Writer = {kind: 'setup', process: OTHERS}
    const repository = this.repository(setup)
    const register = async (name: string) => (await repository.namespaces.register(name)).namespace.id
    this.namespace = await this.#now(register(TENANT))
    this.bystander = await this.#now(register(BYSTANDER))
    const {configs, children, levels, steps, profile} = this.scenario
    if (levels) await this.#now(repository.namespaces.setLevels(TENANT, levels))
    if (profile === 'rollups') {
      const since = ['2000-01-01T00:00:00Z']
      const schedule = new RollupSchedule({daily: since, monthly: since})
      this.carryOut(setup, 'PutItem', {TableName: STACK, Item: encodeRollups(schedule)})
    }
    for (const namespace of [this.namespace, this.bystander]) {
      for (const {scope, limits} of configs) {
        const record = {namespace, scope, limits, onUnavailable: undefined, auditRetentionDays: undefined}
        this.carryOut(setup, 'PutItem', {TableName: STACK, Item: encodeConfig(record)})
      }
    }
    const put = (entity: string, parent: string | undefined) => {
      const named = {namespace: this.namespace, entity, name: entity, parent, cascade: parent !== undefined}
      const record = {...named, metadata: {}, createdAt: '', version: 1}
      this.carryOut(setup, 'PutItem', {TableName: STACK, Item: encodeEntity(record)})
    }
    for (const [entity, parent] of Object.entries(children)) put(entity, parent)
    // An entity moves only to a parent with a record.
    const moves = steps.flatMap(({event}) => (event.kind === 'move' && event.parent ? [event.parent] : []))
    for (const parent of new Set(moves)) if (!(parent in children)) put(parent, undefined)
    const table = this.#operations.table(STACK)
    table.deferIndexes = follow => {
      this.time.after(this.isCalm ? 0 : 40, follow)
    }
    this.processes = this.scenario.skewsMs.map((skewMs, number) => this.#newProcess(number, skewMs))
  }

  /** Applies a request at this instant, without faults: by the table itself, or by a client that has none. */
  carryOut(writer: Writer, operation: Operation, input: object): unknown {
    return this.#serve(writer, operation, input, {isThrottled: false})
  }

  #serve(
    writer: Writer,
    operation: Operation,
    input: object,
    {isThrottled, isAgain = false}: {readonly isThrottled: boolean; readonly isAgain?: boolean},
  ): unknown {
    this.#isThrottled = isThrottled
    let output: unknown
    try {
      output = this.#operations.carryOut(operation, {ReturnConsumedCapacity: 'INDEXES', ...input} as never)
      return output
    } finally {
      const changes = this.#changes
      this.#changes = []
      if (changes.length > 0) this.#wrote(writer, operation, changes, isAgain)
      if (output !== undefined && isBatched(operation, input)) this.counts.batched++
      // Writes of refusals belong to no decision.
      if (writer.kind === 'limiter' && !isRefusalWrite(operation, input))
        this.onRequest({atMs: this.time.elapsedMs, process: writer.process, ...costOf(operation, output, changes)})
    }
  }

  /** All stored items. */
  get items() {
    return this.#operations.table(STACK).items.all()
  }

  /** The repository that an operator uses. */
  repository(writer: Writer): Repository {
    const {transport, clock, randomBytes: bytes} = this.table(writer, OPERATOR_SLOT)
    return new Repository({stack: STACK, transport, clock, randomBytes: bytes, random: this.#draws.random})
  }

  /** The table with a separate connection of another caller. */
  table(writer: Writer, slot = OPERATOR_SLOT): Table {
    const transport = new SimulatedTransport({
      ...this.#networkOf(writer),
      time: this.time,
      isAlive: () => true,
      nextCall: () => this.#nextCall(writer.process),
    })
    const {time} = this
    return {
      name: STACK,
      transport,
      clock: () => time.nowMs,
      randomBytes: count => randomBytes(this.#draws, count, {others: slot}),
      backoff: {random: this.#draws.random, sleep: time.sleep},
    }
  }

  /** The same within the namespace. */
  tenantTable(writer: Writer): NamespaceTable {
    return {...this.table(writer), namespace: this.namespace}
  }

  /** A process with empty caches. */
  freshLimiter(): RateLimiter {
    return this.#newProcess(this.processes.length + this.#fresh++, 0).limiter
  }

  note(text: string): void {
    this.trace = extendHash(this.trace, `${this.time.elapsedMs} ${text}`)
    this.log.push(`${String(this.time.elapsedMs).padStart(7)} ${text}`)
  }

  /** Whether processes are paused, so that timers must know theirs. */
  get hasPauses(): boolean {
    return this.scenario.steps.some(({event}) => event.kind === 'pause')
  }

  /** Whether caches can hold everything that the processes use. */
  get isAllCached(): boolean {
    return this.scenario.cacheSize === USUAL_CACHE_SIZE
  }

  /** Maximum difference between the processes' clocks, in ms. */
  get spreadMs(): number {
    return this.#latestMs - this.#earliestMs
  }

  /** Maximum lead of the processes' clocks over the true time, in ms. */
  get aheadMs(): number {
    return this.#latestMs
  }

  /** Maximum time from a decision until it takes effect, including retries, in ms. */
  get lagMs(): number {
    return this.scenario.longestWayMs + this.#faultLagMs
  }

  noteSkew(ms: number): void {
    this.#latestMs = Math.max(this.#latestMs, ms)
    this.#earliestMs = Math.min(this.#earliestMs, ms)
  }

  #newProcess(number: number, skewMs: number): SimulatedProcess {
    const {scenario, time} = this
    this.noteSkew(skewMs)
    return new SimulatedProcess({
      number,
      seed: scenario.seed,
      time,
      skewMs,
      stack: STACK,
      namespace: TENANT,
      slots: this.slots,
      cacheSize: scenario.cacheSize,
      network: this.#networkOf({kind: 'limiter', process: number}),
    })
  }

  #networkOf(writer: Writer) {
    const {process} = writer
    return {
      process,
      carryOut: (operation: Operation, input: never, isAgain: boolean) =>
        this.#serve(writer, operation, input, {isThrottled: true, isAgain}),
      dispatch: () => (writer.kind === 'limiter' ? this.dispatch : undefined),
      waysMs: (call: number): readonly [number, number] => this.#waysMs(process, call),
      // Without a namespace, there is nothing to do.
      faultAt: (call: number, operation: Operation, input: object) =>
        writer.kind === 'setup' ? undefined : this.#faultAt(process, call, operation, input),
      onCall: (operation: Operation, call: number, fault: Fault | undefined) => {
        this.counts.calls++
        if (fault) {
          this.counts.faults++
          this.#faultLagMs = Math.max(
            this.#faultLagMs,
            DECISION_TIMEOUT_MS + (fault.kind === 'late' ? fault.delayMs : 0),
          )
          this.processes[process]?.disturbedAtMs.push(this.time.elapsedMs)
          if (fault.kind === 'hang' || fault.kind === 'late')
            this.processes[process]?.unansweredAtMs.push(this.time.elapsedMs)
        }
        this.note(`${nameOf(writer)} call ${call} ${operation}${fault ? ` ${fault.kind}` : ''}`)
      },
    }
  }

  #faultAt(process: number, call: number, operation: Operation, input: object): Fault | undefined {
    const key = `${process} ${operation}`
    const ofOperation = (this.#operationCalls.get(key) ?? 0) + 1
    this.#operationCalls.set(key, ofOperation)
    if (this.isCalm) return undefined
    const cutOff = this.processes[process]?.cutOff(input)
    if (cutOff) return {by: process, call, ...cutOff}
    return this.#faults.get(faultKey(process, call)) ?? this.#faults.get(faultKey(process, ofOperation, operation))
  }

  #waysMs(process: number, call: number): readonly [number, number] {
    const {seed, longestWayMs} = this.scenario
    const way = (direction: number) => Math.floor(drawAt(seed, process + 10, call, direction) * longestWayMs) + 1
    return [way(1), way(2)]
  }

  /** Throttles writes beyond the units per second that a partition allows. */
  #mayWrite(partition: string, units: number): boolean {
    const second = Math.floor(this.time.nowMs / 1000)
    const known = this.#units.get(partition)
    const used = (known?.second === second ? known.used : 0) + units
    if (!this.#isThrottled || this.isCalm || this.processes.length === 0 || used <= this.scenario.partitionUnits) {
      this.#units.set(partition, {second, used})
      return true
    }
    this.#faultLagMs = Math.max(this.#faultLagMs, DECISION_TIMEOUT_MS)
    for (const process of this.processes) process.disturbedAtMs.push(this.time.elapsedMs)
    return false
  }

  #nextCall(process: number): number {
    const call = (this.#calls.get(process) ?? 0) + 1
    this.#calls.set(process, call)
    return call
  }

  #wrote(writer: Writer, operation: Operation, changes: readonly Change[], isAgain: boolean): void {
    this.counts.writes++
    for (const change of changes) if (writer.kind !== 'setup') this.stream.append(change)
    const shards = changes.flatMap(change => shardChange(change) ?? [])
    for (const {entity, shard, before, after} of shards) {
      const limits = [...(after?.limits ?? before?.limits ?? [])].slice(0, 5)
      const shown = limits.map(([name, {tokens, consumed}]) => `${name} ${tokens}/${consumed}`).join(' ')
      this.note(`${nameOf(writer)} wrote${isAgain ? ' again' : ''} ${entity}#${shard} ${after ? shown : 'deleted'}`)
    }
    this.onWrite({atMs: this.time.nowMs, writer, shards, changes, isTransaction: operation === 'TransactWriteItems'})
  }

  /** Runs virtual time until a promise of the set-up settles. */
  async #now<T>(work: Promise<T>): Promise<T> {
    let isDone = false
    const done = work.finally(() => {
      isDone = true
    })
    for (let ms = 1; !isDone && ms < 10_000; ms++) await this.time.runUntil(this.time.nowMs + 1)
    return done
  }
}

function nameOf({kind, process, event}: Writer): string {
  return kind === 'limiter' ? `p${process}` : (event ?? kind)
}

const faultKey = (by: number, call: number, operation = ''): string => `${by} ${operation} ${call}`
