import type {Reading} from './model.js'

/** Parents of parents that are looked at: a circle, which other clients can store, must not go round for ever. */
const MOST_LEVELS = 8

/**
 * What buckets consume together, in tokens per second by limit. A request that is charged to a parent too counts once:
 * with the parent where its rate is known, else with the child.
 */
export function consumptionBetween(readings: Iterable<Reading>): Map<string, number> {
  const rated: Reading[] = []
  const childrenOf = new Map<string, Reading[]>()
  for (const reading of readings) {
    if (reading.ratePerSecond.size === 0) continue
    rated.push(reading)
    if (reading.chargedTo !== undefined) {
      const siblings = childrenOf.get(reading.chargedTo)
      if (siblings) siblings.push(reading)
      else childrenOf.set(reading.chargedTo, [reading])
    }
  }
  const parents = new Map(rated.flatMap(reading => (childrenOf.has(reading.id) ? [[reading.id, reading]] : [])))
  /** What the cascading children of a bucket were asked for themselves. */
  const ofChildren = (id: string, name: string, levels: number): number => {
    let sum = 0
    for (const child of levels > 0 ? (childrenOf.get(id) ?? []) : []) {
      const rate = child.ratePerSecond.get(name)
      if (rate !== undefined) sum += rate - ofChildren(child.id, name, levels - 1)
    }
    return sum
  }
  const sums = new Map<string, number>()
  for (const {id, chargedTo, ratePerSecond} of rated) {
    const parent = chargedTo === undefined ? undefined : parents.get(chargedTo)
    for (const [name, rate] of ratePerSecond) {
      // A parent is charged for what its child was asked for, not for what that was charged for its own children.
      const counted = parent?.ratePerSecond.has(name) ? ofChildren(id, name, MOST_LEVELS) : rate
      sums.set(name, (sums.get(name) ?? 0) + counted)
    }
  }
  return sums
}

/** The limit of which most is consumed, of equals the first by name; `undefined` when no rate is known. */
export function mostConsumed(ratePerSecond: ReadonlyMap<string, number>): string | undefined {
  let most: {readonly name: string; readonly rate: number} | undefined
  for (const [name, rate] of ratePerSecond) {
    const isMore = !most || rate > most.rate || (rate === most.rate && name < most.name)
    if (isMore) most = {name, rate}
  }
  return most?.name
}
