import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {addressOf, type ShardedBucket} from '../repository/buckets.js'
import type {BucketRecord, StoredBucket} from '../schema/bucket-record.js'
import {WRITE_PRESSURE_RATE} from '../schema/bucket-record.js'
import {writeUnitsOf} from '../schema/item-size.js'
import {compact} from './compact.js'
import {type Reading, SAMPLES} from './model.js'
import {worstAt} from './status.js'

/** Two readings closer together than this say little about a rate. */
const SHORTEST_OBSERVATION_MS = 500

/** Most of ten thousand buckets are not in use: a map of zeros for each would count. By the names of their limits. */
const idleRates = new Map<string, Reading['ratePerSecond']>()
const NO_RATES: Reading['ratePerSecond'] = new Map()

/** Name of a bucket among the others of its namespace. */
export const bucketId = ({entity, resource}: {readonly entity: string; readonly resource: string}): string =>
  `${entity}#${resource}`

/** What is known of a bucket after it was read again, or for the first time. */
export function nextReading(previous: Reading | undefined, seen: ShardedBucket, readAtMs: number): Reading {
  const before = previous && recordsByShard(previous.bucket)
  const bucket = compact(before ? {...seen, shards: seen.shards.map(shard => newer(before, shard))} : seen)
  const id = previous?.id ?? bucketId(bucket)
  const rates = ratesSince(previous, before, bucket, readAtMs)
  const worst = worstAt({bucket, ...rates}, readAtMs)
  // Joined like this, sixty numbers take no more room than sixty numbers.
  const used = (previous?.used ?? []).slice(1 - SAMPLES).concat(worst ? 1 - worst.left : null)
  return {id, bucket, readAtMs, chargedTo: chargedTo(bucket), ...rates, used, isGone: false}
}

function chargedTo({resource, shards}: ShardedBucket): string | undefined {
  const [first] = shards.flatMap(shard => (shard.kind === 'bucket' ? [shard.record] : []))
  return first?.cascade && first.parent !== undefined ? bucketId({entity: first.parent, resource}) : undefined
}

type Records = ReadonlyMap<number, BucketRecord>

function recordsByShard({shards}: ShardedBucket): Records {
  return new Map(shards.flatMap(shard => (shard.kind === 'bucket' ? [[shard.record.shard, shard.record]] : [])))
}

/**
 * A read that is not strongly consistent may be answered from the past. Every admitted write moves the counter of writes
 * up, and an item that was made anew has been refilled later; so less of the one without more of the other is old news.
 */
function newer(before: Records, seen: StoredBucket): StoredBucket {
  const known = before.get(addressOf(seen).shard)
  if (!known || seen.kind === 'ghost') return seen
  const isOld = writesOf(seen.record) < writesOf(known) && seen.record.state.refilledAtMs <= known.state.refilledAtMs
  return isOld ? {...seen, record: known} : seen
}

function ratesSince(
  previous: Reading | undefined,
  before: Records | undefined,
  bucket: ShardedBucket,
  readAtMs: number,
): Pick<Reading, 'ratePerSecond' | 'writePressure'> {
  if (!previous || !before) return {ratePerSecond: NO_RATES, writePressure: 0}
  const elapsedMs = readAtMs - previous.readAtMs
  if (elapsedMs < SHORTEST_OBSERVATION_MS) {
    return {ratePerSecond: previous.ratePerSecond, writePressure: previous.writePressure}
  }
  const consumed = new Map<string, bigint>()
  let writePressure = 0
  for (const record of recordsByShard(bucket).values()) {
    const known = before.get(record.shard)
    // It should have been there the last time: nobody knows what it had counted then.
    if (!known && record.shard < previous.bucket.shardCount) continue
    // Counters of an item that is new, or was made anew, have started at nothing.
    const isSame = known !== undefined && writesOf(record) >= writesOf(known)
    for (const [name, {consumedMilli}] of record.state.limits) {
      const since = consumedMilli - (isSame ? (known.state.limits.get(name)?.consumedMilli ?? 0n) : 0n)
      if (name !== WRITE_PRESSURE_LIMIT) consumed.set(name, (consumed.get(name) ?? 0n) + since)
      else writePressure = Math.max(writePressure, pressureOf(record, since, elapsedMs))
    }
  }
  return {ratePerSecond: ratesOf(consumed, elapsedMs), writePressure}
}

const writesOf = ({state}: BucketRecord): bigint => state.limits.get(WRITE_PRESSURE_LIMIT)?.consumedMilli ?? 0n

/** One write counts 1,000 milli; large items cost several units each time. */
function pressureOf(record: BucketRecord, writesMilli: bigint, elapsedMs: number): number {
  if (writesMilli <= 0n) return 0
  const writesPerSecond = Number(writesMilli) / elapsedMs
  return (writesPerSecond * writeUnitsOf(record) * 1000) / Number(WRITE_PRESSURE_RATE.capacityMilli)
}

function ratesOf(consumedMilli: ReadonlyMap<string, bigint>, elapsedMs: number): Reading['ratePerSecond'] {
  const rates = new Map(Array.from(consumedMilli, ([name, milli]) => [name, Number(milli) / elapsedMs]))
  if ([...rates.values()].some(rate => rate !== 0)) return rates
  const names = [...rates.keys()].join('#')
  const known = idleRates.get(names)
  if (known) return known
  idleRates.set(names, rates)
  return rates
}
