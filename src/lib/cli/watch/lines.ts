import {compact, exact, span, wholePercent} from '../../ui/draw/format.js'
import {formatCount} from '../output/facts.js'
import {type Listing, listingLines} from '../output/listing.js'
import {printable} from '../output/text-table.js'
import type {BucketDocument, WatchDocument} from './document.js'

/** One poll in one line. */
export function pollLine(document: WatchDocument): string {
  const {at, totals, worst, problem} = document
  const time = at.replace(/\.\d+Z$/, 'Z')
  if (problem) return `${time}  ${printable(problem.message)}; data is ${span(document.dataAgeMs)} old`
  if (totals.buckets === 0) return `${time}  ${noneText(document)}  ${readText(document)}`
  return [time, countsText(document), worst ? worstText(worst) : '', ratesText(document), readText(document)]
    .filter(part => part !== '')
    .join('  ')
}

/** All buckets in a table, and a line about them together. */
export function snapshotLines(document: WatchDocument, width: number | undefined): string[] {
  const {buckets} = document
  const listing: Listing<BucketDocument> = {rows: buckets, columns: COLUMNS, empty: emptyText(document)}
  const lines = listingLines(listing, {'no-header': false}, width)
  if (buckets.length === 0) return lines
  return [...lines, '', `${shownText(document)}${countsText(document)}; ${units(document.readUnits)}`]
}

const COLUMNS: Listing<BucketDocument>['columns'] = [
  {name: 'status', value: ({status}) => status},
  {name: 'entity', value: ({entity}) => entity},
  {name: 'resource', value: ({resource}) => resource},
  {name: 'limit', value: ({limit}) => limit},
  {name: 'level', align: 'right', value: bucket => levelText(bucket)},
  {name: 'capacity', value: bucket => tightestOf(bucket)?.capacity},
  {name: 'left', align: 'right', value: bucket => leftText(bucket)},
  {name: 'debt', value: bucket => tightestOf(bucket)?.debt},
  {name: 'refill', header: 'REFILL/S', align: 'right', value: bucket => refillText(bucket)},
  {name: 'shards', value: ({shardCount}) => shardCount},
]

function emptyText(document: WatchDocument): string {
  const {known} = document
  const none =
    known.count === 0
      ? 'There are no buckets yet: nothing was consumed, or all have expired.'
      : `None of ${formatCount(known.count)} buckets matches the filter.`
  return known.unreadable === 0 ? none : `${none} ${formatCount(known.unreadable)} unreadable.`
}

const noneText = ({known}: WatchDocument): string =>
  `no buckets${known.count === 0 ? ' yet' : ' match'}${unreadableText(known)}`

/** Of those that were chosen, when a table does not show them all. */
function shownText({buckets, totals, bucketsWatched}: WatchDocument): string {
  if (buckets.length >= totals.buckets) return ''
  return `${formatCount(buckets.length)} ${totals.buckets < bucketsWatched ? 'shown; ' : 'of '}`
}

function countsText({totals, bucketsWatched, known}: WatchDocument): string {
  const {buckets, over, near, inDebt} = totals
  const all = Math.max(buckets, bucketsWatched)
  const chosen = buckets < all ? `${formatCount(buckets)} of ` : ''
  const debt = inDebt === 0 ? '' : `, ${formatCount(inDebt)} in debt`
  const counts = `${formatCount(over)} over, ${formatCount(near)} near${debt}${unreadableText(known)}`
  return `${chosen}${formatCount(all)} ${all === 1 ? 'bucket' : 'buckets'}, ${counts}`
}

const unreadableText = ({unreadable}: WatchDocument['known']): string =>
  unreadable === 0 ? '' : `, ${formatCount(unreadable)} unreadable`

function worstText(worst: BucketDocument): string {
  const limit = tightestOf(worst)
  if (!limit) return ''
  const ends = worst.emptyInMs === null || worst.emptyInMs === 0 ? '' : `, empty in ${span(worst.emptyInMs)}`
  const level = `${levelText(worst)} of ${exact(limit.capacity)} ${limit.name} (${leftText(worst)})`
  return printable(`worst ${worst.entity} ${worst.resource} ${level}${ends}`)
}

function ratesText({totals: {ratePerSecond}}: WatchDocument): string {
  return Object.entries(ratePerSecond)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, rate]) => `${printable(name)} ${perSecond(rate)}/s`)
    .join(', ')
}

/** What was read, at what price, and how old the rest is. */
function readText({readUnits, bucketsRead, known, sampled, oldestAgeMs}: WatchDocument): string {
  if (!sampled) return units(readUnits)
  const all = `${formatCount(known.count)}${known.isComplete ? '' : ' or more'}`
  const oldest = oldestAgeMs === null ? '' : `, oldest ${span(oldestAgeMs)} ago`
  return `${units(readUnits)}, read ${formatCount(bucketsRead)} of ${all}${oldest}`
}

const units = (count: number): string => `${exact(count)} read units`

const tightestOf = ({limit, limits}: BucketDocument) => limits.find(({name}) => name === limit)

/** Rounded down: what is told to be left is there. */
function levelText(bucket: BucketDocument): string | undefined {
  const limit = tightestOf(bucket)
  return limit && exact(limit.level, 'down')
}

/** Fifty per day are little per second, and not nothing. */
const perSecond = (rate: number): string => (Math.abs(rate) < 0.01 ? compact(rate) : exact(rate))

function refillText(bucket: BucketDocument): string | undefined {
  const limit = tightestOf(bucket)
  return limit && perSecond(limit.refillPerSecond)
}

function leftText(bucket: BucketDocument): string | undefined {
  const limit = tightestOf(bucket)
  return limit && wholePercent(limit.level / limit.capacity)
}
