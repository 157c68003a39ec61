import {exact, percent, span} from '../ui/format.js'
import {formatCount} from './facts.js'
import {type Listing, listingLines} from './listing.js'
import type {BucketDocument, WatchDocument} from './watch-document.js'

/** One poll in one line. */
export function pollLine(document: WatchDocument): string {
  const {at, totals, worst, problem} = document
  const time = at.replace(/\.\d+Z$/, 'Z')
  if (problem) return `${time}  ${problem.message}; data is ${span(document.dataAgeMs)} old`
  if (totals.buckets === 0)
    return `${time}  no buckets${document.known.count === 0 ? ' yet' : ' match'}  ${readText(document)}`
  return [time, countsText(document), worst ? worstText(worst) : '', ratesText(document), readText(document)]
    .filter(part => part !== '')
    .join('  ')
}

/** All buckets in a table, and a line about them together. */
export function snapshotLines(document: WatchDocument, width: number | undefined): string[] {
  const {buckets, totals} = document
  const listing: Listing<BucketDocument> = {rows: buckets, columns: COLUMNS, empty: emptyText(document)}
  const lines = listingLines(listing, {'no-header': false}, width)
  if (buckets.length === 0) return lines
  const shown = buckets.length < totals.buckets ? `${formatCount(buckets.length)} of ` : ''
  return [...lines, '', `${shown}${countsText(document)}; ${units(document.readUnits)}`]
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
  {name: 'refill', header: 'REFILL/S', value: bucket => tightestOf(bucket)?.refillPerSecond},
  {name: 'shards', value: ({shardCount}) => shardCount},
]

function emptyText({known}: WatchDocument): string {
  return known.count === 0
    ? 'There are no buckets yet: nothing was consumed, or all have expired.'
    : `None of ${formatCount(known.count)} buckets matches the filter.`
}

function countsText({totals: {buckets, over, near, inDebt}}: WatchDocument): string {
  const debt = inDebt === 0 ? '' : `, ${formatCount(inDebt)} in debt`
  return `${formatCount(buckets)} ${buckets === 1 ? 'bucket' : 'buckets'}, ${formatCount(over)} over, ${formatCount(near)} near${debt}`
}

function worstText(worst: BucketDocument): string {
  const limit = tightestOf(worst)
  if (!limit) return ''
  const ends = worst.emptyInMs === null || worst.emptyInMs === 0 ? '' : `, empty in ${span(worst.emptyInMs)}`
  const level = `${levelText(worst)} of ${exact(limit.capacity)} ${limit.name} (${leftText(worst)})`
  return `worst ${worst.entity} ${worst.resource} ${level}${ends}`
}

function ratesText({totals: {ratePerSecond}}: WatchDocument): string {
  return Object.entries(ratePerSecond)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, rate]) => `${name} ${exact(rate)}/s`)
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

function leftText(bucket: BucketDocument): string | undefined {
  const limit = tightestOf(bucket)
  return limit && percent(limit.level / limit.capacity)
}
