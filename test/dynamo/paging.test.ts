import {afterAll, beforeAll, describe, expect, inject, test} from 'vitest'
import {batchGet, batchWrite} from '../../src/lib/dynamo/batch.js'
import {Aborted, Throttled, Unavailable, ValidationFailed} from '../../src/lib/dynamo/errors.js'
import {ExpressionBuilder} from '../../src/lib/dynamo/expression.js'
import {type ItemPage, queryItems, queryPages, scanPages} from '../../src/lib/dynamo/paging.js'
import type {Operation, Transport} from '../../src/lib/dynamo/transport.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {keyId} from '../../src/lib/schema/keys.js'
import {createTestTable} from './engine-table.js'
import {localTransport} from './transports/scripted-server.js'

const backoff = {random: () => 0, sleep: async () => {}}

async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const element of source) all.push(element)
  return all
}

const endpoint = inject('engineEndpoint')

describe.skipIf(endpoint === '')('D-38 pages on a real engine, to the end', () => {
  const COUNT = 130
  const transport = localTransport(endpoint || 'http://127.0.0.1')
  const order = (i: number) => String(i).padStart(4, '0')
  let table = ''

  beforeAll(async () => {
    table = await createTestTable(transport)
    const items = Array.from({length: COUNT}, (_, i) => ({put: {PK: s('p'), SK: s(order(i)), odd: n(i % 2)}}))
    await batchWrite(transport, table, items, {backoff})
  })

  afterAll(async () => {
    await transport.send('DeleteTable', {TableName: table})
    await transport.close()
  })

  function query(Limit?: number) {
    const e = new ExpressionBuilder()
    e.keyCondition(`${e.name('PK')} = ${e.value(s('p'))}`)
    return {TableName: table, Limit, ...e.read()}
  }
  const sortKeys = (items: Item[]) => items.map(item => (item.SK as {S: string}).S)
  const firstKeys = (count: number, from = 0) => Array.from({length: count}, (_, i) => order(from + i))

  test('returns every item of a query over many pages once, in order', async () => {
    expect(sortKeys(await collect(queryItems(transport, query(20), {backoff})))).toEqual(firstKeys(COUNT))
  })

  test('applies a limit over all pages exactly, and the cursor continues right after it', async () => {
    const pages = await collect(queryPages(transport, query(20), {backoff, limit: 50}))
    expect(pages.map(page => page.items.length)).toEqual([20, 20, 10])
    const next = pages.at(-1)?.next
    const rest = await collect(queryItems(transport, {...query(), ExclusiveStartKey: next}, {backoff, limit: 30}))
    expect(sortKeys(rest)).toEqual(firstKeys(30, 50))
  })

  test('applies a limit with a filter too, and the cursor skips nothing', async () => {
    const e = new ExpressionBuilder()
    e.keyCondition(`${e.name('PK')} = ${e.value(s('p'))}`).filter(`${e.name('odd')} = ${e.value(n(1))}`)
    const input = {TableName: table, ...e.read()}
    const pages = await collect(queryPages(transport, input, {backoff, limit: 7}))
    const found = sortKeys(pages.flatMap(page => page.items))
    const next = pages.at(-1)?.next
    const rest = await collect(queryItems(transport, {...input, ExclusiveStartKey: next}, {backoff}))
    expect(found).toHaveLength(7)
    expect([...found, ...sortKeys(rest)]).toEqual(firstKeys(COUNT).filter((_, i) => i % 2 === 1))
  })

  test.each([1, 4])('finds every item once in a scan of %i segments', async segments => {
    const pages: ItemPage[] = await collect(scanPages(transport, {TableName: table, Limit: 9}, {backoff, segments}))
    expect(sortKeys(pages.flatMap(page => page.items)).sort()).toEqual(firstKeys(COUNT))
  })

  test('finds exactly the existing items in a batch of reads', async () => {
    const keys = Array.from({length: 260}, (_, i) => ({PK: 'p', SK: order(i)}))
    const found = await batchGet(transport, table, keys, {backoff, consistent: true, projection: ['odd']})
    expect([...found.keys()]).toEqual(keys.slice(0, COUNT).map(keyId))
    expect(found.get(keyId({PK: 'p', SK: order(3)}))).toEqual({PK: s('p'), SK: s(order(3)), odd: n(1)})
  })

  test('leaves nothing after a scan that is purged while it is read', async () => {
    const purged = await createTestTable(transport)
    const items = Array.from({length: 90}, (_, i) => ({put: {PK: s(`p${i}`), SK: s('x')}}))
    await batchWrite(transport, purged, items, {backoff})
    async function* deletions() {
      for await (const {items} of scanPages(transport, {TableName: purged, Limit: 20}, {backoff})) {
        for (const {PK, SK} of items as {PK: {S: string}; SK: {S: string}}[]) yield {delete: {PK: PK.S, SK: SK.S}}
      }
    }
    const progress: number[] = []
    await batchWrite(transport, purged, deletions(), {backoff, onProgress: done => void progress.push(done)})
    expect(progress.at(-1)).toBe(90)
    expect(await transport.send('Scan', {TableName: purged})).toMatchObject({Count: 0})
    await transport.send('DeleteTable', {TableName: purged})
  })
})

/** A transport of three one-item pages with the given failures. */
function scripted(...failures: (Error | undefined)[]) {
  const sent: {operation: Operation; input: unknown}[] = []
  const send = async (operation: Operation, input: {ExclusiveStartKey?: Item; Segment?: number}) => {
    sent.push({operation, input})
    const failure = failures.shift()
    if (failure !== undefined) throw failure
    const at = Number((input.ExclusiveStartKey?.at as {N: string} | undefined)?.N ?? 0)
    const Items = [{item: s(`${input.Segment ?? ''}${at}`)}]
    return at < 2 ? {Items, LastEvaluatedKey: {at: n(at + 1)}} : {Items}
  }
  return {sent, transport: {send} as unknown as Transport}
}

describe('pages under faults', () => {
  const input = {TableName: 't'}

  test('are requested again after throttling and lost responses', async () => {
    const {transport, sent} = scripted(new Throttled('Query'), undefined, new Unavailable('Query', false))
    expect(await collect(queryItems(transport, input, {backoff}))).toHaveLength(3)
    expect(sent).toHaveLength(5)
  })

  test('fail if the failure lasts: a part is never taken for the whole', async () => {
    const lasting = new Throttled('Query')
    const {transport} = scripted(undefined, lasting, lasting)
    await expect(collect(queryItems(transport, input, {backoff: {...backoff, attempts: 2}}))).rejects.toBe(lasting)
  })

  test('stop when the signal fires between tries', async () => {
    const stop = new AbortController()
    const {transport, sent} = scripted(new Throttled('Query'))
    const sleep = async () => stop.abort()
    const reading = collect(queryItems(transport, input, {backoff: {...backoff, sleep}, signal: stop.signal}))
    await expect(reading).rejects.toBeInstanceOf(Aborted)
    expect(sent).toHaveLength(1)
  })

  test('are not requested after the reader stopped', async () => {
    const {transport, sent} = scripted()
    for await (const _ of queryPages(transport, input, {backoff})) break
    expect(sent).toHaveLength(1)
    expect(await collect(queryPages(transport, input, {backoff, limit: 0}))).toEqual([])
    expect(sent).toHaveLength(1)
  })

  test('leave no unhandled rejection in several segments when the reader stops early', async () => {
    const unheard: unknown[] = []
    const note = (error: unknown) => void unheard.push(error)
    process.on('unhandledRejection', note)
    const {transport} = scripted(undefined, undefined, new ValidationFailed('Scan'), new ValidationFailed('Scan'))
    for await (const _ of scanPages(transport, input, {backoff, segments: 2})) break
    await new Promise(resolve => setImmediate(resolve))
    process.off('unhandledRejection', note)
    expect(unheard).toEqual([])
  })

  test('fail in all segments if one fails', async () => {
    const failure = new ValidationFailed('Scan')
    const {transport} = scripted(undefined, undefined, undefined, failure)
    await expect(collect(scanPages(transport, input, {backoff, segments: 3}))).rejects.toBe(failure)
  })
})
