import {expect, it} from 'vitest'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {s} from '../../../src/lib/schema/attribute-value.js'
import {decodeUsage, encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {bucketImage, streamRecord} from '../fixtures/stream.js'
import {ALWAYS, agendaOf, aggregatorOn, DAY_MS, memoryTable, store} from './rolled-table.js'

const DAY_START_MS = Date.UTC(2023, 10, 30)
const DAY = 'daily 2023-11-30T00:00:00Z gpt-4'
const MONTH = 'monthly 2023-11-01T00:00:00Z gpt-4'

it('rolls up a large resource in turns that continue where the last one ended, even in another process', async () => {
  let nowMs = DAY_START_MS + 1000
  const clock = () => nowMs
  const {transport, name} = await memoryTable(clock)
  await store(transport, name, ALWAYS)
  const entities = Array.from({length: 700}, (_, at) => `e${String(at).padStart(4, '0')}`)
  for (const entity of entities) {
    const item = encodeUsage({
      ...{namespace: 'ns', entity, resource: 'gpt-4', window: 'hourly', start: '2023-11-30T05:00:00Z'},
      ...{tokens: new Map([['tpm', 4]]), totalEvents: 1, ttlSeconds: undefined},
    })
    await transport.send('PutItem', {TableName: name, Item: {...item, _seq_0: s('x')}})
  }
  const days = (): Item[] =>
    transport
      .table(name)
      .items.all()
      .filter(item => decodeUsage(item)?.window === 'daily')
  const aggregator = () => aggregatorOn(transport, name, clock)
  const first = aggregator()
  const image = bucketImage({tc: {tpm: 3000}, rq: 1})
  await first.handle({Records: [streamRecord(undefined, image, {atMs: nowMs})]})
  nowMs = DAY_START_MS + DAY_MS + 5 * 60_000
  await first.tick()
  // The same instant again costs nothing.
  await first.tick()
  const afterOne = days().length
  expect(afterOne).toBeGreaterThan(400)
  expect(afterOne).toBeLessThan(601)
  expect(await agendaOf(first.table, 'ns')).toEqual([DAY, MONTH])
  nowMs += 5_000
  await first.tick()
  expect(days().length).toBeGreaterThan(afterOne)
  for (let turn = 0; turn < 3; turn++) {
    nowMs += 200_000
    await aggregator().tick()
  }
  expect(await agendaOf(first.table, 'ns')).toEqual([MONTH])
  expect(days()).toHaveLength(701)
  const tokens = new Set(days().map(day => decodeUsage(day)?.tokens.get('tpm')))
  expect([...tokens].sort()).toEqual([3, 4])
})
