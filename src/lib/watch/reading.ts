import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {addressOf, type ShardedBucket} from '../repository/buckets/buckets.js'
import type {BucketRecord, StoredBucket} from '../schema/bucket-record.js'
import {WRITE_PRESSURE_RATE} from '../schema/bucket-record.js'
import {writeUnitsOf} from '../schema/item-size.js'
import {compactRecord} from './compact.js'
import {type Reading, SAMPLES} from './model.js'
import {worstAt} from './status.js'

/** Two readings closer together than this say little about a rate. */
const SHORTEST_OBSERVATION_MS = 500

/** Most of ten thousand buckets are not in use: a map of zeros for each would count. By the names of what is idle. */
const idleRates = new Map<string, Reading['ratePerSecond']>()
const idlePressures = new Map<string, Reading['writePressures']>()
const NO_RATES: Reading['ratePerSecond'] = new Map()
const NO_PRESSURES: Reading['writePressures'] = new Map()

/** Name of a bucket among the others of its namespace. */
export const bucketId = ({entity, resource}: {readonly entity: string; readonly resource: string}): string =>
  `${entity}#${resource}`

/** What is known of a bucket after it was read again, or for the first time. */
export function nextReading(previous: Reading | undefined, seen: ShardedBucket, readAtMs: number): Reading {
  const before = previous && recordsByShard(previous.bucket)
  const bucket = compactRecord(before ? {...seen, shards: seen.shards.map(shard => newer(before, shard))} : seen)
  const id = previous?.id ?? bucketId(bucket)
  const rates = ratesSince(previous, bucket, readAtMs)
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
  bucket: ShardedBucket,
  readAtMs: number,
): Pick<Reading, 'ratePerSecond' | 'writePressure' | 'writePressures' | 'countedFrom'> {
  if (!previous)
    return {ratePerSecond: NO_RATES, writePressure: 0, writePressures: NO_PRESSURES, countedFrom: undefined}
  const from = previous.countedFrom ?? {bucket: previous.bucket, readAtMs: previous.readAtMs}
  const elapsedMs = readAtMs - from.readAtMs
  if (elapsedMs < SHORTEST_OBSERVATION_MS) {
    const {ratePerSecond, writePressure, writePressures} = previous
    return {ratePerSecond, writePressure, writePressures, countedFrom: from}
  }
  const before = recordsByShard(from.bucket)
  const consumed = new Map<string, bigint>()
  const pressures = new Map<number, number>()
  for (const record of recordsByShard(bucket).values()) {
    const known = before.get(record.shard)
    // It should have been there the last time: nobody knows what it had counted then.
    if (!known && record.shard < from.bucket.shardCount) continue
    // Counters of an item that is new, or was made anew, have started at nothing.
    const isSame = known !== undefined && writesOf(record) >= writesOf(known)
    for (const [name, {consumedMilli}] of record.state.limits) {
      const since = consumedMilli - (isSame ? (known.state.limits.get(name)?.consumedMilli ?? 0n) : 0n)
      if (name !== WRITE_PRESSURE_LIMIT) consumed.set(name, (consumed.get(name) ?? 0n) + since)
    }
    const writes = writesOf(record) - (isSame ? writesOf(known) : 0n)
    pressures.set(record.shard, pressureOf(record, writes, elapsedMs))
  }
  const rates = new Map(Array.from(consumed, ([name, milli]) => [name, Number(milli) / elapsedMs]))
  return {
    ratePerSecond: sharedIfIdle(rates, idleRates),
    writePressure: Math.max(0, ...pressures.values()),
    writePressures: sharedIfIdle(pressures, idlePressures),
    countedFrom: undefined,
  }
}

const writesOf = ({state}: BucketRecord): bigint => state.limits.get(WRITE_PRESSURE_LIMIT)?.consumedMilli ?? 0n

/** One write counts 1,000 milli; large items cost several units each time. */
function pressureOf(record: BucketRecord, writesMilli: bigint, elapsedMs: number): number {
  if (writesMilli <= 0n) return 0
  const writesPerSecond = Number(writesMilli) / elapsedMs
  return (writesPerSecond * writeUnitsOf(record) * 1000) / Number(WRITE_PRESSURE_RATE.capacityMilli)
}

/** All maps of nothing but zeros under the same names are one. */
function sharedIfIdle<K>(
  figures: ReadonlyMap<K, number>,
  idle: Map<string, ReadonlyMap<K, number>>,
): ReadonlyMap<K, number> {
  if ([...figures.values()].some(figure => figure !== 0)) return figures
  const names = [...figures.keys()].join('#')
  const known = idle.get(names)
  if (known) return known
  idle.set(names, figures)
  return figures
}
