import {type LongListOptions, printLongList} from '../cli/output/long-list.js'
import {writeLines} from '../cli/output/write-lines.js'
import {csvTable} from './csv.js'
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
