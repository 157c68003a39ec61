import type {Reading, RowStatus, Selection, SortKey} from './model.js'
import {type Fare, statusOf, worstAt} from './status.js'

/** What a row is sorted by: numbers by size, names by letter; `undefined` comes last, in either direction. */
type Place = number | string | undefined

interface Ranked {
  readonly id: string
  readonly place: Place
}

/** What is worth looking at comes first: little left, much consumed, soon empty, many shards. */
const PLACES: Readonly<Record<SortKey, (reading: Reading, worst: Fare | undefined) => Place>> = {
  left: (_, worst) => worst?.left,
  rate: (_, worst) => negative(worst?.ratePerSecond),
  empty: (_, worst) => worst?.emptyInMs ?? undefined,
  pressure: ({writePressure}) => -writePressure,
  shards: ({bucket}) => -bucket.shardCount,
  entity: ({bucket}) => bucket.entity,
  resource: ({bucket}) => bucket.resource,
}

/** The ids of the buckets that a selection chooses, in its order; where that leaves a choice, by id. */
export function rank(readings: Iterable<Reading>, nowMs: number, selection: Selection): string[] {
  const {sort, reversed, filter} = selection
  const isChosen = chooser(filter)
  const placeOf = PLACES[sort]
  const ranked: Ranked[] = []
  for (const reading of readings) {
    const worst = worstAt(reading, nowMs)
    if (isChosen(reading, statusOf(reading, worst))) ranked.push({id: reading.id, place: placeOf(reading, worst)})
  }
  const direction = reversed ? -1 : 1
  ranked.sort((a, b) => comparePlaces(a.place, b.place, direction) || (a.id < b.id ? -1 : 1))
  return ranked.map(({id}) => id)
}

function chooser(filter: string): (reading: Reading, status: RowStatus) => boolean {
  const typed = filter.trim().toLowerCase()
  const isInverted = typed.startsWith('!')
  const text = isInverted ? typed.slice(1) : typed
  if (text === '') return () => true
  // The beginning is enough: the word is being typed.
  const wanted = text.startsWith('status:') ? text.slice('status:'.length) : undefined
  if (wanted !== undefined) return (_, status) => status.startsWith(wanted) !== isInverted
  const has = (name: string) => name.toLowerCase().includes(text)
  return ({bucket}) => (has(bucket.entity) || has(bucket.resource)) !== isInverted
}

function comparePlaces(a: Place, b: Place, direction: 1 | -1): number {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined)
  return a === b ? 0 : a < b ? -direction : direction
}

function negative(value: number | null | undefined): number | undefined {
  return value === null || value === undefined ? undefined : -value
}
