import {type BucketView, type LimitLevel, viewBucket} from '../../repository/buckets/view.js'
import type {FindReading, Reading, Row} from './model.js'
import {statusAt, typicalByName} from './status.js'

export function rowAt(reading: Reading, nowMs: number, find?: FindReading): Row {
  const {id, bucket, used, writePressure, readAtMs, requests} = reading
  const view = viewBucket(bucket, nowMs)
  const {status, refusedBy, worst} = statusAt(reading, nowMs, find)
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
    status,
    refusedBy,
    requests,
    typical: typicalByName(reading, nowMs),
    emptyInMs: worst?.emptyInMs ?? null,
    fullInMs: tightest ? fullInMs(tightest, worst?.ratePerSecond ?? null, nowMs) : null,
    ageMs: Math.max(0, nowMs - readAtMs),
  }
}

function imbalanceOf({shards}: BucketView, {name}: LimitLevel): number {
  const fractions = shards.flatMap(({limits}) =>
    limits.flatMap(limit => (limit.name === name && limit.capacity > 0 ? [limit.level / limit.capacity] : [])),
  )
  return fractions.length < 2 ? 0 : Math.max(...fractions) - Math.min(...fractions)
}

function fullInMs(limit: LimitLevel, ratePerSecond: number | null, nowMs: number): number | null {
  const {level, capacity, refillPerSecond, quota, resetsAt} = limit
  if (level >= capacity) return 0
  if (quota) return resetsAt === undefined ? null : Date.parse(resetsAt) - nowMs
  if (ratePerSecond === null || ratePerSecond >= refillPerSecond) return null
  return ((capacity - level) / (refillPerSecond - ratePerSecond)) * 1000
}
