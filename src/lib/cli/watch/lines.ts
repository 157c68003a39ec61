import {
  formatCount,
  formatNumber,
  formatPlural,
  formatRate,
  formatShortPercent,
  formatShortSpan,
} from '../../core/text.js'
import {type Listing, type ListingColumn, listingLines} from '../output/listing.js'
import type {WatchedBucketJson, WatchResult} from '../results/watch.js'

/** One poll in one line. */
export function pollLine(document: WatchResult): string {
  const {at, totals, worst, problem} = document
  const time = at.replace(/\.\d+Z$/, 'Z')
  if (problem) return `${time}  ${problem.message}; data is ${formatShortSpan(document.dataAgeMs)} old`
  if (totals.buckets === 0) return `${time}  ${noneText(document)}  ${readText(document)}`
  return [time, countsText(document), worst ? worstText(worst) : '', ratesText(document), readText(document)]
    .filter(part => part !== '')
    .join('  ')
}

/** All buckets in a table, and a line with totals. */
export async function snapshotLines(document: WatchResult, width: number | undefined): Promise<string[]> {
  const {buckets} = document
  const listing: Listing<WatchedBucketJson> = {
    rows: buckets,
    columns: columnsOf(document),
    empty: emptyText(document),
  }
  const lines = [...(await listingLines(listing, {'no-header': false}, width))]
  if (buckets.length === 0) return lines
  return [...lines, '', `${shownText(document)}${countsText(document)}; ${units(document.readUnits)}`]
}

const columnsOf = ({at, rateLimit, buckets}: WatchResult): Listing<WatchedBucketJson>['columns'] => [
  {name: 'status', value: ({status, refusedBy}) => (refusedBy === 'parent' ? `${status} (parent)` : status)},
  {name: 'entity', value: ({entity}) => entity},
  {name: 'resource', value: ({resource}) => resource},
  {name: 'limit', value: ({limit}) => limit},
  {name: 'level', align: 'right', value: bucket => levelText(bucket)},
  {name: 'capacity', value: bucket => tightestOf(bucket)?.capacity},
  {name: 'left', align: 'right', value: bucket => leftText(bucket)},
  {name: 'debt', fit: 'spare', value: bucket => tightestOf(bucket)?.debt},
  {name: 'refill', header: 'REFILL/S', align: 'right', fit: 'spare', value: bucket => refillText(bucket)},
  ...(isRated(buckets) ? rateColumns(rateLimit) : []),
  {name: 'refused', value: ({refused}) => refused.requests + refused.byParent},
  {
    name: 'last-refused',
    header: 'LAST REFUSED',
    align: 'right',
    value: ({refused}) => agoText(refused.lastAt, Date.parse(at)),
  },
  {name: 'shards', fit: 'spare', value: ({shardCount}) => shardCount},
]

/** Whether rates are known: the buckets were read twice. */
const isRated = (buckets: readonly WatchedBucketJson[]): boolean =>
  buckets.some(({ratePerSecond}) => ratePerSecond !== null)

/** Of the limit that the order is by, otherwise of the one that the row shows. */
const rateColumns = (rateLimit: string | null): ListingColumn<WatchedBucketJson>[] => [
  {
    name: 'rate',
    header: `${rateLimit ?? 'USED'}/S`,
    align: 'right',
    value: bucket => rateText(rateOf(bucket, rateLimit)),
  },
  {name: 'empty', header: 'EMPTY IN', align: 'right', value: ({emptyInMs}) => spanText(emptyInMs)},
  {name: 'writes', align: 'right', fit: 'spare', value: ({writePressure}) => formatShortPercent(writePressure)},
]

function rateOf({limit, limits}: WatchedBucketJson, rateLimit: string | null): number | null {
  return limits.find(({name}) => name === (rateLimit ?? limit))?.ratePerSecond ?? null
}

const rateText = (rate: number | null): string | undefined => (rate === null ? undefined : formatRate(rate))

const spanText = (ms: number | null): string | undefined => (ms === null ? undefined : formatShortSpan(ms))

const agoText = (at: string | null, nowMs: number): string | undefined =>
  at === null ? undefined : `${formatShortSpan(Math.max(0, nowMs - Date.parse(at)))} ago`

function emptyText(document: WatchResult): string {
  const {known} = document
  const none =
    known.count === 0
      ? 'There are no buckets: nothing has been consumed yet, or all have expired.'
      : `None of ${formatCount(known.count)} buckets matches the filter.`
  return known.unreadable === 0 ? none : `${none} ${formatCount(known.unreadable)} unreadable.`
}

const noneText = ({known}: WatchResult): string =>
  `no buckets${known.count === 0 ? ' yet' : ' match'}${unreadableText(known)}`

/** How many of the selected buckets the table shows, unless all. */
function shownText({buckets, totals, bucketsWatched}: WatchResult): string {
  if (buckets.length >= totals.buckets) return ''
  return `${formatCount(buckets.length)} ${totals.buckets < bucketsWatched ? 'shown; ' : 'of '}`
}

function countsText({totals, bucketsWatched, known}: WatchResult): string {
  const {buckets, over, near, overdrawn, inDebt, refusedPerSecond} = totals
  const all = Math.max(buckets, bucketsWatched)
  const chosen = buckets < all ? `${formatCount(buckets)} of ` : ''
  const debt = inDebt === 0 ? '' : `, ${formatCount(inDebt)} in debt`
  const soft = overdrawn === 0 ? '' : `, ${formatCount(overdrawn)} overdrawn`
  const refused = refusedPerSecond === 0 ? '' : `, ${formatRate(refusedPerSecond)}/s refused`
  const counts = `${formatCount(over)} over, ${formatCount(near)} near${soft}${debt}${refused}${unreadableText(known)}`
  return `${chosen}${formatPlural(all, 'bucket')}, ${counts}`
}

const unreadableText = ({unreadable}: WatchResult['known']): string =>
  unreadable === 0 ? '' : `, ${formatCount(unreadable)} unreadable`

function worstText(worst: WatchedBucketJson): string {
  const limit = tightestOf(worst)
  if (!limit) return ''
  const ends = worst.emptyInMs === null || worst.emptyInMs === 0 ? '' : `, empty in ${formatShortSpan(worst.emptyInMs)}`
  const level = `${levelText(worst)} of ${formatNumber(limit.capacity)} ${limit.name} (${leftText(worst)})`
  const parent = worst.refusedBy === 'parent' ? ', refused by its parent' : ''
  return `worst ${worst.entity} ${worst.resource} ${level}${ends}${parent}`
}

function ratesText({totals: {ratePerSecond}}: WatchResult): string {
  return Object.entries(ratePerSecond)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, rate]) => `${name} ${formatRate(rate)}/s`)
    .join(', ')
}

/** What was read, its cost in read units, and the age of the oldest reading. */
function readText({readUnits, bucketsRead, known, sampled, oldestAgeMs}: WatchResult): string {
  if (!sampled) return units(readUnits)
  const all = `${formatCount(known.count)}${known.isComplete ? '' : ' or more'}`
  const oldest = oldestAgeMs === null ? '' : `, oldest ${formatShortSpan(oldestAgeMs)} ago`
  return `${units(readUnits)}, read ${formatCount(bucketsRead)} of ${all}${oldest}`
}

const units = (count: number): string => `${formatNumber(count)} read units`

const tightestOf = ({limit, limits}: WatchedBucketJson) => limits.find(({name}) => name === limit)

/** Rounded down: never more than is left. */
function levelText(bucket: WatchedBucketJson): string | undefined {
  const limit = tightestOf(bucket)
  return limit && formatNumber(limit.level, 'down')
}

function refillText(bucket: WatchedBucketJson): string | undefined {
  const limit = tightestOf(bucket)
  return limit && formatRate(limit.refillPerSecond)
}

function leftText(bucket: WatchedBucketJson): string | undefined {
  const limit = tightestOf(bucket)
  return limit && formatShortPercent(limit.level / limit.capacity)
}
