import type {Listing, ListingColumn} from '../cli/output/listing.js'
import {type LongListOptions, printLongList} from '../cli/output/long-list.js'
import {writeLines} from '../cli/output/write-lines.js'
import type {WatchedBuckets} from './document.js'
import {bucketTable, closingLines} from './lines.js'
import type {WatchedBucketJson} from './results.js'

export async function printSnapshot(watched: WatchedBuckets, options: Omit<LongListOptions, 'flags'>): Promise<void> {
  const {head, buckets} = watched
  const isCsv = options.format === 'csv'
  const listing = isCsv ? csvTable(buckets) : (rows: readonly WatchedBucketJson[]) => bucketTable(head, rows)
  const list = {
    before: head,
    field: 'buckets',
    items: each(buckets),
    json: (bucket: WatchedBucketJson) => bucket,
    listing,
  }
  await printLongList(list, {...options, flags: {'no-header': false}})
  if (options.format === 'table') await writeLines(closingLines(watched))
}

async function* each<T>(elements: Iterable<T>): AsyncGenerator<T, void> {
  yield* elements
}

type LimitJson = WatchedBucketJson['limits'][number]
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
    {name: 'entity', value: ({entity}) => entity},
    {name: 'resource', value: ({resource}) => resource},
    {name: 'status', value: ({status}) => status},
    {name: 'refused-by', value: ({refusedBy}) => refusedBy},
    {name: 'limit', value: ({limit}) => limit},
    ...ofLimits,
    {name: 'empty-in-ms', value: ({emptyInMs}) => emptyInMs},
    {name: 'refused', value: ({refused}) => refused.requests},
    {name: 'refused-by-parent', value: ({refused}) => refused.byParent},
    {name: 'last-refused', value: ({refused}) => refused.lastAt},
    {name: 'write-pressure', value: ({writePressure}) => writePressure},
    {name: 'shards', value: ({shardCount}) => shardCount},
  ]
  return rows => ({rows, columns, empty: ''})
}
