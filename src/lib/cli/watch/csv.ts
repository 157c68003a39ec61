import {type ListingColumn, listingCsv} from '../output/listing.js'
import type {WatchedBucketJson, WatchResult} from '../results/watch.js'

type LimitJson = WatchedBucketJson['limits'][number]
type Column = ListingColumn<WatchedBucketJson>

/** What is told of each limit, before its name. */
const OF_LIMIT: Readonly<Record<string, (limit: LimitJson) => number | null>> = {
  level: ({level}) => level,
  capacity: ({capacity}) => capacity,
  'used-per-second': ({ratePerSecond}) => ratePerSecond,
}

/** One row per bucket, with columns of their own for each limit; rates are empty unless the buckets were read twice. */
export function snapshotCsv({buckets}: WatchResult): Iterable<string> {
  const names = [...new Set(buckets.flatMap(({limits}) => limits.map(({name}) => name)))].sort()
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
  return listingCsv({rows: buckets, columns, empty: ''}, {'no-header': false})
}
