import {fittedLines, writeLines} from '../cli/output/lines.js'
import {fieldColumns, type Listing, type ListingColumn} from '../cli/output/listing.js'
import {type LongListOptions, printLongList} from '../cli/output/long-list.js'
import {
  formatCount,
  formatNumber,
  formatPlural,
  formatRate,
  formatShortPercent,
  formatShortSpan,
} from '../core/text/text.js'
import {providerTotal} from '../insight/usage/refused.js'
import type {WatchedBuckets} from './document.js'
import {isByOther, REFUSED_BY} from './model/status.js'
import type {WatchedBucketJson, WatchResult} from './results.js'
import {amountText} from './screen/line.js'

type Head = WatchedBuckets['head']

type LimitJson = WatchedBucketJson['limits'][number]

export function pollLine(document: WatchResult): string {
  const {at, totals, worst, problem} = document
  const time = at.replace(/\.\d+Z$/, 'Z')
  if (problem) return `${time}  ${problem.message}; data is ${formatShortSpan(document.dataAgeMs)} old`
  if (totals.buckets === 0) return `${time}  ${noneText(document)}  ${readText(document)}`
  return [time, countsText(document), worst ? worstText(worst) : '', ratesText(document), readText(document)]
    .filter(part => part !== '')
    .join('  ')
}

function bucketTable(
  {head, sort}: Pick<WatchedBuckets, 'head' | 'sort'>,
  rows: readonly WatchedBucketJson[],
): Listing<WatchedBucketJson> {
  const keys = ['entity', 'resource', 'left', 'refused', sort === 'pressure' ? 'writes' : sort]
  const columns = columnsOf(head, rows).map((column): Column => {
    return keys.includes(column.name) ? {...column, fit: 'key'} : column
  })
  return {rows, columns, empty: emptyText(head), elsewhere: '--json'}
}

function closingLines({head, count}: Pick<WatchedBuckets, 'head' | 'count'>): string[] {
  const part = head.sampled ? `, read ${partText(head, head.bucketsWatched)}` : ''
  const total = `${shownText(head, count)}${countsText(head)}; ${units(head.readUnits)}${part}`
  return count === 0 ? [] : ['', total]
}

/** Counts of a part must not pass for counts of the whole. */
export function sampleText(head: Head): string | undefined {
  const {sampled, usedFirst} = head
  if (!sampled) return undefined
  const first = usedFirst ? `Buckets used since ${usedFirst.since} were read first. ` : ''
  const missing = usedFirst?.complete === false ? 'Some of them are missing. ' : ''
  return `Read ${partText(head, head.bucketsWatched)} buckets. ${first}${missing}To read all, add --all.`
}

const partText = ({known}: Pick<Head, 'known'>, read: number): string =>
  `${formatCount(read)} of ${formatCount(known.count)}${known.isComplete ? '' : ' or more'}`

const columnsOf = (
  {at, rateLimit}: Head,
  buckets: readonly WatchedBucketJson[],
): Listing<WatchedBucketJson>['columns'] => [
  {name: 'status', value: ({status, refusedBy}) => (isByOther(refusedBy) ? `${status} (${refusedBy})` : status)},
  ...fieldColumns<WatchedBucketJson>('entity', 'resource', 'limit'),
  {name: 'level', align: 'right', value: bucket => levelText(bucket)},
  {
    name: 'capacity',
    align: 'right',
    fit: 'spare',
    value: bucket => amountOf(tightestOf(bucket), 'capacity'),
    raw: bucket => tightestOf(bucket)?.capacity,
  },
  {name: 'left', align: 'right', value: bucket => leftText(bucket)},
  {
    name: 'debt',
    align: 'right',
    fit: 'spare',
    value: bucket => amountOf(tightestOf(bucket), 'debt'),
    raw: bucket => tightestOf(bucket)?.debt,
  },
  {name: 'refill', header: 'REFILL/S', align: 'right', fit: 'spare', value: bucket => refillText(bucket)},
  ...(isRated(buckets) ? rateColumns(rateLimit) : []),
  {name: 'refused', value: ({refused}) => refused.requests + refused.byParent + providerTotal(refused.byProvider)},
  {
    name: 'last-refused',
    header: 'LAST REFUSED',
    align: 'right',
    value: ({refused}) => agoText(refused.lastAt, Date.parse(at)),
  },
  {name: 'shards', fit: 'spare', value: ({shardCount}) => shardCount},
]

const isRated = (buckets: readonly WatchedBucketJson[]): boolean =>
  buckets.some(({ratePerSecond}) => ratePerSecond !== null)

const rateColumns = (rateLimit: string | null): ListingColumn<WatchedBucketJson>[] => [
  {
    name: 'rate',
    header: `${rateLimit ?? 'USED'}/S`,
    align: 'right',
    value: bucket => rateText(ratedOf(bucket, rateLimit)),
  },
  {name: 'empty', header: 'EMPTY IN', align: 'right', value: ({emptyInMs}) => spanText(emptyInMs)},
  {name: 'writes', align: 'right', fit: 'spare', value: ({writePressure}) => formatShortPercent(writePressure)},
]

function ratedOf({limit, limits}: WatchedBucketJson, rateLimit: string | null): LimitJson | undefined {
  return limits.find(({name}) => name === (rateLimit ?? limit))
}

function rateText(limit: LimitJson | undefined): string | undefined {
  const rate = limit?.ratePerSecond ?? null
  return rate === null ? undefined : amountText(rate, limit?.unit, formatRate)
}

function amountOf(limit: LimitJson | undefined, what: 'capacity' | 'debt'): string | undefined {
  // A level in money is rounded down, so a debt is rounded up.
  return limit && amountText(limit.unit === undefined ? limit[what] : Math.ceil(limit[what]), limit.unit, formatCount)
}

const spanText = (ms: number | null): string | undefined => (ms === null ? undefined : formatShortSpan(ms))

const agoText = (at: string | null, nowMs: number): string | undefined =>
  at === null ? undefined : `${formatShortSpan(Math.max(0, nowMs - Date.parse(at)))} ago`

function emptyText(document: Head): string {
  const {known, bucketsWatched} = document
  const none =
    known.count === 0
      ? 'No buckets: nothing was consumed yet, or all have expired.'
      : `None of ${formatCount(bucketsWatched)} buckets match the filter.`
  return known.unreadable === 0 ? none : `${none} ${formatCount(known.unreadable)} unreadable.`
}

const noneText = ({known}: WatchResult): string =>
  `no buckets${known.count === 0 ? ' yet' : ' match'}${unreadableText(known)}`

function shownText({totals, bucketsWatched}: Head, count: number): string {
  if (count >= totals.buckets) return ''
  return `${formatCount(count)} ${totals.buckets < bucketsWatched ? 'shown; ' : 'of '}`
}

function countsText({totals, bucketsWatched, known}: Head): string {
  const {buckets, over, near, overdrawn, disabled, inDebt, refusedPerSecond} = totals
  const all = Math.max(buckets, bucketsWatched)
  const chosen = buckets < all ? `${formatCount(buckets)} of ` : ''
  const debt = inDebt === 0 ? '' : `, ${formatCount(inDebt)} in debt`
  const off = disabled === 0 ? '' : `, ${formatCount(disabled)} disabled`
  const soft = overdrawn === 0 ? '' : `, ${formatCount(overdrawn)} overdrawn`
  const refused = refusedPerSecond === 0 ? '' : `, ${formatRate(refusedPerSecond)}/s refused`
  const counts = `${formatCount(over)} over, ${formatCount(near)} near${soft}${off}${debt}${refused}${unreadableText(known)}`
  return `${chosen}${formatPlural(all, 'bucket')}, ${counts}`
}

const unreadableText = ({unreadable}: WatchResult['known']): string =>
  unreadable === 0 ? '' : `, ${formatCount(unreadable)} unreadable`

function worstText(worst: WatchedBucketJson): string {
  const limit = tightestOf(worst)
  if (!limit) return ''
  const ends = worst.emptyInMs === null || worst.emptyInMs === 0 ? '' : `, empty in ${formatShortSpan(worst.emptyInMs)}`
  const capacity = amountText(limit.capacity, limit.unit, formatNumber)
  const level = `${levelText(worst)} of ${capacity} ${limit.name} (${leftText(worst)})`
  const parent = isByOther(worst.refusedBy) ? `, refused by ${REFUSED_BY[worst.refusedBy]}` : ''
  return `worst ${worst.entity} ${worst.resource} ${level}${ends}${parent}`
}

function ratesText({totals: {ratePerSecond}, worst, buckets}: WatchResult): string {
  const limits = [...(worst ? [worst] : []), ...buckets].flatMap(bucket => bucket.limits)
  const units = new Map(limits.flatMap(({name, unit}) => (unit === undefined ? [] : [[name, unit] as const])))
  return Object.entries(ratePerSecond)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, rate]) => `${name} ${amountText(rate, units.get(name), formatRate)}/s`)
    .join(', ')
}

function readText({readUnits, bucketsRead, known, sampled, oldestAgeMs}: WatchResult): string {
  if (!sampled) return units(readUnits)
  const oldest = oldestAgeMs === null ? '' : `, oldest ${formatShortSpan(oldestAgeMs)} ago`
  return `${units(readUnits)}, read ${partText({known}, bucketsRead)}${oldest}`
}

const units = (count: number): string => `${formatNumber(count)} read units`

const tightestOf = ({limit, limits}: WatchedBucketJson) => limits.find(({name}) => name === limit)

function levelText(bucket: WatchedBucketJson): string | undefined {
  const limit = tightestOf(bucket)
  return limit && amountText(limit.level, limit.unit, tokens => formatNumber(tokens, 'down', 3))
}

function refillText(bucket: WatchedBucketJson): string | undefined {
  const limit = tightestOf(bucket)
  return limit && amountText(limit.refillPerSecond, limit.unit, formatRate)
}

function leftText(bucket: WatchedBucketJson): string | undefined {
  const limit = tightestOf(bucket)
  return limit && formatShortPercent(limit.level / limit.capacity)
}

export async function printSnapshot(watched: WatchedBuckets, options: Omit<LongListOptions, 'flags'>): Promise<void> {
  const {head, buckets} = watched
  const isCsv = options.format === 'csv'
  const listing = isCsv ? csvTable(buckets) : (rows: readonly WatchedBucketJson[]) => bucketTable(watched, rows)
  const list = {before: head, field: 'buckets', items: buckets, json: (bucket: WatchedBucketJson) => bucket, listing}
  const fitted = (lines: readonly string[]) => lines.flatMap(line => fittedLines(line, process.stdout))
  const sample = options.format === 'table' ? sampleText(head) : undefined
  if (sample !== undefined) await writeLines(fitted([sample, '']), options.onBegin)
  await printLongList(list, {...options, flags: {'no-header': false}})
  if (options.format === 'table') await writeLines(fitted(closingLines(watched)))
}

type Column = ListingColumn<WatchedBucketJson>

const OF_LIMIT: Readonly<Record<string, (limit: LimitJson) => number | null>> = {
  level: ({level}) => level,
  capacity: ({capacity}) => capacity,
  'used-per-second': ({ratePerSecond}) => ratePerSecond,
}

function csvTable(
  buckets: Iterable<WatchedBucketJson>,
): (rows: readonly WatchedBucketJson[]) => Listing<WatchedBucketJson> {
  const found = new Set<string>()
  for (const {limits} of buckets) for (const {name} of limits) found.add(name)
  const names = [...found].sort()
  const ofLimits = Object.entries(OF_LIMIT).flatMap(([what, value]) =>
    names.map((name): Column => {
      const cell = (limit: LimitJson | undefined) => limit && value(limit)
      return {name: `${what}-${name}`, value: ({limits}) => cell(limits.find(limit => limit.name === name))}
    }),
  )
  const columns: Column[] = [
    ...fieldColumns<WatchedBucketJson>('entity', 'resource', 'status', 'refusedBy', 'limit'),
    ...ofLimits,
    ...fieldColumns<WatchedBucketJson>('emptyInMs'),
    {name: 'refused', value: ({refused}) => refused.requests},
    {name: 'refused-by-parent', value: ({refused}) => refused.byParent},
    {name: 'refused-by-provider', value: ({refused}) => providerTotal(refused.byProvider)},
    {name: 'last-refused', value: ({refused}) => refused.lastAt},
    {name: 'write-pressure', value: ({writePressure}) => writePressure},
    {name: 'shards', value: ({shardCount}) => shardCount},
  ]
  return rows => ({rows, columns, empty: ''})
}
