import {consumptionBetween, mostConsumed} from './consumption.js'
import {chooser} from './filter.js'
import type {Reading, Selection, SortKey} from './model.js'
import {type Fare, statusOf, worstAt} from './status.js'

/** What a row is sorted by: numbers by size, names by letter; `undefined` comes last, in either direction. */
type Place = number | string | undefined

/** A bucket that was chosen. */
interface Candidate {
  readonly reading: Reading
  readonly worst: Fare | undefined
}

/** What is worth looking at comes first: little left, much consumed, soon empty, many shards. */
const PLACES: Readonly<Record<Exclude<SortKey, 'rate'>, (candidate: Candidate) => Place>> = {
  left: ({worst}) => worst?.left,
  empty: ({worst}) => worst?.emptyInMs ?? undefined,
  pressure: ({reading}) => -reading.writePressure,
  shards: ({reading}) => -reading.bucket.shardCount,
  entity: ({reading}) => reading.bucket.entity,
  resource: ({reading}) => reading.bucket.resource,
}

/** The buckets that a selection chooses, by id. */
export interface Ranked {
  /** In its order; where that leaves a choice, by id. */
  readonly ids: string[]
  /** The limit whose rate decides when they are sorted by it; `undefined`: by something else, or no rate is known. */
  readonly rateLimit: string | undefined
}

/** Chooses and orders buckets as a selection says. */
export function ranking(readings: Iterable<Reading>, nowMs: number, selection: Selection): Ranked {
  const {sort, reversed, filter} = selection
  const isChosen = chooser(filter)
  const chosen: Candidate[] = []
  for (const reading of readings) {
    const worst = worstAt(reading, nowMs)
    if (isChosen(reading, statusOf(reading, worst))) chosen.push({reading, worst})
  }
  const rateLimit = sort === 'rate' ? rateLimitOf(chosen) : undefined
  const placeOf = sort === 'rate' ? byRateOf(rateLimit) : PLACES[sort]
  const ranked = chosen.map(candidate => ({id: candidate.reading.id, place: placeOf(candidate)}))
  const direction = reversed ? -1 : 1
  ranked.sort((a, b) => comparePlaces(a.place, b.place, direction) || (a.id < b.id ? -1 : 1))
  return {ids: ranked.map(({id}) => id), rateLimit}
}

/** The ids alone. */
export function rank(readings: Iterable<Reading>, nowMs: number, selection: Selection): string[] {
  return ranking(readings, nowMs, selection).ids
}

/** Requests and tokens per second cannot be compared: all are ranked by one limit, that of which most is consumed. */
function rateLimitOf(chosen: readonly Candidate[]): string | undefined {
  const live = chosen.flatMap(({reading}) => (reading.isGone ? [] : [reading]))
  return mostConsumed(consumptionBetween(live))
}

function byRateOf(limit: string | undefined): (candidate: Candidate) => Place {
  return ({reading}) => {
    const rate = limit === undefined ? undefined : reading.ratePerSecond.get(limit)
    return rate === undefined ? undefined : -rate
  }
}

function comparePlaces(a: Place, b: Place, direction: 1 | -1): number {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined)
  return a === b ? 0 : a < b ? -direction : direction
}
