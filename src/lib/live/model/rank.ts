import {shownName} from '../../core/encoded-name.js'
import {ZaelError} from '../../core/errors.js'
import {checkEntityId, checkResourceName} from '../../core/names.js'
import {typedName} from '../../schema/hashed-name.js'
import {type FindReading, type Reading, ROW_STATUSES, type RowStatus, type Selection, type SortKey} from './model.js'
import {refusedPerSecond} from './request-counts.js'
import {type BucketStatus, statusAt} from './status.js'
import {type BucketConsumption, mostConsumed, totalConsumption} from './totals.js'

/** Numbers sort by size, names by code unit; `undefined` is last in either direction. */
type SortValue = number | string | undefined

type Candidate = BucketStatus & {readonly reading: Reading}

/** Sorts before every fraction left, even in debt. */
const FIRST = -1e9

const SORT_VALUES: Readonly<Record<Exclude<SortKey, 'rate'>, (candidate: Candidate) => SortValue>> = {
  left: ({worst, status}) => worst && (status === 'over' ? FIRST + worst.left : worst.left),
  refused: ({reading}) => refusedValue(reading),
  empty: ({worst}) => worst?.emptyInMs ?? undefined,
  pressure: ({reading}) => -reading.writePressure,
  shards: ({reading}) => -reading.bucket.shardCount,
  entity: ({reading}) => reading.bucket.entity,
  resource: ({reading}) => reading.bucket.resource,
}

/** Above every epoch ms, so that rates sort before instants. */
const AFTER_ALL_INSTANTS = 1e15

function refusedValue({requests}: Reading): number | undefined {
  const rate = refusedPerSecond(requests) ?? 0
  if (rate > 0) return -1 - rate
  const {lastRefusedAtMs} = requests
  return lastRefusedAtMs > 0 ? -lastRefusedAtMs / AFTER_ALL_INSTANTS : undefined
}

export interface Ranked {
  readonly ids: string[]
  /** The limit whose rate they are sorted by; `undefined`: another sort key, or no known rate. */
  readonly rateLimit: string | undefined
  /** Buckets that still exist, regardless of the filter. */
  readonly live: number
}

type Rated = BucketConsumption & Pick<Reading, 'isGone'>

/** Keeps no reading, to save memory. */
export function ranking(readings: Iterable<Reading>, nowMs: number, selection: Selection, find?: FindReading): Ranked {
  const {sort, reversed, filter} = selection
  const matches = parseFilter(filter)
  const ranked: {readonly id: string; value: SortValue; readonly rated: Rated | undefined}[] = []
  let live = 0
  for (const reading of readings) {
    if (!reading.isGone) live++
    const status = statusAt(reading, nowMs, find)
    if (!matches(reading, status.status)) continue
    const {id, chargedTo, mostLevels, ratePerSecond, isGone} = reading
    if (sort === 'rate') ranked.push({id, value: undefined, rated: {id, chargedTo, mostLevels, ratePerSecond, isGone}})
    else ranked.push({id, value: SORT_VALUES[sort]({reading, ...status}), rated: undefined})
  }
  // Rates of different limits are not comparable: sorts by the limit with the highest total rate.
  const existing = ranked.flatMap(({rated}) => (rated?.isGone === false ? [rated] : []))
  const rateLimit = mostConsumed(totalConsumption(existing))
  for (const each of ranked) {
    const rate = each.rated?.ratePerSecond.get(rateLimit ?? '')
    if (rate !== undefined) each.value = -rate
  }
  const direction = reversed ? -1 : 1
  ranked.sort((a, b) => compareSortValues(a.value, b.value, direction) || (a.id < b.id ? -1 : 1))
  return {ids: ranked.map(({id}) => id), rateLimit, live}
}

function compareSortValues(a: SortValue, b: SortValue, direction: 1 | -1): number {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined)
  return a === b ? 0 : a < b ? -direction : direction
}

export type BucketFilter = (reading: Pick<Reading, 'bucket'>, status: RowStatus) => boolean

/** Names match whole and by case. A prefix of a status matches too: the user may still be typing. */
const FIELDS: Readonly<Record<string, (wanted: string) => BucketFilter>> = {
  status: wanted => {
    const typed = wanted.toLowerCase()
    const isWhole = ROW_STATUSES.some(each => each === typed)
    return (_, status) => (isWhole ? status === typed : status.startsWith(typed))
  },
  entity:
    wanted =>
    ({bucket}) =>
      bucket.entity === wanted,
  resource:
    wanted =>
    ({bucket}) =>
      bucket.resource === wanted,
}

function partsOf(filter: string) {
  const typed = filter.trim()
  const isInverted = typed.startsWith('!')
  const text = isInverted ? typed.slice(1) : typed
  const [, named = '', value = text] = /^(status|entity|resource):(.*)$/i.exec(text) ?? []
  const field = named.toLowerCase()
  const wanted = field === 'entity' || field === 'resource' ? typedName(field, value) : value
  return {isInverted, field, wanted, text}
}

function parseFilter(filter: string): BucketFilter {
  const {isInverted, field, wanted, text} = partsOf(filter)
  if (wanted === '') return () => true
  const matches = FIELDS[field]?.(wanted) ?? partOfName(text)
  return (reading, status) => matches(reading, status) !== isInverted
}

function partOfName(text: string): BucketFilter {
  const part = text.toLowerCase()
  const has = (name: string) => [name, shownName(name)].some(each => each.toLowerCase().includes(part))
  return ({bucket}) => has(bucket.entity) || has(bucket.resource)
}

/** `undefined`: the filter is valid. A prefix of a status is valid too. */
export function filterProblem(filter: string): string | undefined {
  const {field, wanted} = partsOf(filter)
  try {
    if (field === 'entity') checkEntityId(wanted)
    if (field === 'resource') checkResourceName(wanted)
  } catch (error) {
    if (error instanceof ZaelError) return error.message
    throw error
  }
  if (field !== 'status' || ROW_STATUSES.some(status => status.startsWith(wanted.toLowerCase()))) return undefined
  return `not a status: ${ROW_STATUSES.join(', ')}`
}

export const resourceFilter = (resource: string): string => `resource:${resource}`
