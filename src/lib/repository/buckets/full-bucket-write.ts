import type {Amounts} from '../../core/bucket.js'
import type {FullnessBounds} from '../../core/fullness.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {shareOfBucket} from '../../core/shards.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {n} from '../../schema/attribute-value.js'
import {type BucketRecord, limitAttribute} from '../../schema/bucket-record.js'
import {REMAINDERS} from '../../schema/remainders.js'
import type {NamespaceTable} from '../table/table.js'
import {type BucketUpdate, countRequests, countWrite, finish, type WriteMark} from './writes.js'

export interface FullBucketWrite {
  readonly amounts: Amounts
  readonly requests: number
  readonly nowMs: number
  /** New expiry in epoch seconds; absent for a bucket that lives for ever. */
  readonly ttlSeconds: number | undefined
}

/**
 * Consumption from a bucket that has filled up, where others may have written since it was seen. Whatever they left, within
 * these bounds it is full again: every balance is the capacity less what is taken, and what has overflowed stays lost.
 */
export function fullBucketUpdate(
  table: NamespaceTable,
  record: BucketRecord,
  bounds: readonly FullnessBounds[],
  {amounts, requests, nowMs, ttlSeconds}: FullBucketWrite,
  mark: WriteMark,
): BucketUpdate {
  const e = new ExpressionBuilder()
  const within = ({latestRefillMs, lowestMilli}: FullnessBounds) => [
    `${e.name('rf')} <= ${e.value(n(latestRefillMs))}`,
    ...[...lowestMilli].map(([name, milli]) => `${e.name(limitAttribute(name, 'tk'))} >= ${e.value(n(milli))}`),
  ]
  e.condition(bounds.map(each => within(each).join(' AND ')).join(' OR '))
  const shards = e.name('shard_count')
  const isSeen = `${shards} = ${e.value(n(record.shardCount))}`
  e.condition(record.shardCount === 1 ? `attribute_not_exists(${shards}) OR ${isSeen}` : isSeen)
  const ttl = e.name('ttl')
  e.condition(`attribute_not_exists(${ttl}) OR ${ttl} > ${e.value(n(Math.floor(nowMs / 1000)))}`)
  e.set('rf', n(nowMs)).remove(REMAINDERS)
  if (ttlSeconds !== undefined) e.set('ttl', n(ttlSeconds))
  const share = shareOfBucket(record.state, record.shard, record.shardCount)
  for (const [name, stored] of record.state.limits) {
    if (name === WRITE_PRESSURE_LIMIT) continue
    const full = share.limits.get(name)?.capacityMilli ?? 0n
    const milli = amounts.get(name) ?? 0n
    // The bounds hold for these parameters only.
    e.condition(`${e.name(limitAttribute(name, 'cp'))} = ${e.value(n(stored.capacityMilli))}`)
    e.condition(`${e.name(limitAttribute(name, 'ra'))} = ${e.value(n(stored.refillAmountMilli))}`)
    e.condition(`${e.name(limitAttribute(name, 'rp'))} = ${e.value(n(stored.refillPeriodMs))}`)
    e.set(limitAttribute(name, 'tk'), n(full - milli))
    if (milli !== 0n) e.add(limitAttribute(name, 'tc'), n(milli))
  }
  // It has the same refill instant, and needs little time to be full.
  if (record.state.limits.has(WRITE_PRESSURE_LIMIT))
    e.copy(limitAttribute(WRITE_PRESSURE_LIMIT, 'tk'), limitAttribute(WRITE_PRESSURE_LIMIT, 'cp'))
  countWrite(e)
  countRequests(e, requests)
  return finish(table, record, e, mark)
}
