import type {StreamEvent, StreamRecord} from '../../aggregator/stream-event.js'
import type {SendOptions, Transport} from '../../dynamo/transport.js'
import {
  IteratorExpired,
  type RawRecord,
  RecordsTrimmed,
  type ShardDescription,
  type StreamTransport,
} from '../../dynamo/transports/stream.js'
import {
  latestStreamArn,
  listShards,
  openShard,
  readRecords,
  type StreamPage,
} from '../../dynamo/transports/stream-shards.js'
import {type Checkpoint, type ShardProgress, StreamProgress} from './progress.js'

export interface PollerOptions {
  readonly tableName: string
  readonly transport: Transport
  readonly stream: StreamTransport
  /** Must be idempotent: a record may be delivered more than once. */
  readonly handler: StreamHandler
  readonly idle?: () => Promise<void>
  readonly checkpointFile: string
  /** Called after a checkpoint is written: nothing up to this record will be read again. */
  readonly release?: (streamArn: string, sequence: string) => Promise<void>
  /** Epoch milliseconds. */
  readonly clock: () => number
  /** Resolves after `ms`, or earlier when the signal aborts. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  readonly log: (level: 'info' | 'warn' | 'error', message: string, fields?: Readonly<Record<string, unknown>>) => void
  /** Maximum records per delivery. Default: 5,000, about 15 MB. */
  readonly batchSize?: number
}

const IDLE_MS = 200
// DynamoDB's limit per request.
const MAX_PAGE = 1_000
// With fewer records it is cheaper to wait for more: every batch costs the engine writes.
const MIN_BACKLOG = 100
// New shards and new streams are rare, and the end of a shard also triggers a discovery.
const DISCOVERY_INTERVAL_MS = 10_000
const MAX_BACKOFF_MS = 10_000

export class StreamPoller {
  readonly #options: PollerOptions
  readonly #batchSize: number
  readonly #pageSize: number
  readonly #stopping = new AbortController()
  readonly #progress: StreamProgress
  #running: Promise<void> | undefined
  #shards: readonly ShardDescription[] = []
  #nextDiscoveryMs = 0
  readonly #iterators = new Map<string, string>()

  #records = 0
  #batches = 0
  #errors = 0
  #lastError: {readonly message: string; readonly atMs: number} | undefined
  /** Write time of the last delivered record; `undefined`: the stream was read to its end. */
  #behindSinceMs: number | undefined
  #streamLength: number | undefined

  constructor(options: PollerOptions) {
    this.#options = options
    this.#batchSize = options.batchSize ?? 5_000
    this.#pageSize = Math.min(MAX_PAGE, this.#batchSize)
    this.#progress = new StreamProgress(options.checkpointFile)
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** Resolves when the batch in flight is done and checkpointed. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  status() {
    return {
      streamArn: this.#progress.streamArn || undefined,
      records: this.#records,
      batches: this.#batches,
      errors: this.#errors,
      lastError: this.#lastError,
      lagMs: this.#behindSinceMs === undefined ? 0 : Math.max(0, this.#options.clock() - this.#behindSinceMs),
      // Records that the engine keeps, as of the last discovery. It does not include the backlog.
      streamLength: this.#behindSinceMs === undefined ? this.#streamLength : undefined,
    }
  }

  async #run(): Promise<void> {
    const {sleep, idle} = this.#options
    const {signal} = this.#stopping
    let failures = 0
    while (!signal.aborted) {
      try {
        const hasMore = await this.#round()
        failures = 0
        if (hasMore) continue
        await idle?.()
        await sleep(IDLE_MS, signal)
      } catch (error) {
        if (signal.aborted) return
        this.#recordError(error)
        await sleep(Math.min(MAX_BACKOFF_MS, IDLE_MS * 2 ** failures++), signal)
      }
    }
  }

  /** Resolves to whether more can be read at once. */
  async #round(): Promise<boolean> {
    if (this.#options.clock() >= this.#nextDiscoveryMs) await this.#discover()
    let hasMore = false
    for (const shardId of this.#progress.readable(this.#shards)) {
      if (this.#stopping.signal.aborted) return false
      hasMore = (await this.#advance(shardId)) || hasMore
    }
    return hasMore
  }

  async #discover(): Promise<void> {
    const {tableName, transport, stream, checkpointFile, clock, log} = this.#options
    const {signal} = this.#stopping
    const unreadable = await this.#progress.load()
    if (unreadable)
      log('warn', 'the checkpoint is unreadable; reading the stream from its start', {checkpointFile, ...unreadable})
    const streamArn = await latestStreamArn(transport, tableName, {signal})
    if (streamArn === undefined) throw new Error(`table ${tableName} has no stream`)
    const before = this.#progress.streamArn
    if (before !== streamArn) {
      if (before !== '') log('warn', 'the table has a new stream', {before, streamArn})
      this.#iterators.clear()
    }
    this.#shards = await listShards(stream, streamArn, {signal})
    this.#progress.follow(streamArn, this.#shards)
    this.#streamLength = await streamLength(stream, this.#progress, this.#shards, {signal})
    this.#nextDiscoveryMs = clock() + DISCOVERY_INTERVAL_MS
  }

  /** Resolves to whether more records are likely. */
  async #advance(shardId: string): Promise<boolean> {
    const {records, next} = await this.#readOn(shardId, await this.#read(shardId))
    await this.#deliver(shardId, records)
    const hasMore = records.length >= Math.min(MIN_BACKLOG, this.#batchSize)
    const writtenAt = records.at(-1)?.dynamodb.ApproximateCreationDateTime
    this.#behindSinceMs = hasMore && writtenAt !== undefined ? writtenAt * 1000 : undefined
    if (next !== undefined) this.#iterators.set(shardId, next)
    else {
      await this.#checkpoint(shardId, {done: true})
      this.#nextDiscoveryMs = 0
    }
    return hasMore || next === undefined
  }

  /** A bucket costs the same usage writes per batch, regardless of its changes, so large batches catch up faster. */
  async #readOn(shardId: string, first: StreamPage): Promise<StreamPage> {
    const {stream, log} = this.#options
    const records = [...first.records]
    let {next} = first
    let isFull = first.records.length >= this.#pageSize
    while (isFull && next !== undefined && records.length + this.#pageSize <= this.#batchSize) {
      try {
        const page = await readRecords(stream, next, this.#pageSize, {signal: this.#stopping.signal})
        records.push(...page.records)
        next = page.next
        isFull = page.records.length >= this.#pageSize
      } catch (error) {
        // Deliver what was read so far. If the error persists, the next round throws it.
        log('warn', `the next page of the stream cannot be read yet: ${messageOf(error)}`, {shardId})
        break
      }
    }
    return {records, next}
  }

  async #read(shardId: string): Promise<StreamPage> {
    const {stream, log} = this.#options
    const {signal} = this.#stopping
    const after = this.#progress.lastOf(shardId)
    try {
      const position = {streamArn: this.#progress.streamArn, shardId, after}
      const iterator = this.#iterators.get(shardId) ?? (await openShard(stream, position, {signal}))
      // If anything fails from here on, a new iterator is opened at the checkpoint.
      this.#iterators.delete(shardId)
      if (iterator === undefined) return {records: [], next: undefined}
      return await readRecords(stream, iterator, this.#pageSize, {signal})
    } catch (error) {
      if (error instanceof IteratorExpired) return this.#read(shardId)
      if (!(error instanceof RecordsTrimmed) || after === undefined) throw error
      log('error', 'records were lost: the stream was trimmed before they were read', {shardId, after})
      this.#progress.reset(shardId)
      return this.#read(shardId)
    }
  }

  async #deliver(shardId: string, records: readonly RawRecord[]): Promise<void> {
    if (records.length === 0) return
    const {delivered, failure} = await deliver(this.#options.handler, this.#progress.streamArn, records)
    const last = delivered.at(-1)
    if (last) await this.#checkpoint(shardId, {sequence: last.dynamodb.SequenceNumber})
    this.#batches++
    this.#records += delivered.length
    if (failure) throw failure
  }

  async #checkpoint(shardId: string, progress: ShardProgress): Promise<void> {
    const {release, log} = this.#options
    await this.#progress.save(shardId, progress)
    if (!release || !('sequence' in progress)) return
    // Records that are not released now are released with the next ones.
    await release(this.#progress.streamArn, progress.sequence).catch(error => {
      log('warn', `the stream cannot be trimmed: ${messageOf(error)}`)
    })
  }

  #recordError(error: unknown): void {
    const {clock, log} = this.#options
    this.#errors++
    this.#lastError = {message: messageOf(error), atMs: clock()}
    // The stream or the shard may no longer exist.
    this.#nextDiscoveryMs = 0
    log('error', `the stream cannot be read: ${messageOf(error)}`)
  }
}

/** Local engines number records consecutively; DynamoDB Local numbers all tables together. 0: nothing delivered yet. */
async function streamLength(
  stream: StreamTransport,
  {streamArn, shards: progress}: Checkpoint,
  shards: readonly ShardDescription[],
  options: SendOptions,
): Promise<number> {
  const delivered = Object.values(progress).flatMap(each => ('sequence' in each ? [BigInt(each.sequence)] : []))
  const newest = delivered.reduce((a, b) => (a > b ? a : b), 0n)
  for (const {ShardId: shardId} of shards) {
    const iterator = await openShard(stream, {streamArn, shardId, after: undefined}, options)
    const oldest = iterator === undefined ? undefined : (await readRecords(stream, iterator, 1, options)).records[0]
    if (oldest) return Math.max(0, Number(newest - BigInt(oldest.dynamodb.SequenceNumber)) + 1)
  }
  return 0
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** `failures`: sequence numbers of the records to deliver again. */
export type StreamHandler = (event: StreamEvent) => Promise<{readonly failures: readonly string[]}>

/** Delivered are the records before the first one that failed; the rest must be delivered again. */
async function deliver(
  handler: StreamHandler,
  streamArn: string,
  records: readonly RawRecord[],
): Promise<{delivered: readonly RawRecord[]; failure: Error | undefined}> {
  // Lambda adds the stream's ARN to each record.
  const event = {Records: records.map(record => ({...record, eventSourceARN: streamArn}) as StreamRecord)}
  let failed: ReadonlySet<string>
  try {
    failed = new Set((await handler(event)).failures)
  } catch (error) {
    return {delivered: [], failure: error instanceof Error ? error : new Error(String(error))}
  }
  if (failed.size === 0) return {delivered: records, failure: undefined}
  // A number that is not in the batch could stand for any of its records: then none counts as delivered.
  const known = records.filter(record => failed.has(record.dynamodb.SequenceNumber))
  const [first] = known
  const delivered = first && known.length === failed.size ? records.slice(0, records.indexOf(first)) : []
  const numbers = [...failed].slice(0, 5).join(', ')
  return {delivered, failure: new Error(`${failed.size} of ${records.length} records failed, among them ${numbers}`)}
}
