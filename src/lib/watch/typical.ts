import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {MILLI} from '../core/token-math.js'
import type {ShardedBucket} from '../repository/buckets/buckets.js'
import {WRITE_PRESSURE_PER_WRITE} from '../schema/bucket-record.js'

/**
 * The average request of a bucket in whole tokens, rounded up: what its items have counted since they exist. It costs no
 * read, unlike the usage records that `zael why` takes the average from. One value per limit, in the order of their names; at
 * least 1, also where nothing was counted.
 */
export function typicalRequest({shards}: ShardedBucket, admitted: number): number[] {
  const consumed = new Map<string, bigint>()
  let writes = 0n
  for (const stored of shards) {
    if (stored.kind === 'ghost') continue
    for (const [name, {consumedMilli}] of stored.record.state.limits) {
      if (name === WRITE_PRESSURE_LIMIT) writes += consumedMilli / WRITE_PRESSURE_PER_WRITE
      else consumed.set(name, (consumed.get(name) ?? 0n) + consumedMilli)
    }
  }
  const requests = requestsOf(admitted, Number(writes))
  const names = [...consumed.keys()].sort()
  if (requests <= 0) return names.map(() => 1)
  return names.map(name => Math.max(1, Math.ceil(Number(consumed.get(name)) / Number(MILLI) / requests)))
}

/**
 * Other clients count no requests, but each of theirs is a write. Requests of zael need at most two, one of them to correct
 * the amount, so more writes than that are requests of others.
 */
function requestsOf(admitted: number, writes: number): number {
  return writes > 2 * admitted ? writes : admitted
}
