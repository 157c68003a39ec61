import {randomUUID} from 'node:crypto'
import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import type {StreamRecord} from '../../src/lib/aggregator/stream-event.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {runs} from '../helpers/runs.js'
import {Delivery, portions} from './fixtures/delivery.js'
import {play, usageIn, writes} from './fixtures/history.js'
import {MemoryTable} from './fixtures/memory-table.js'
import {usageItems} from './fixtures/stored-usage.js'
import {bucketImage, loggingAggregator, NOON_MS, streamRecord, tableOver} from './fixtures/stream.js'

// Long after the records, so that neither refill nor growth writes.
const clock = () => NOON_MS + 30 * 86_400_000

describe('usage is counted exactly once (L4)', () => {
  it('however the stream is delivered', async () => {
    await fc.assert(
      fc.asyncProperty(writes(40), portions, async (history, plan) => {
        const {records, usage} = play(history, 'ns', NOON_MS)
        const table = new MemoryTable()
        await new Delivery(table, 'memory', clock).all(records, plan)
        expect(usageIn(table.items.values())).toEqual(usage)
      }),
      {numRuns: runs(200)},
    )
  })

  it('also around midnight of the first of a month, when an hour, a day and a month start', async () => {
    await fc.assert(
      fc.asyncProperty(writes(25), portions, async (history, plan) => {
        const {records, usage} = play(history, 'ns', Date.UTC(2023, 10, 30, 23, 59))
        const table = new MemoryTable()
        await new Delivery(table, 'memory', clock).all(records, plan)
        expect(usageIn(table.items.values())).toEqual(usage)
      }),
      {numRuns: runs(50)},
    )
  })
})

describe('usage of one batch', () => {
  const image = (tpm: number) => bucketImage({tc: {tpm}})
  const handle = (transport: Transport, Records: StreamRecord[]) =>
    loggingAggregator({table: tableOver(transport, 'memory', clock), settings: {windows: ['hourly']}}).handle({Records})
  const key = 'user-1 hourly 2023-11-14T12:00:00Z'

  it('is exact with a duplicate record and with records out of order', async () => {
    const table = new MemoryTable()
    const [first, second, third] = [
      streamRecord(undefined, image(1000)),
      streamRecord(image(1000), image(3000)),
      streamRecord(image(3000), image(7000)),
    ]
    await handle(table, [third, first, second, second, first])
    expect(usageIn(table.items.values()).get(key)).toEqual({tpm: 7000n, rpm: 0n, events: 3, overdrafts: 0})
    await handle(table, [third, second])
    expect(usageIn(table.items.values()).get(key)).toEqual({tpm: 7000n, rpm: 0n, events: 3, overdrafts: 0})
  })

  it('is counted once when two processes race with the same batch', async () => {
    const table = new MemoryTable()
    await handle(table, [streamRecord(undefined, image(500))])
    const batch = [streamRecord(image(500), image(3500))]
    let hasOvertaken = false
    // The stored fraction makes the first attempt fail its condition; then the other process counts the batch.
    const slow: Transport = {
      send: async (operation, input) => {
        const attempt = table.send(operation, input)
        if (hasOvertaken || operation !== 'UpdateItem') return attempt
        hasOvertaken = true
        return attempt.catch(async error => {
          await handle(table, batch)
          throw error
        })
      },
    }
    expect((await handle(slow, batch)).counts.snapshots).toBe(0)
    expect(usageIn(table.items.values()).get(key)).toEqual({tpm: 3500n, rpm: 0n, events: 2, overdrafts: 0})
  })
})

describeOnBoth('usage is counted exactly once on an engine (L4)', {}, table => {
  it('however the stream is delivered', async () => {
    await fc.assert(
      fc.asyncProperty(writes(20), portions, async (history, plan) => {
        const namespace = `ns${randomUUID().slice(0, 8)}`
        const {records, usage} = play(history, namespace, NOON_MS)
        await new Delivery(table.transport, table.name, clock).all(records, plan)
        const items = await Promise.all([0, 1, 2].map(bucket => usageItems(table, namespace, `user-${bucket}`)))
        expect(usageIn(items.flat())).toEqual(usage)
      }),
      {numRuns: 4},
    )
  })
})
