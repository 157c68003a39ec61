import {expect, it} from 'vitest'
import {Batch} from '../../src/lib/aggregator/batch.js'
import {MemoryTable} from './fixtures/memory-table.js'
import {bucketImage, loggingAggregator, NOON_MS, streamRecord, tableOver} from './fixtures/stream.js'

it('a batch reports the age of its newest record as lag, whatever the order of its records', async () => {
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

it('refusals of records that are delivered again, because one before them has failed, are counted then', () => {
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
