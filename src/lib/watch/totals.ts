import {visitLevels} from './levels.js'
import type {Reading, Totals} from './model.js'
import {statusOf, worstAt} from './status.js'

/** All buckets together at an instant; those that are gone do not count. */
export function totalsAt(readings: Iterable<Reading>, nowMs: number): Totals {
  const ratePerSecond = new Map<string, number>()
  const count = {buckets: 0, over: 0, near: 0, inDebt: 0, shards: 0}
  for (const reading of readings) {
    if (reading.isGone) continue
    const status = statusOf(reading, worstAt(reading, nowMs))
    count.buckets++
    count.shards += reading.bucket.shardCount
    if (status === 'over') count.over++
    if (status === 'near') count.near++
    if (isInDebt(reading, nowMs)) count.inDebt++
    addRates(ratePerSecond, reading)
  }
  return {...count, ratePerSecond}
}

function isInDebt({bucket}: Reading, nowMs: number): boolean {
  let isIn = false
  visitLevels(bucket, nowMs, (_name, _level, _capacity, debt) => {
    if (debt > 0) isIn = true
  })
  return isIn
}

/** Adds what a bucket consumes per second to a sum by limit name. */
export function addRates(sums: Map<string, number>, {ratePerSecond}: Reading): void {
  for (const [name, rate] of ratePerSecond) sums.set(name, (sums.get(name) ?? 0) + rate)
}
