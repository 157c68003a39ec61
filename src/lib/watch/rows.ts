import {type BucketView, type LimitLevel, viewBucket} from '../repository/buckets/view.js'
import type {Reading, Row} from './model.js'
import {fullInMs, statusOf, worstAt} from './status.js'

/** A bucket as it is at an instant, by arithmetic from its last reading. */
export function rowAt(reading: Reading, nowMs: number): Row {
  const {id, bucket, used, writePressure, readAtMs} = reading
  const view = viewBucket(bucket, nowMs)
  const worst = worstAt(reading, nowMs)
  const tightest = view.limits.find(({name}) => name === worst?.name)
  return {
    id,
    entity: bucket.entity,
    resource: bucket.resource,
    view,
    tightest,
    ratePerSecond: worst?.ratePerSecond ?? null,
    rates: reading.ratePerSecond,
    used,
    shardCount: bucket.shardCount,
    imbalance: tightest ? imbalanceOf(view, tightest) : 0,
    writePressure,
    status: statusOf(reading, worst),
    emptyInMs: worst?.emptyInMs ?? null,
    fullInMs: tightest ? fullInMs(tightest, worst?.ratePerSecond ?? null) : null,
    ageMs: Math.max(0, nowMs - readAtMs),
  }
}

function imbalanceOf({shards}: BucketView, {name}: LimitLevel): number {
  const parts = shards.flatMap(({limits}) =>
    limits.flatMap(limit => (limit.name === name && limit.capacity > 0 ? [limit.level / limit.capacity] : [])),
  )
  return parts.length < 2 ? 0 : Math.max(...parts) - Math.min(...parts)
}
