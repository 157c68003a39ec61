import type {LimitLevel} from '../repository/buckets/view.js'
import {consumptionBetween, mostConsumed} from './consumption.js'
import {levelsAt} from './levels.js'
import type {Reading, ResourceRow} from './model.js'
import {statusOf, worstAt} from './status.js'

/** Consumers named per resource. */
const TOP = 3

interface Group {
  readonly readings: Reading[]
  readonly limits: Map<string, LimitLevel>
  over: number
  near: number
}

/** Every resource with all its buckets together at an instant, by name; buckets that are gone do not count. */
export function resourcesAt(readings: Iterable<Reading>, nowMs: number): ResourceRow[] {
  const groups = new Map<string, Group>()
  for (const reading of readings) {
    if (reading.isGone) continue
    const {resource} = reading.bucket
    let group = groups.get(resource)
    if (!group) {
      group = {readings: [], limits: new Map(), over: 0, near: 0}
      groups.set(resource, group)
    }
    add(group, reading, nowMs)
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([resource, group]) => rowOf(resource, group))
}

function rowOf(resource: string, {readings, limits, over, near}: Group): ResourceRow {
  const ratePerSecond = consumptionBetween(readings)
  return {
    resource,
    entities: readings.length,
    limits: [...limits.values()].map(cleaned).sort((a, b) => (a.name < b.name ? -1 : 1)),
    ratePerSecond,
    over,
    near,
    top: topConsumers(readings, ratePerSecond),
  }
}

function add(group: Group, reading: Reading, nowMs: number): void {
  const status = statusOf(reading, worstAt(reading, nowMs))
  if (status === 'over') group.over++
  if (status === 'near') group.near++
  group.readings.push(reading)
  for (const limit of levelsAt(reading.bucket, nowMs)) {
    const so = group.limits.get(limit.name)
    group.limits.set(limit.name, so ? plus(so, limit) : limit)
  }
}

function plus(a: LimitLevel, b: LimitLevel): LimitLevel {
  return {
    name: a.name,
    level: a.level + b.level,
    capacity: a.capacity + b.capacity,
    debt: a.debt + b.debt,
    refillPerSecond: a.refillPerSecond + b.refillPerSecond,
  }
}

/** Sums of thousandths in binary fractions end in ...0000004. */
function cleaned({name, level, capacity, debt, refillPerSecond}: LimitLevel): LimitLevel {
  const clean = (value: number) => Math.round(value * 1e6) / 1e6
  return {
    name,
    level: clean(level),
    capacity: clean(capacity),
    debt: clean(debt),
    refillPerSecond: clean(refillPerSecond),
  }
}

/** Who takes most of the limit of which most is taken; nobody who takes nothing. */
function topConsumers(readings: readonly Reading[], rates: ResourceRow['ratePerSecond']): ResourceRow['top'] {
  const limit = mostConsumed(rates) ?? ''
  return readings
    .map(({bucket, ratePerSecond}) => ({entity: bucket.entity, ratePerSecond: ratePerSecond.get(limit) ?? 0, limit}))
    .filter(each => each.ratePerSecond > 0)
    .sort((a, b) => b.ratePerSecond - a.ratePerSecond || (a.entity < b.entity ? -1 : 1))
    .slice(0, TOP)
}
