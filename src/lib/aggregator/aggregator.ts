import {ZaelError} from '../core/errors.js'
import {forEachConcurrently} from '../dynamo/concurrency.js'
import {isInvalid} from '../dynamo/errors.js'
import type {Table} from '../repository/table/table.js'
import type {ArchiveSink} from './archive.js'
import {Archiver} from './archiving.js'
import {Batch, type BatchResult, type Log} from './batch.js'
import {BoostKeeper} from './boosts.js'
import {type GrowthCandidate, growBucket, PressureMonitor} from './growth.js'
import {type ActiveShard, activeShards, refillShard} from './refill.js'
import {type AggregatorSettings, DEFAULT_SETTINGS} from './settings.js'
import type {StreamEvent} from './stream-event.js'
import {addUsage, groupUsage, limitsOf, type UsageGroup} from './usage.js'

/** Writes in flight. */
const CONCURRENCY = 16

const DAY_SECONDS = 86_400

export interface AggregatorOptions {
  readonly table: Table
  readonly settings?: Partial<AggregatorSettings>
  /** Where expired audit events go; without one they are not archived. */
  readonly sink?: ArchiveSink | undefined
  readonly log: Log
}

/** Processes the stream of one table. */
export interface Aggregator {
  /**
   * Idempotent: a batch may be delivered again, whole or from any failed record on. A record that fails is in the
   * result; it is not thrown.
   */
  handle(event: StreamEvent): Promise<BatchResult>
}

/** Create one per process: it remembers the write rate of each shard. */
export function createAggregator({table, settings, sink, log}: AggregatorOptions): Aggregator {
  const {windows, retentionDays, maxShards} = {...DEFAULT_SETTINGS, ...settings}
  const pressure = new PressureMonitor(table.clock)
  const boosts = new BoostKeeper(table, log)
  const archiver = sink && new Archiver(table, sink)

  return {
    async handle({Records}) {
      const batch = new Batch(Records, log)
      const ttlSeconds = expiryOfNewUsage()
      await each(groupUsage(batch.changes, windows), group => countUsage(batch, group, ttlSeconds))
      const candidates = pressure.observe(batch.changes)
      await each(activeShards(batch.changes), shard => refill(batch, shard))
      await each(candidates, candidate => grow(batch, candidate))
      await archiver?.archive(batch)
      await each(boosts.due(batch.changes), namespace => tidy(batch, namespace))
      return batch.result(table.clock())
    },
  }

  async function countUsage(batch: Batch, group: UsageGroup, ttlSeconds: number | undefined): Promise<void> {
    const {changes, ...subject} = group
    const numbers = [...changes.values()].flat().map(change => change.sequenceNumber)
    try {
      const {isCounted, leftOut} = await addUsage(table, group, {ttlSeconds})
      if (isCounted) batch.counts.snapshots++
      if (leftOut.length > 0) batch.setAside(numbers, subject, leftOut)
    } catch (error) {
      if (canSucceedLater(error)) batch.fail(numbers, 'usage', subject, error)
      else batch.setAside(numbers, subject, limitsOf(group), error)
    }
  }

  async function refill(batch: Batch, active: ActiveShard): Promise<void> {
    const {namespace, entity, resource, shard} = active
    const work = () => refillShard(table, active, {repairPressure: pressure.needsRepair(active)})
    if (await batch.attempt('refill', {namespace, entity, resource, shard}, work)) batch.counts.refills++
  }

  async function grow(batch: Batch, candidate: GrowthCandidate): Promise<void> {
    const {namespace, entity, resource} = candidate
    const work = () => growBucket(table, candidate, maxShards)
    if ((await batch.attempt('growth', {namespace, entity, resource}, work)) === 'split') batch.counts.splits++
  }

  async function tidy(batch: Batch, namespace: string): Promise<void> {
    await batch.attempt('boosts', {namespace}, () => boosts.tidy(namespace))
  }

  function expiryOfNewUsage(): number | undefined {
    return retentionDays === 0 ? undefined : Math.floor(table.clock() / 1000) + retentionDays * DAY_SECONDS
  }
}

/**
 * What DynamoDB does not accept as written, such as a record that would exceed 400 KB, it never accepts; an error of
 * no known kind is one of this program. To deliver such records again would hold up everyone's usage for hours.
 */
function canSucceedLater(error: unknown): boolean {
  return error instanceof ZaelError && !isInvalid(error)
}

async function each<T>(elements: readonly T[], work: (element: T) => Promise<void>): Promise<void> {
  async function* source(): AsyncGenerator<T, void> {
    yield* elements
  }
  await forEachConcurrently(source(), Math.min(CONCURRENCY, elements.length), work)
}
