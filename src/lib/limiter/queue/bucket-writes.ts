import {isRetryable} from '../../dynamo/errors.js'
import {retrying} from '../../dynamo/retry.js'
import {type GuardedWrite, sendGuarded, type WriteOutcome} from '../../repository/buckets/marked-write.js'
import type {BucketAddress} from '../../repository/buckets/writes.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {Item} from '../../schema/attribute-value.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {keys, wireKey} from '../../schema/keys.js'
import {asCharged, type KnownBucket} from './known-bucket.js'
import type {WriteStep} from './next-step.js'
import type {QueueServices} from './queue-services.js'

/** `record` is undefined if there is no bucket. */
export interface SeenOutcome {
  readonly outcome: WriteOutcome
  readonly record: BucketRecord | undefined
}

interface WrittenItem {
  readonly table: NamespaceTable
  readonly address: BucketAddress
  readonly ttlMultiplier: number
  readonly read: () => Promise<void>
  readonly write: (write: GuardedWrite) => Promise<WriteOutcome>
}

export class BucketWrites {
  readonly #services: QueueServices
  readonly #address: BucketAddress
  readonly #bucket: KnownBucket

  constructor(services: QueueServices, address: BucketAddress, bucket: KnownBucket) {
    this.#services = services
    this.#address = address
    this.#bucket = bucket
  }

  get item(): WrittenItem {
    const {table, settings} = this.#services
    const write = async (guarded: GuardedWrite) => (await this.send(guarded)).outcome
    return {table, address: this.#address, ttlMultiplier: settings.bucketTtlMultiplier, read: () => this.#read(), write}
  }

  async send(write: GuardedWrite & Pick<WriteStep, 'isProbe'>): Promise<SeenOutcome> {
    const {table, settings, nextMark, refusals} = this.#services
    const [address, bucket] = [this.#address, this.#bucket]
    const mark = nextMark()
    const {lastRecord} = bucket
    // A write unlikely to be applied takes no refusals along: they would have to be taken back.
    const ride = write.isProbe ? undefined : refusals.ride(address, write)
    try {
      const options = {nextMark, slotMark: bucket.slotMark, timeoutMs: settings.writeTimeoutMs}
      const outcome = await sendGuarded(table, ride ?? write, mark, options)
      ride?.settle(outcome)
      const seen = bucket.learn(outcome.item, mark, table.clock())
      if (seen) this.#services.shards.notice(address, seen)
      else if (!outcome.applied && outcome.isInDoubt) bucket.noteAttempt(write.basis)
      const isFound = outcome.applied && outcome.isFound
      return {outcome, record: isFound ? asCharged(seen?.record, write.basis, mark, lastRecord) : seen?.record}
    } catch (error) {
      // The write may have been applied: the state may be wrong.
      ride?.fail(error)
      bucket.forget()
      throw error
    }
  }

  async #read(): Promise<void> {
    const {table, settings, nextMark} = this.#services
    const item = await readBucket(table, this.#address, settings.writeTimeoutMs)
    this.#bucket.learn(item, nextMark(), table.clock())
  }
}

/** `timeoutMs` bounds all attempts together, as for a write. */
async function readBucket(
  {transport, name, namespace, backoff}: NamespaceTable,
  {entity, resource, shard}: BucketAddress,
  timeoutMs: number,
): Promise<Item | undefined> {
  const request = {TableName: name, Key: wireKey(keys.bucket(namespace, entity, resource, shard)), ConsistentRead: true}
  const endMs = performance.now() + timeoutMs
  const attempt = () => transport.send('GetItem', request, {timeoutMs: Math.max(1, endMs - performance.now())})
  const retryable = (error: unknown) => isRetryable(error) && performance.now() < endMs
  const {Item} = await retrying(attempt, {...backoff, retryable})
  return Item
}
