import {expect, it} from 'vitest'
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
