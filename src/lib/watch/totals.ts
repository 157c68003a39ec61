import {consumptionBetween} from './consumption.js'
import {visitLevels} from './levels.js'
import type {Reading, Totals} from './model.js'
import {statusOf, worstAt} from './status.js'

/** All buckets together at an instant; those that are gone do not count. */
export function totalsAt(readings: Iterable<Reading>, nowMs: number): Totals {
  const count = {buckets: 0, over: 0, near: 0, inDebt: 0, shards: 0}
  const live = [...readings].filter(({isGone}) => !isGone)
  for (const reading of live) {
    const status = statusOf(reading, worstAt(reading, nowMs))
    count.buckets++
    count.shards += reading.bucket.shardCount
    if (status === 'over') count.over++
    if (status === 'near') count.near++
    if (isInDebt(reading, nowMs)) count.inDebt++
  }
  return {...count, ratePerSecond: consumptionBetween(live)}
}

/** Buckets of which a reading is there, chosen or not; those that are gone do not count. */
export function liveCount(readings: ReadonlyMap<string, Reading>): number {
  let count = 0
  for (const {isGone} of readings.values()) if (!isGone) count++
  return count
}

function isInDebt({bucket}: Reading, nowMs: number): boolean {
  let isIn = false
  visitLevels(bucket, nowMs, (_name, _level, _capacity, debt) => {
    if (debt > 0) isIn = true
  })
  return isIn
}
