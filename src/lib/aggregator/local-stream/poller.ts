import type {Transport} from '../../dynamo/transport.js'
import type {RawRecord, ShardDescription, StreamTransport} from '../../dynamo/transports/stream.js'
import {IteratorExpired, RecordsTrimmed} from '../../dynamo/transports/stream.js'
import {
  latestStreamArn,
  listShards,
  openShard,
  readRecords,
  type StreamPage,
} from '../../dynamo/transports/stream-shards.js'
import type {ShardProgress} from './checkpoint.js'
import {deliver, type StreamHandler} from './delivery.js'
import {StreamProgress} from './progress.js'
import {shardsToRead} from './shard-walk.js'
import {streamLength} from './stream-length.js'

export interface PollerOptions {
  readonly tableName: string
  readonly transport: Transport
  readonly stream: StreamTransport
  /** Counts every record once however often it is delivered: the same code that Lambda runs. */
  readonly handler: StreamHandler
  /** Where to remember how far the stream has been read; of one poller only. */
  readonly checkpointFile: string
  /** Told after a checkpoint is written: nothing up to this record will be read again. */
  readonly release?: (streamArn: string, sequence: string) => Promise<void>
  /** Local time in ms since 1970. */
  readonly clock: () => number
  /** Resolves after `ms`, or earlier when the signal aborts. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>
  readonly log: (level: 'info' | 'warn' | 'error', message: string, fields?: Readonly<Record<string, unknown>>) => void
  /** Records per delivery at most; 5,000 unless said otherwise, which are about 15 MB. */
  readonly batchSize?: number
}

export interface PollerStatus {
  readonly streamArn: string | undefined
  /** Records that the handler has taken. */
  readonly records: number
  readonly batches: number
  readonly errors: number
  readonly lastError: {readonly message: string; readonly atMs: number} | undefined
  /** Age of the last record that was taken; 0 when there is none behind it. */
  readonly lagMs: number
  /** Records that the engine keeps, as of the last look; `undefined` before it, and while nobody knows how many wait. */
  readonly streamLength: number | undefined
}

const IDLE_MS = 200
// What DynamoDB gives at once.
const LARGEST_PAGE = 1_000
// Below this many records it pays to wait for more: every batch costs the engine writes.
const WORTH_READING_ON = 100
// New shards and a new stream are rare, and an ended shard asks for a look by itself.
const LOOK_EVERY_MS = 10_000
const LONGEST_BACKOFF_MS = 10_000

/** Reads the stream of a local engine's table and hands its records to the handler, in order and none left out. */
export class StreamPoller {
  readonly #options: PollerOptions
  readonly #batchSize: number
  readonly #pageSize: number
  readonly #stopping = new AbortController()
  readonly #progress: StreamProgress
  #running: Promise<void> | undefined
  #shards: readonly ShardDescription[] = []
  #lookAtMs = 0
  /** Places to read on, by shard. */
  readonly #iterators = new Map<string, string>()

  #records = 0
  #batches = 0
  #errors = 0
  #lastError: PollerStatus['lastError']
  /** When the last record taken was written; `undefined`: there is nothing behind it. */
  #behindSinceMs: number | undefined
  #streamLength: number | undefined

  constructor(options: PollerOptions) {
    this.#options = options
    this.#batchSize = options.batchSize ?? 5_000
    this.#pageSize = Math.min(LARGEST_PAGE, this.#batchSize)
    this.#progress = new StreamProgress(options.checkpointFile)
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** Resolves when the batch in flight, if any, is done and remembered. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  status(): PollerStatus {
    return {
      streamArn: this.#progress.streamArn || undefined,
      records: this.#records,
      batches: this.#batches,
      errors: this.#errors,
      lastError: this.#lastError,
      lagMs: this.#behindSinceMs === undefined ? 0 : Math.max(0, this.#options.clock() - this.#behindSinceMs),
      // It is counted up to the last record taken, which says nothing of those behind it.
      streamLength: this.#behindSinceMs === undefined ? this.#streamLength : undefined,
    }
  }

  async #run(): Promise<void> {
    const {sleep} = this.#options
    const {signal} = this.#stopping
    let failuresInARow = 0
    while (!signal.aborted) {
      try {
        const hasMore = await this.#round()
        failuresInARow = 0
        if (!hasMore) await sleep(IDLE_MS, signal)
      } catch (error) {
        if (signal.aborted) return
        this.#note(error)
        await sleep(Math.min(LONGEST_BACKOFF_MS, IDLE_MS * 2 ** failuresInARow++), signal)
      }
    }
  }

  /** Reads every shard that is due once; tells whether there is more to read at once. */
  async #round(): Promise<boolean> {
    if (this.#options.clock() >= this.#lookAtMs) await this.#look()
    let hasMore = false
    for (const shardId of shardsToRead(this.#shards, this.#progress.shards)) {
      if (this.#stopping.signal.aborted) return false
      hasMore = (await this.#advance(shardId)) || hasMore
    }
    return hasMore
  }

  /** Finds out which stream and shards there are. */
  async #look(): Promise<void> {
    const {tableName, transport, stream, checkpointFile, clock, log} = this.#options
    const {signal} = this.#stopping
    const loaded = await this.#progress.load()
    if (loaded === 'unreadable') log('warn', 'the checkpoint is unreadable: reading the stream anew', {checkpointFile})
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
    this.#lookAtMs = clock() + LOOK_EVERY_MS
  }

  /** Takes the next records of a shard; tells whether more are likely to be there. */
  async #advance(shardId: string): Promise<boolean> {
    const {records, next} = await this.#readOn(shardId, await this.#read(shardId))
    await this.#deliver(shardId, records)
    const hasMore = records.length >= Math.min(WORTH_READING_ON, this.#batchSize)
    const writtenAt = records.at(-1)?.dynamodb.ApproximateCreationDateTime
    this.#behindSinceMs = hasMore && writtenAt !== undefined ? writtenAt * 1000 : undefined
    if (next !== undefined) this.#iterators.set(shardId, next)
    else {
      await this.#remember(shardId, {done: true})
      this.#lookAtMs = 0
    }
    return hasMore || next === undefined
  }

  /**
   * Goes on while pages are full. A bucket that changed a thousand times costs as many writes of usage as one that changed
   * once, so whoever is behind catches up by larger batches.
   */
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
        // What was read so far is delivered; the next round meets the trouble again, if it lasts.
        log('warn', `stream not read on at once: ${messageOf(error)}`, {shardId})
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
      const place = {streamArn: this.#progress.streamArn, shardId, after}
      const iterator = this.#iterators.get(shardId) ?? (await openShard(stream, place, {signal}))
      // Whatever fails from here on, the place is asked for anew, by what is remembered.
      this.#iterators.delete(shardId)
      if (iterator === undefined) return {records: [], next: undefined}
      return await readRecords(stream, iterator, this.#pageSize, {signal})
    } catch (error) {
      if (error instanceof IteratorExpired) return this.#read(shardId)
      if (!(error instanceof RecordsTrimmed) || after === undefined) throw error
      log('error', 'records were lost: the stream was trimmed before they were read', {shardId, after})
      this.#progress.forget(shardId)
      return this.#read(shardId)
    }
  }

  async #deliver(shardId: string, records: readonly RawRecord[]): Promise<void> {
    if (records.length === 0) return
    const {taken, failure} = await deliver(this.#options.handler, this.#progress.streamArn, records)
    const last = taken.at(-1)
    if (last) await this.#remember(shardId, {sequence: last.dynamodb.SequenceNumber})
    this.#batches++
    this.#records += taken.length
    if (failure) throw failure
  }

  async #remember(shardId: string, progress: ShardProgress): Promise<void> {
    const {release, log} = this.#options
    await this.#progress.remember(shardId, progress)
    if (!release || !('sequence' in progress)) return
    // Those not let go of now go with the next ones.
    const notReleased = (error: unknown) => log('warn', `stream not trimmed: ${messageOf(error)}`)
    await release(this.#progress.streamArn, progress.sequence).catch(notReleased)
  }

  #note(error: unknown): void {
    const {clock, log} = this.#options
    this.#errors++
    this.#lastError = {message: messageOf(error), atMs: clock()}
    // The stream or the shard may be gone.
    this.#lookAtMs = 0
    log('error', `stream not read on: ${messageOf(error)}`)
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
