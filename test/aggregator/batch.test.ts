import {expect, it} from 'vitest'
import {Batch} from '../../src/lib/aggregator/batch.js'
import {MemoryTable} from './fixtures/memory-table.js'
import {bucketImage, loggingAggregator, NOON_MS, streamRecord, tableOver} from './fixtures/stream.js'

it('reports the age of its newest record as lag, in any order of records', async () => {
  const image = (tpm: number) => bucketImage({tc: {tpm}})
  const {handle} = loggingAggregator({table: tableOver(new MemoryTable(), 'memory', () => NOON_MS + 90_000)})
  const Records = [
    streamRecord(undefined, image(1000), {atMs: NOON_MS}),
    streamRecord(image(2000), image(3000), {atMs: NOON_MS + 20_000}),
    streamRecord(image(1000), image(2000), {atMs: NOON_MS + 10_000}),
  ]
  expect((await handle({Records})).counts.lagMs).toBe(70_000)
  expect((await handle({Records: []})).counts.lagMs).toBe(0)
})

it('counts refusals of records behind a failed one when they are redelivered', () => {
  const image = (refused: number) => ({
    ...bucketImage({tc: {tpm: 1000}}),
    x: {N: String(refused)},
    xl: {N: String(NOON_MS)},
  })
  const records = [1, 3, 6].map((refused, at) => streamRecord(image([0, 1, 3][at] as number), image(refused)))
  const first = new Batch(records, () => {})
  first.fail([records[1]?.dynamodb?.SequenceNumber ?? ''], 'usage', {}, new Error('no answer'))
  const again = new Batch(records.slice(1), () => {})
  expect([first, again].map(batch => batch.result(NOON_MS).counts.refused)).toEqual([1, 5])
})
