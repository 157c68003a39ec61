import {forEachConcurrently} from '../dynamo/concurrency.js'
import type {Table} from '../repository/table/table.js'
import {archiveEvents} from './archive.js'
import type {ArchiveSink} from './archive-sink.js'
import {Batch, type BatchResult} from './batch.js'
import type {Log} from './counts.js'
import {growBucket, PressureWatch} from './growth.js'
import {activeShards, refillShard} from './refill.js'
import {type AggregatorSettings, DEFAULT_SETTINGS} from './settings.js'
import type {StreamEvent} from './stream-event.js'
import {tallyUsage} from './usage-tally.js'
import {addUsage} from './usage-write.js'

/** Writes under way at a time. */
const CONCURRENCY = 16

const DAY_SECONDS = 86_400

export interface AggregatorOptions {
  readonly table: Table
  readonly settings?: Partial<AggregatorSettings>
  /** Where expired audit events go; without one they just expire. */
  readonly sink?: ArchiveSink | undefined
  readonly log: Log
}

/** Follows the stream of one table. */
export interface Aggregator {
  /** Never fails for a record's sake; a batch may be delivered again, whole or from any failed record on. */
  handle(event: StreamEvent): Promise<BatchResult>
}

/** One per process: it remembers how fast buckets are written. */
export function createAggregator({table, settings, sink, log}: AggregatorOptions): Aggregator {
  const {windows, retentionDays, maxShards} = {...DEFAULT_SETTINGS, ...settings}
  const watch = new PressureWatch(table.clock)

  return {
    async handle({Records}) {
      const batch = new Batch(Records, log)
      await countUsage(batch)
      const candidates = watch.observe(batch.changes)
      await each(activeShards(batch.changes), async active => {
        const {namespace, entity, resource, shard} = active
        const refill = () => refillShard(table, active, {repairPressure: watch.needsRepair(active)})
        if (await batch.trying('refill', {namespace, entity, resource, shard}, refill)) batch.counts.refills++
      })
      await each(candidates, async candidate => {
        const {namespace, entity, resource} = candidate
        const grow = () => growBucket(table, candidate, maxShards)
        if ((await batch.trying('growth', {namespace, entity, resource}, grow)) === 'split') batch.counts.splits++
      })
      if (sink) await archive(batch, sink)
      return batch.result(table.clock())
    },
  }

  async function countUsage(batch: Batch): Promise<void> {
    const nowSeconds = Math.floor(table.clock() / 1000)
    const ttlSeconds = retentionDays === 0 ? undefined : nowSeconds + retentionDays * DAY_SECONDS
    await each(tallyUsage(batch.changes, windows), async tally => {
      try {
        if ((await addUsage(table, tally, {ttlSeconds})) === 'counted') batch.counts.snapshots++
      } catch (error) {
        const {changes, ...which} = tally
        batch.failed(
          [...changes.values()].flat().map(change => change.sequenceNumber),
          'usage',
          which,
          error,
        )
      }
    })
  }

  /**
   * Comes last: what follows a failed record is delivered again with it, and is archived then, so that a failure of
   * something else does not put an event into two objects.
   */
  async function archive(batch: Batch, to: ArchiveSink): Promise<void> {
    const {settled, postponed} = batch.dividedExpired()
    batch.postpone(postponed)
    try {
      await archiveEvents(to, settled)
      batch.counts.archived += settled.length
    } catch (error) {
      const numbers = settled.map(({record}) => record.dynamodb.SequenceNumber)
      batch.failed(numbers, 'archive', {events: settled.length}, error)
    }
  }
}

async function each<T>(elements: readonly T[], work: (element: T) => Promise<void>): Promise<void> {
  async function* source(): AsyncGenerator<T, void> {
    yield* elements
  }
  await forEachConcurrently(source(), CONCURRENCY, work)
}
