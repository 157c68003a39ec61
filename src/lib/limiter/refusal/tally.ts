import {groupBy} from '../../core/group-by.js'
import type {BucketName} from '../../core/names.js'
import {forEachConcurrently} from '../../dynamo/concurrency.js'
import {isUnavailability} from '../../dynamo/errors.js'
import {type GuardedWrite, mayHaveBeenApplied, type WriteOutcome} from '../../repository/buckets/marked-write.js'
import type {WriteMark} from '../../repository/buckets/writes.js'
import {Lru} from '../../repository/table/lru.js'
import {addLink, type RefusalCounts, type UnsettledCount} from '../../schema/refusal-counts.js'

/** Between writes to a bucket that only refuses; bounds the loss in a crash. */
const FLUSH_INTERVAL_MS = 10_000

/** Refusals wait at least this long for another write to piggyback on. */
const SHORTEST_WAIT_MS = 1000

/** Refusals by a parent alone wait longer, unless they are many: the parent may have thousands of children. */
const [MANY_BY_PARENT, FEW_WAIT_MS] = [10, 60_000]

/** Limits per write, and the longest update they are added to: DynamoDB allows 4,096 characters. */
const LIMITS_PER_WRITE = 8
const LONGEST_UPDATE = 3500

/** Provider accounts per caller, and resources of callers per account, between two writes. */
const MOST_LINKS = 8

/** Concurrent writes for refusals only: requests must not queue behind thousands of them. */
const FLUSHES_IN_FLIGHT = 16

/** Buckets flushed early per refused request if too many are pending: more than one request can add. */
const MOST_HASTENED = 4

/** Pending buckets beyond the cache size. Beyond that, the oldest refusals are lost. */
const MOST_LATE = 10_000

interface AskedLimit extends BucketName {
  readonly name: string
  /** Whole tokens. */
  readonly requested: number
  readonly exceeded: boolean
}

/** Updated in place for every refusal; unchanged once a write has taken them. */
interface MutableCounts extends RefusalCounts {
  requests: number
  byParent: number
  blocked?: number
  accounts?: Map<string, number>
  callers?: Map<string, number>
  unsettled?: UnsettledCount
  lastAtMs: number
  readonly limits: Map<string, {requests: number; tokens: bigint}>
}

/** Unwritten refusals of one bucket. Instants are on the `performance` clock. */
interface Waiting {
  readonly bucket: BucketName
  counts: MutableCounts
  sinceMs: number
  flushedAtMs: number
}

const NO_LIMITS: RefusalCounts['limits'] = new Map()

const noCounts = (): MutableCounts => ({requests: 0, byParent: 0, lastAtMs: 0, limits: new Map()})

function countLimit({limits}: MutableCounts, name: string, requests: number, tokens: bigint): void {
  const limit = limits.get(name)
  if (limit) {
    limit.requests += requests
    limit.tokens += tokens
  } else limits.set(name, {requests, tokens})
}

interface RefusalTallyOptions {
  /** Epoch ms. */
  readonly clock: () => number
  /** Maximum pending buckets; beyond that, the oldest are flushed early. */
  readonly cacheSize: number
  readonly flush: (bucket: BucketName) => Promise<unknown>
}

/** Refusals piggyback on the bucket's next write or are flushed. An uncertain write loses them: none counts twice. */
export class RefusalTally {
  readonly #options: RefusalTallyOptions
  readonly #waiting = new Map<string, Waiting>()
  /** Not flushed early yet, oldest first. */
  readonly #patient = new Set<Waiting>()
  readonly #flushed: Lru<number>
  readonly #due = new Set<Waiting>()
  #flushing = 0
  #timer: NodeJS.Timeout | undefined
  #timerAtMs = Number.POSITIVE_INFINITY
  #inFlight = 0
  #lost = 0

  constructor(options: RefusalTallyOptions) {
    this.#options = options
    const {cacheSize: maxEntries} = options
    this.#flushed = new Lru({clock: () => performance.now(), ttlMs: FLUSH_INTERVAL_MS, maxEntries})
  }

  /** Refusals not known to be in a bucket: pending, in flight or lost. */
  get uncounted(): number {
    let sum = this.#inFlight + this.#lost
    for (const {counts} of this.#waiting.values()) sum += sizeOf(counts)
    return sum
  }

  get waiting(): number {
    return this.#waiting.size
  }

  /**
   * `parts`: the buckets of the request that refuse, by their own limits or those of parents. `caller`: whose request the
   * first of them, a shared account or scope, refused.
   */
  note(
    parts: readonly BucketName[],
    {statuses}: {readonly statuses: readonly AskedLimit[]},
    caller?: BucketName,
  ): void {
    const lastAtMs = this.#options.clock()
    const blamed = statuses.filter(({exceeded}) => exceeded)
    const [first] = blamed
    // Contended: no limit refused it, so no bucket counts it.
    if (!first) return
    if (blamed.length === 1 && !caller && parts.length === 1 && first.entity === parts[0]?.entity)
      this.#addBucket(first, blamed, lastAtMs)
    else {
      const refused = groupBy(blamed, keyOf)
      for (const ofBucket of refused.values()) {
        // Several parts of a request may ask for the same limit.
        const limits = new Map(ofBucket.map(limit => [limit.name, limit]))
        this.#addBucket(ofBucket[0] as AskedLimit, [...limits.values()], lastAtMs)
      }
      this.#noteOthers(parts, new Set(refused.keys()), caller, lastAtMs)
    }
    this.#hasten()
  }

  /**
   * Buckets that would have admitted the request count it as refused by others, each once. The caller counts the account
   * too: only one, so that the sum over its accounts is true.
   */
  #noteOthers(
    parts: readonly BucketName[],
    counted: Set<string>,
    caller: BucketName | undefined,
    lastAtMs: number,
  ): void {
    const byOthers = {requests: 0, byParent: 1, lastAtMs, limits: NO_LIMITS}
    for (const part of parts) if (!counted.has(keyOf(part))) this.#add(part, byOthers)
    const [account] = parts
    if (!caller || !account || counted.has(keyOf(caller)) || parts.some(part => keyOf(part) === keyOf(caller))) return
    this.#add(account, {...byOthers, byParent: 0, callers: new Map([[caller.resource, 1]])})
    this.#add(caller, {...byOthers, accounts: new Map([[keyOf(account), 1]])})
  }

  #addBucket(bucket: BucketName, asked: readonly AskedLimit[], lastAtMs: number): void {
    const waiting = this.#waitingFor(bucket)
    waiting.counts.requests++
    waiting.counts.lastAtMs = Math.max(waiting.counts.lastAtMs, lastAtMs)
    // Planted fault: only the first refusing limit is counted
    for (const {name, requested, exceeded} of asked)
      if (exceeded) countLimit(waiting.counts, name, 1, BigInt(requested))
    this.#wakeAt(dueAtMs(waiting))
  }

  noteDisabled(parts: readonly BucketName[], refusing: BucketName, caller?: BucketName): void {
    const lastAtMs = this.#options.clock()
    this.#add(refusing, {requests: 1, byParent: 0, blocked: 1, lastAtMs, limits: NO_LIMITS})
    this.#noteOthers(parts, new Set([keyOf(refusing)]), caller, lastAtMs)
    this.#hasten()
  }

  /** A settlement of the bucket's entity was given up. */
  noteUnsettled(bucket: BucketName): void {
    const unsettled = {settlements: 1, lastAtMs: this.#options.clock()}
    this.#add(bucket, {requests: 0, byParent: 0, lastAtMs: 0, limits: NO_LIMITS, unsettled})
  }

  isWaiting(bucket: BucketName): boolean {
    return this.#waiting.has(keyOf(bucket))
  }

  writesFor(bucket: BucketName): number {
    const waiting = this.#waiting.get(keyOf(bucket))
    return Math.max(1, Math.ceil((waiting?.counts.limits.size ?? 0) / LIMITS_PER_WRITE))
  }

  /** Adds pending refusals to a write of one of the bucket's shards; `undefined` if none are pending. */
  piggyback(bucket: BucketName, write: GuardedWrite): RefusalPiggyback | undefined {
    if (this.#waiting.size === 0) return undefined
    const waiting = this.#waiting.get(keyOf(bucket))
    if (!waiting) return undefined
    const {counts} = waiting
    const {taken, rest} = divide(counts)
    waiting.counts = {requests: 0, byParent: 0, lastAtMs: counts.lastAtMs, limits: rest}
    // Planted fault: piggybacked refusals stay pending
    if (rest.size === 0) this.#remove(waiting)
    const size = sizeOf(taken)
    this.#inFlight += size
    return new RefusalPiggyback(write, taken, outcome => {
      this.#inFlight -= size
      if (outcome === 'lost') this.#lost += size
      // Planted fault: refusals of a refused write are lost
      else if (outcome === 'not-counted') this.#add(bucket, taken)
    })
  }

  drop(bucket: BucketName): void {
    const waiting = this.#waiting.get(keyOf(bucket))
    if (!waiting) return
    this.#lost += sizeOf(waiting.counts)
    this.#remove(waiting)
  }

  async flush(): Promise<void> {
    this.#stopTimer()
    await forEachConcurrently(each([...this.#waiting.values()]), FLUSHES_IN_FLIGHT, async next => {
      await this.#flush(next).catch(error => {
        if (isUnavailability(error)) throw error
      })
    }).catch(() => {})
  }

  #add(bucket: BucketName, more: RefusalCounts): void {
    const {requests, byParent, blocked = 0, unsettled, lastAtMs, limits} = more
    const waiting = this.#waitingFor(bucket)
    const {counts} = waiting
    for (const link of ['accounts', 'callers'] as const) {
      if (!more[link]) continue
      counts[link] ??= new Map()
      for (const [name, count] of more[link])
        if (counts[link].has(name) || counts[link].size < MOST_LINKS) addLink(counts[link], name, count)
    }
    counts.requests += requests
    counts.byParent += byParent
    if (unsettled)
      counts.unsettled = {
        settlements: (counts.unsettled?.settlements ?? 0) + unsettled.settlements,
        lastAtMs: Math.max(counts.unsettled?.lastAtMs ?? 0, unsettled.lastAtMs),
      }
    if (blocked > 0) counts.blocked = (counts.blocked ?? 0) + blocked
    counts.lastAtMs = Math.max(counts.lastAtMs, lastAtMs)
    for (const [name, each] of limits) countLimit(counts, name, each.requests, each.tokens)
    this.#wakeAt(dueAtMs(waiting))
  }

  #waitingFor(bucket: BucketName): Waiting {
    const key = keyOf(bucket)
    const known = this.#waiting.get(key)
    if (known) return known
    const {entity, resource} = bucket
    const flushedAtMs = this.#flushed.get(key) ?? Number.NEGATIVE_INFINITY
    const waiting = {bucket: {entity, resource}, counts: noCounts(), sinceMs: performance.now(), flushedAtMs}
    this.#waiting.set(key, waiting)
    this.#patient.add(waiting)
    if (this.#waiting.size > this.#options.cacheSize + MOST_LATE) this.#dropOldest()
    return waiting
  }

  #dropOldest(): void {
    const [oldest] = this.#waiting.values()
    if (oldest) this.drop(oldest.bucket)
  }

  #hasten(): void {
    const surplus = this.#patient.size - this.#options.cacheSize
    if (surplus <= 0) return
    let left = Math.min(surplus, MOST_HASTENED)
    for (const waiting of this.#patient) {
      this.#patient.delete(waiting)
      this.#due.add(waiting)
      if (--left === 0) break
    }
    this.#flushDue()
  }

  #remove(waiting: Waiting): void {
    this.#waiting.delete(keyOf(waiting.bucket))
    this.#patient.delete(waiting)
    this.#due.delete(waiting)
  }

  #flush(waiting: Waiting): Promise<unknown> {
    waiting.flushedAtMs = performance.now()
    this.#flushed.set(keyOf(waiting.bucket), waiting.flushedAtMs)
    return this.#options.flush(waiting.bucket)
  }

  #wake(): void {
    this.#stopTimer()
    const nowMs = performance.now()
    for (const waiting of this.#waiting.values()) {
      if (dueAtMs(waiting) <= nowMs) this.#due.add(waiting)
      else this.#wakeAt(dueAtMs(waiting))
    }
    this.#flushDue()
  }

  #flushDue(): void {
    for (const waiting of this.#due) {
      if (this.#flushing >= FLUSHES_IN_FLIGHT) return
      this.#due.delete(waiting)
      this.#flushing++
      const next = () => {
        this.#flushing--
        this.#flushDue()
      }
      this.#flush(waiting).then(next, next)
    }
  }

  #wakeAt(atMs: number): void {
    if (atMs >= this.#timerAtMs) return
    this.#stopTimer()
    this.#timerAtMs = atMs
    this.#timer = setTimeout(() => this.#wake(), Math.max(0, Math.ceil(atMs - performance.now()))).unref()
  }

  #stopTimer(): void {
    clearTimeout(this.#timer)
    this.#timerAtMs = Number.POSITIVE_INFINITY
  }
}

type PiggybackOutcome = 'counted' | 'not-counted' | 'lost'

export class RefusalPiggyback implements GuardedWrite {
  readonly basis: GuardedWrite['basis']
  readonly #update: GuardedWrite['update']
  readonly #counts: RefusalCounts
  readonly #end: (outcome: PiggybackOutcome) => void
  #isLeftBehind = false

  constructor({update, basis}: GuardedWrite, counts: RefusalCounts, end: (outcome: PiggybackOutcome) => void) {
    this.basis = basis
    this.#update = update
    this.#counts = counts
    this.#end = end
  }

  readonly update = (mark: WriteMark) => {
    const update = this.#update({...mark, refusals: this.#counts})
    this.#isLeftBehind = (update.UpdateExpression?.length ?? 0) > LONGEST_UPDATE
    return this.#isLeftBehind ? this.#update(mark) : update
  }

  settle(outcome: WriteOutcome): void {
    if (this.#isLeftBehind) this.#end('not-counted')
    else if (outcome.applied) this.#end('counted')
    // Planted fault: refusals of an uncertain write are counted again
    else this.#end(outcome.isInDoubt ? 'lost' : 'not-counted')
  }

  fail(error: unknown): void {
    // Planted fault: refusals of an uncertain failed write are counted again
    this.#end(mayHaveBeenApplied(error) && !this.#isLeftBehind ? 'lost' : 'not-counted')
  }
}

function divide(counts: MutableCounts): {taken: RefusalCounts; rest: MutableCounts['limits']} {
  if (counts.limits.size <= LIMITS_PER_WRITE) return {taken: counts, rest: new Map()}
  const limits = [...counts.limits]
  const taken = {...counts, limits: new Map(limits.slice(0, LIMITS_PER_WRITE))}
  return {taken, rest: new Map(limits.slice(LIMITS_PER_WRITE))}
}

const keyOf = ({entity, resource}: BucketName): string => `${entity}#${resource}`

const sizeOf = ({requests, byParent}: RefusalCounts): number => requests + byParent

function dueAtMs({counts: {requests, byParent, limits, unsettled}, sinceMs, flushedAtMs}: Waiting): number {
  const isFew = requests === 0 && limits.size === 0 && unsettled === undefined && byParent < MANY_BY_PARENT
  return Math.max(sinceMs + (isFew ? FEW_WAIT_MS : SHORTEST_WAIT_MS), flushedAtMs + FLUSH_INTERVAL_MS)
}

async function* each<T>(elements: Iterable<T>): AsyncGenerator<T, void> {
  yield* elements
}
