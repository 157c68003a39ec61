import {type Aggregator, createAggregator} from '../../../src/lib/aggregator/aggregator.js'
import type {StreamRecord} from '../../../src/lib/aggregator/stream-event.js'
import type {Table} from '../../../src/lib/repository/table/table.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import type {Change} from '../../helpers/memory-table/table.js'
import {drawAt} from './draws.js'
import type {VirtualTime} from './virtual-time.js'

const STREAM_ARN = 'arn:aws:dynamodb:us-east-1:000000000000:table/sim/stream/2026-01-01T00:00:00.000'

/** Maximum records per delivery. */
const LARGEST_BATCH = 12

/** A failed batch is retried after this time, in ms. */
const RETRY_PAUSE_MS = 30_000

/** Batches that are redriven much later arrive within this time, in ms. */
const LONGEST_REDRIVE_MS = 120_000

/** Time limit of the function, in ms. */
const FUNCTION_TIMEOUT_MS = 60_000

/** A shard of the stream: records of some items, in order. After a split its children continue it. */
interface StreamShard {
  readonly id: number
  readonly records: StreamRecord[]
  children: readonly [StreamShard, StreamShard] | undefined
  isPolled: boolean
}

interface StreamOptions {
  readonly seed: number
  readonly time: VirtualTime
  /** The table as the aggregator sees it; a new one for every incarnation. */
  readonly table: () => Table
  /** Maximum delay from a change to the delivery of its record, in ms; `undefined`: no aggregator runs. */
  readonly lagMs: number | undefined
  /** Whether the process dies during a delivery. */
  readonly isKilled: (delivery: number) => boolean
  readonly onDelivery: (records: number) => void
}

/**
 * The table's stream and the Lambda function that consumes it: at least once, in order within a shard, late, in batches
 * of any size, again from the first failed record, again as a whole after the process died.
 */
export class SimulatedStream {
  readonly #options: StreamOptions
  readonly #root: StreamShard = {id: 1, records: [], children: undefined, isPolled: false}
  #aggregator: Aggregator
  #deliveries = 0
  #waiting = 0
  #generation = 0

  constructor(options: StreamOptions) {
    this.#options = options
    this.#aggregator = this.#start()
  }

  /** Records that are not processed yet. */
  get waiting(): number {
    return this.#waiting
  }

  append(change: Change): void {
    if (this.#options.lagMs === undefined) return
    const record = recordOf(change)
    let shard = this.#root
    const hash = hashOf(record.dynamodb.Keys)
    for (let bit = 0; shard.children; bit++) shard = shard.children[(hash >> bit) & 1] as StreamShard
    shard.records.push(record)
    this.#waiting++
    this.#poll(this.#root)
  }

  /** Splits every open shard. */
  split(): void {
    const divide = (shard: StreamShard): void => {
      if (shard.children) for (const child of shard.children) divide(child)
      else {
        const child = (side: number) => ({id: shard.id * 2 + side, records: [], children: undefined, isPolled: false})
        shard.children = [child(0), child(1)]
      }
    }
    divide(this.#root)
  }

  /** Upkeep that is due without a record, by two processes at once. */
  async tick(): Promise<void> {
    await Promise.all([this.#aggregator.tick(), this.#start().tick()])
  }

  #poll(shard: StreamShard): void {
    if (shard.records.length === 0) for (const child of shard.children ?? []) this.#poll(child)
    if (shard.records.length === 0 || shard.isPolled) return
    shard.isPolled = true
    const {time, lagMs = 0, seed} = this.#options
    const delivery = ++this.#deliveries
    time.after(drawAt(seed, 71, delivery) * lagMs, () => void this.#deliver(shard, delivery))
  }

  async #deliver(shard: StreamShard, delivery: number): Promise<void> {
    const {seed, isKilled, onDelivery, time} = this.#options
    const size = 1 + Math.floor(drawAt(seed, 72, delivery) * LARGEST_BATCH)
    const batch = shard.records.slice(0, size)
    onDelivery(batch.length)
    const generation = this.#generation
    const handled = this.#aggregator.handle({Records: batch})
    if (isKilled(delivery)) {
      // Somewhere in the middle: the response is lost, and the whole batch is delivered again.
      const midMs = drawAt(seed, 73, delivery) * 40
      void handled.catch(() => {})
      await time.sleep(midMs)
      if (generation === this.#generation) this.#restart()
      shard.isPolled = false
      this.#poll(this.#root)
      return
    }
    const result = await Promise.race([handled, time.sleep(FUNCTION_TIMEOUT_MS)])
    if (!result) {
      if (generation === this.#generation) this.#restart()
    } else {
      const {failures} = result
      const failed = batch.findIndex(({dynamodb}) => failures.includes(dynamodb.SequenceNumber))
      // Occasionally, processed records are delivered again.
      const isTwice = drawAt(seed, 74, delivery) < 0.1
      const done = isTwice ? 0 : failed < 0 ? batch.length : failed
      if (isTwice) void this.#aggregator.handle({Records: batch}).catch(() => {})
      // Rarely, a batch is delivered again after later ones, as from a dead-letter queue.
      if (drawAt(seed, 75, delivery) < 0.05) void this.#redrive(batch, drawAt(seed, 76, delivery) * LONGEST_REDRIVE_MS)
      const count = isTwice && failed < 0 ? batch.length : done
      shard.records.splice(0, count)
      this.#waiting -= count
      if (failed >= 0) await time.sleep(RETRY_PAUSE_MS)
    }
    shard.isPolled = false
    this.#poll(this.#root)
  }

  async #redrive(batch: readonly StreamRecord[], afterMs: number): Promise<void> {
    this.#waiting++
    await this.#options.time.sleep(afterMs)
    const handled = this.#aggregator.handle({Records: batch}).catch(() => {})
    await Promise.race([handled, this.#options.time.sleep(FUNCTION_TIMEOUT_MS)])
    this.#waiting--
  }

  #restart(): void {
    this.#generation++
    this.#aggregator = this.#start()
  }

  #start(): Aggregator {
    return createAggregator({table: this.#options.table(), log: () => {}})
  }
}

function recordOf({sequence, atMs, before, after}: Change): StreamRecord {
  const {PK, SK} = (before ?? after) as Item
  return {
    eventID: String(sequence),
    eventName: before ? (after ? 'MODIFY' : 'REMOVE') : 'INSERT',
    eventSourceARN: STREAM_ARN,
    dynamodb: {
      ApproximateCreationDateTime: atMs / 1000,
      Keys: {PK, SK} as Item,
      ...(after && {NewImage: after}),
      ...(before && {OldImage: before}),
      SequenceNumber: String(1_000_000 + sequence),
    },
  }
}

function hashOf(key: Item): number {
  let hash = 7
  for (const char of JSON.stringify(key.PK)) hash = (Math.imul(hash, 31) + char.charCodeAt(0)) >>> 0
  return hash
}
