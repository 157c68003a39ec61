import {groupBy} from '../../core/group-by.js'
import {MOST_LEVELS} from '../../schema/namespace-record.js'
import {type LiveLevel, levelsAt, visitLevels} from './levels.js'
import type {FindReading, Reading} from './model.js'
import {bySeverity, type LimitSummary, statusAt} from './status.js'

/** Bounded, because other clients can store a cycle of parents. */
const MAX_PARENT_LEVELS = 8

const TOP_CONSUMERS = 3

export type BucketConsumption = Pick<Reading, 'id' | 'chargedTo' | 'mostLevels' | 'ratePerSecond'>

export type Totals = Readonly<ReturnType<typeof totalsAt>>

/** Skips deleted buckets. To save memory, it keeps only the worst reading. */
export function totalsAt(readings: Iterable<Reading>, nowMs: number, find?: FindReading) {
  const count = {buckets: 0, over: 0, near: 0, overdrawn: 0, disabled: 0, inDebt: 0, shards: 0}
  const rated: BucketConsumption[] = []
  let refusedPerSecond = 0
  let worst: {readonly reading: Reading; readonly limit: LimitSummary} | undefined
  let oldestAgeMs: number | null = null
  for (const reading of readings) {
    oldestAgeMs = Math.max(oldestAgeMs ?? 0, nowMs - reading.readAtMs)
    if (reading.isGone) continue
    const {status, worst: tightest} = statusAt(reading, nowMs, find)
    const limit = tightest && {...tightest, status}
    if (limit && (!worst || (bySeverity(limit, worst.limit) || (reading.id < worst.reading.id ? -1 : 1)) < 0))
      worst = {reading, limit}
    count.buckets++
    count.shards += reading.bucket.shardCount
    if (status === 'over') count.over++
    if (status === 'near') count.near++
    if (status === 'overdrawn') count.overdrawn++
    if (status === 'disabled') count.disabled++
    if (isInDebt(reading, nowMs)) count.inDebt++
    refusedPerSecond += refusedOf(reading, find)
    const {id, chargedTo, mostLevels, ratePerSecond} = reading
    if (ratePerSecond.size > 0) rated.push({id, chargedTo, mostLevels, ratePerSecond})
  }
  return {
    ...count,
    /** By limit, over buckets with a known rate. A request that is also charged to a parent counts once. */
    ratePerSecond: totalConsumption(rated),
    /** Requests, over buckets read twice; one that a parent or a shared scope refused counts once. */
    refusedPerSecond,
    worst: worst?.reading,
    /** Of all readings, including deleted buckets; `null` without readings. */
    oldestAgeMs,
  }
}

function isInDebt({bucket}: Reading, nowMs: number): boolean {
  let hasDebt = false
  visitLevels(bucket, nowMs, (_name, _level, _capacity, debt) => {
    if (debt > 0) hasDebt = true
  })
  return hasDebt
}

/** By limit. A request that is also charged to a parent counts once: at the parent if its rate is known. */
export function totalConsumption(readings: Iterable<BucketConsumption>): Map<string, number> {
  const rated = [...readings].filter(({ratePerSecond}) => ratePerSecond.size > 0)
  const childrenOf = groupBy(rated, ({chargedTo}) => chargedTo)
  const parents = new Map(rated.flatMap(reading => (childrenOf.has(reading.id) ? [[reading.id, reading]] : [])))
  const ofChildren = (id: string, name: string, levels: number): number => {
    let sum = 0
    for (const child of levels > 0 ? (childrenOf.get(id) ?? []) : []) {
      const rate = child.ratePerSecond.get(name)
      if (rate !== undefined) sum += rate - ofChildren(child.id, name, levels - 1)
    }
    return sum
  }
  /** The ancestors that count its requests, as far as they are rated; in a cycle, all count them: the first one does. */
  const countedAt = ({id, chargedTo, mostLevels}: BucketConsumption): readonly BucketConsumption[] => {
    const above: BucketConsumption[] = []
    let next = chargedTo
    for (let at = 1; at < mostLevels && next !== undefined && next !== id; at++) {
      const ancestor = parents.get(next)
      if (!ancestor || above.includes(ancestor)) break
      above.push(ancestor)
      next = ancestor.chargedTo
    }
    return next === id && mostLevels > MOST_LEVELS.parent ? above.filter(each => each.id < id) : above
  }
  const sums = new Map<string, number>()
  for (const reading of rated) {
    const above = countedAt(reading)
    for (const [name, rate] of reading.ratePerSecond) {
      // With two levels, a parent is charged for its child's own requests, not for those charged to the child.
      const elsewhere = reading.mostLevels > MOST_LEVELS.parent ? 0 : ofChildren(reading.id, name, MAX_PARENT_LEVELS)
      const isCounted = above.some(ancestor => ancestor.ratePerSecond.has(name))
      const counted = isCounted ? elsewhere : rate
      sums.set(name, (sums.get(name) ?? 0) + counted)
    }
  }
  return sums
}

/** A watched parent or shared scope already counts the requests that it refused its children or callers. */
function refusedOf({requests, chargedTo}: Reading, find: FindReading | undefined): number {
  const {own = 0, byParent = 0} = requests.refusedPerSecond ?? {}
  const others = [...(chargedTo === undefined ? [] : [chargedTo]), ...(requests.accounts?.keys() ?? [])]
  return own + (others.some(id => find?.(id)?.requests.refusedPerSecond) ? 0 : byParent)
}

export function mostConsumed(ratePerSecond: ReadonlyMap<string, number>): string | undefined {
  let most: {readonly name: string; readonly rate: number} | undefined
  for (const [name, rate] of ratePerSecond) {
    const isMore = !most || rate > most.rate || (rate === most.rate && name < most.name)
    if (isMore) most = {name, rate}
  }
  return most?.name
}

export function resourcesAt(readings: Iterable<Reading>, nowMs: number, find?: FindReading): ResourceRow[] {
  const live = [...readings].filter(({isGone}) => !isGone)
  const groups = [...groupBy(live, ({bucket}) => bucket.resource)]
  groups.sort(([a], [b]) => (a < b ? -1 : 1))
  return groups.map(([resource, group]) => resourceRow(resource, group, nowMs, find))
}

export type ResourceRow = Readonly<ReturnType<typeof resourceRow>>

function resourceRow(resource: string, readings: readonly Reading[], nowMs: number, find: FindReading | undefined) {
  const ratePerSecond = totalConsumption(readings)
  // The row of a shared scope may be another resource's.
  const findHere: FindReading = id => (id.endsWith(`#${resource}`) ? find?.(id) : undefined)
  const limits = new Map<string, LiveLevel>()
  let [over, near] = [0, 0]
  for (const reading of readings) {
    const {status} = statusAt(reading, nowMs, find)
    if (status === 'over') over++
    if (status === 'near') near++
    for (const limit of levelsAt(reading.bucket, nowMs)) {
      const sum = limits.get(limit.name)
      limits.set(limit.name, sum ? plus(sum, limit) : limit)
    }
  }
  return {
    resource,
    entities: readings.length,
    /** Sums over all buckets, parents included. */
    limits: [...limits.values()].map(rounded).sort((a, b) => (a.name < b.name ? -1 : 1)),
    ratePerSecond,
    over,
    near,
    refusedPerSecond: readings.reduce((sum, reading) => sum + refusedOf(reading, findHere), 0),
    top: topConsumers(readings, ratePerSecond),
  }
}

function plus(a: LiveLevel, b: LiveLevel): LiveLevel {
  return {
    ...a,
    level: a.level + b.level,
    capacity: a.capacity + b.capacity,
    debt: a.debt + b.debt,
    refillPerSecond: a.refillPerSecond + b.refillPerSecond,
  }
}

/** Removes floating-point noise from sums of thousandths. */
function rounded(limit: LiveLevel): LiveLevel {
  const round = (value: number) => Math.round(value * 1e6) / 1e6
  const {level, capacity, debt, refillPerSecond} = limit
  const sums = {level: round(level), capacity: round(capacity), debt: round(debt)}
  return {...limit, ...sums, refillPerSecond: round(refillPerSecond)}
}

function topConsumers(readings: readonly Reading[], rates: ReadonlyMap<string, number>) {
  const limit = mostConsumed(rates) ?? ''
  return readings
    .map(({bucket, ratePerSecond}) => ({entity: bucket.entity, ratePerSecond: ratePerSecond.get(limit) ?? 0, limit}))
    .filter(each => each.ratePerSecond > 0)
    .sort((a, b) => b.ratePerSecond - a.ratePerSecond || (a.entity < b.entity ? -1 : 1))
    .slice(0, TOP_CONSUMERS)
}
