import {beforeAll, beforeEach, describe, expect, it} from 'vitest'
import {type Window, windowStart} from '../../../src/lib/core/window.js'
import {batchWrite} from '../../../src/lib/dynamo/batch.js'
import type {RecordPage} from '../../../src/lib/repository/table/query.js'
import {Usage} from '../../../src/lib/repository/usage/usage.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {runEntity} from '../../../src/lib/schema/run-record.js'
import {encodeUsage, type UsageRecord} from '../../../src/lib/schema/usage-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, put, type TestTenant} from '../namespace-table.js'

const HOUR = 3_600_000
const DAY = 24 * HOUR
/** A midnight at which a month begins. */
const MIDNIGHT = Date.UTC(2027, 1, 1)

describeOnBoth('usage', {eachIndex: true}, table => {
  let tenant: TestTenant

  beforeEach(() => {
    tenant = newTenant(table)
  })

  const item = (entity: string, resource: string, window: Window, atMs: number, tokens: Record<string, number>): Item =>
    encodeUsage({
      namespace: tenant.namespace,
      entity,
      resource,
      window,
      start: windowStart(window, atMs),
      tokens: new Map(Object.entries(tokens)),
      totalEvents: 1,
      ttlSeconds: undefined,
    })
  /** As the Python aggregator writes it: the type is in no key. */
  const pythonItem = (...args: Parameters<typeof item>): Item => {
    const written = item(...args)
    const {S: SK} = written.SK as {S: string}
    return {...written, SK: {S: SK.replace(/#(daily|monthly)$/, '')}}
  }
  const putAll = (items: Item[]) =>
    batchWrite(
      table.transport,
      table.name,
      items.map(each => ({put: each})),
      {backoff: tenant.backoff},
    )
  const labelOf = ({entity, resource, window, start}: UsageRecord) => `${entity} ${resource} ${window} ${start}`
  const everyPage = async (read: (cursor?: string) => Promise<RecordPage<UsageRecord>>) => {
    const pages: UsageRecord[][] = []
    let cursor: string | undefined
    do {
      const page = await read(cursor)
      pages.push([...page.records])
      cursor = page.next
    } while (cursor !== undefined)
    return pages
  }

  it('S14 of a resource leaves out runs, whose tokens their entity has delegated', async () => {
    const run = runEntity('3kTq0vBn2aE')
    await putAll(['user-1', run, 'zael.runner'].map(entity => item(entity, 'llm', 'hourly', MIDNIGHT, {usd: 5})))
    const usage = new Usage(tenant)
    expect((await usage.ofResource('llm')).records.map(labelOf).sort()).toEqual(
      ['user-1', 'zael.runner'].map(entity => `${entity} llm hourly ${windowStart('hourly', MIDNIGHT)}`),
    )
    expect((await usage.ofEntity(run)).records).toHaveLength(1)
  })

  describe('around a midnight that begins an hour, a day and a month', () => {
    beforeEach(async () => {
      const windows = ['hourly', 'daily', 'monthly'] as const
      for (const window of windows) await put(tenant, item('e', 'r', window, MIDNIGHT, {rpm: 1}))
      await put(tenant, item('e', 'r', 'hourly', MIDNIGHT - HOUR, {rpm: 1}))
      await put(tenant, item('e', 'r', 'hourly', MIDNIGHT + HOUR, {rpm: 1}))
      await put(tenant, item('e', 'r', 'daily', MIDNIGHT - DAY, {rpm: 1}))
      await put(tenant, item('e', 'r', 'monthly', MIDNIGHT - DAY, {rpm: 1}))
      // Names that begin alike must not get mixed up.
      await put(tenant, item('e', 'r-2', 'hourly', MIDNIGHT, {rpm: 1}), item('e2', 'r', 'hourly', MIDNIGHT, {rpm: 1}))
    })

    const queries: [string, (selection: object) => Promise<RecordPage<UsageRecord>>][] = [
      ['entity and resource', selection => new Usage(tenant).ofEntity('e', {resource: 'r', ...selection})],
      [
        'resource',
        async selection => {
          const page = await new Usage(tenant).ofResource('r', selection)
          return {...page, records: page.records.filter(({entity}) => entity === 'e')}
        },
      ],
    ]

    it.each(queries)('returns all windows by %s, newest first', async (_, read) => {
      const {records, next} = await read({})
      expect(next).toBeUndefined()
      expect(records.map(({start}) => start)).toEqual(
        records
          .map(({start}) => start)
          .toSorted()
          .toReversed(),
      )
      expect(records.map(labelOf).toSorted()).toEqual([
        'e r daily 2027-01-31T00:00:00Z',
        'e r daily 2027-02-01T00:00:00Z',
        'e r hourly 2027-01-31T23:00:00Z',
        'e r hourly 2027-02-01T00:00:00Z',
        'e r hourly 2027-02-01T01:00:00Z',
        'e r monthly 2027-01-01T00:00:00Z',
        'e r monthly 2027-02-01T00:00:00Z',
      ])
    })

    it.each(queries)('separates the types by %s', async (_, read) => {
      const starts = async (window: Window) => (await read({window})).records.map(({start}) => start)
      expect(await starts('hourly')).toEqual(['2027-02-01T01:00:00Z', '2027-02-01T00:00:00Z', '2027-01-31T23:00:00Z'])
      expect(await starts('daily')).toEqual(['2027-02-01T00:00:00Z', '2027-01-31T00:00:00Z'])
      expect(await starts('monthly')).toEqual(['2027-02-01T00:00:00Z', '2027-01-01T00:00:00Z'])
    })

    it.each(queries)('takes windows that touch the time range, by %s', async (_, read) => {
      const find = async (sinceMs: number | undefined, untilMs: number | undefined) =>
        (await read({sinceMs, untilMs})).records.map(({window, start}) => `${window} ${start.slice(5, 13)}`).toSorted()
      expect(await find(MIDNIGHT + 30 * 60_000, undefined)).toEqual([
        'daily 02-01T00',
        'hourly 02-01T00',
        'hourly 02-01T01',
        'monthly 02-01T00',
      ])
      expect(await find(MIDNIGHT - 1, MIDNIGHT)).toEqual(['daily 01-31T00', 'hourly 01-31T23', 'monthly 01-01T00'])
      expect(await find(MIDNIGHT, MIDNIGHT + 1)).toEqual(['daily 02-01T00', 'hourly 02-01T00', 'monthly 02-01T00'])
      expect(await find(undefined, MIDNIGHT - DAY)).toEqual(['monthly 01-01T00'])
      expect(await find(MIDNIGHT + 40 * DAY, undefined)).toEqual([])
      await expect(find(5, 5)).rejects.toMatchObject({code: 'usage.range', kind: 'usage'})
    })

    it('sorts the resources of an entity into one listing', async () => {
      const {records} = await new Usage(tenant).ofEntity('e', {window: 'hourly'})
      expect(records.map(labelOf)).toEqual([
        'e r hourly 2027-02-01T01:00:00Z',
        'e r-2 hourly 2027-02-01T00:00:00Z',
        'e r hourly 2027-02-01T00:00:00Z',
        'e r hourly 2027-01-31T23:00:00Z',
      ])
    })
  })

  describe('after an aggregator of zae-limiter and one of zael, one after the other', () => {
    beforeEach(async () => {
      // Each has counted a part of the day and of the month.
      await put(tenant, pythonItem('e', 'r', 'monthly', MIDNIGHT, {rpm: 500, tpm: 7}))
      await put(tenant, item('e', 'r', 'monthly', MIDNIGHT, {rpm: 40, old: 1}))
      await put(tenant, item('e', 'r', 'daily', MIDNIGHT, {rpm: 9}))
      await put(tenant, pythonItem('e', 'r', 'daily', MIDNIGHT + DAY, {rpm: 20}))
      await put(tenant, {...item('e', 'r', 'daily', MIDNIGHT + DAY, {rpm: 3}), 'rpm#od': {N: '2'}})
      await put(tenant, item('e', 'r', 'hourly', MIDNIGHT + 5 * HOUR, {rpm: 3}))
      await put(tenant, item('e2', 'r', 'daily', MIDNIGHT + DAY, {rpm: 1}))
    })

    const read = (usage: Usage) => [
      (selection: object) => usage.ofEntity('e', {resource: 'r', ...selection}),
      (selection: object) => usage.ofEntity('e', selection),
      async (selection: object) => {
        const page = await usage.ofResource('r', selection)
        return {...page, records: page.records.filter(({entity}) => entity === 'e')}
      },
    ]

    it('returns a window once, with the sum of both', async () => {
      for (const windows of read(new Usage(tenant))) {
        const {records} = await windows({})
        expect(
          records.map(({window, start, tokens}) => [window, start.slice(0, 13), Object.fromEntries(tokens)]),
        ).toEqual([
          ['daily', '2027-02-02T00', {rpm: 23}],
          ['hourly', '2027-02-01T05', {rpm: 3}],
          ['daily', '2027-02-01T00', {rpm: 9}],
          ['monthly', '2027-02-01T00', {rpm: 540, tpm: 7, old: 1}],
        ])
        const [day] = (await windows({window: 'daily'})).records
        expect(day).toMatchObject({totalEvents: 2, overdrawn: new Map([['rpm', 2]])})
      }
      const {windows, limits} = await new Usage(tenant).summary({entity: 'e', resource: 'r', window: 'daily'})
      expect({windows, rpm: limits.get('rpm')}).toMatchObject({windows: 2, rpm: {total: 32, average: 16, overdrawn: 2}})
    })

    it('never ends a page within a window', async () => {
      for (const pageSize of [1, 2, 250]) {
        for (const windows of read(new Usage(tenant, {pageSize}))) {
          const whole = (await windows({})).records
          for (const limit of [1, 2, 3]) {
            const paged = (await everyPage(cursor => windows({limit, cursor}))).flat()
            expect(paged).toEqual(whole)
          }
        }
      }
    })
  })

  it('finds the records of the Python aggregator by the type in their attributes', async () => {
    await put(tenant, pythonItem('e', 'r', 'daily', MIDNIGHT, {rpm: 24}))
    await put(tenant, pythonItem('e', 'r', 'hourly', MIDNIGHT + HOUR, {rpm: 1}))
    const usage = new Usage(tenant)
    const reads = [
      (window: Window) => usage.ofEntity('e', {resource: 'r', window}),
      (window: Window) => usage.ofEntity('e', {window, sinceMs: MIDNIGHT + 2 * HOUR}),
      (window: Window) => usage.ofResource('r', {window}),
    ]
    for (const read of reads)
      expect((await read('daily')).records.map(labelOf)).toEqual(['e r daily 2027-02-01T00:00:00Z'])
    expect((await usage.ofResource('r', {window: 'hourly'})).records).toHaveLength(1)
    expect((await usage.ofResource('r', {window: 'monthly'})).records).toEqual([])
  })

  describe('over many pages', () => {
    const DAYS = 12
    let many: TestTenant
    beforeAll(async () => {
      many = newTenant(table)
      tenant = many
      const items: Item[] = []
      for (const resource of ['a', 'b', 'c'])
        for (let hour = 0; hour < DAYS * 24; hour++) {
          items.push(item('e', resource, 'hourly', MIDNIGHT + hour * HOUR, {rpm: 1}))
          if (hour % 24 === 0) items.push(item('e', resource, 'daily', MIDNIGHT + hour * HOUR, {rpm: 24}))
        }
      await putAll(items)
    })
    beforeEach(() => {
      tenant = many
    })

    it('does not return an empty page while later pages match', async () => {
      // Every request looks at 7 items; the only match lies behind all others.
      const usage = new Usage(tenant, {pageSize: 7})
      await put(tenant, item('late', 'r', 'monthly', MIDNIGHT, {rpm: 5}))
      await putAll(
        Array.from({length: 200}, (_, hour) => item('late', 'r', 'hourly', MIDNIGHT + (hour + 1) * HOUR, {rpm: 1})),
      )
      tenant.transport.calls.length = 0
      const {records, next} = await usage.ofEntity('late', {resource: 'r', window: 'monthly', limit: 1})
      expect([records.map(labelOf), next]).toEqual([['late r monthly 2027-02-01T00:00:00Z'], undefined])
      expect(tenant.transport.count('Query')).toBeGreaterThan(200 / 7)
      expect((await usage.ofEntity('late', {window: 'monthly', limit: 1})).records).toHaveLength(1)
      expect((await usage.ofResource('r', {window: 'monthly', limit: 1})).records).toHaveLength(1)
    })

    it.each([1, 5, 12, 36, 1000])('gives every record once, in order, in pages of %i', async limit => {
      const usage = new Usage(tenant, {pageSize: 20})
      const reads = [
        (cursor?: string) => usage.ofEntity('e', {window: 'daily', limit, cursor}),
        (cursor?: string) => usage.ofEntity('e', {resource: 'b', window: 'daily', limit, cursor}),
        (cursor?: string) => usage.ofResource('b', {window: 'daily', limit, cursor}),
      ]
      for (const [at, read] of reads.entries()) {
        const pages = await everyPage(read)
        const all = pages.flat()
        const count = at === 0 ? 3 * DAYS : DAYS
        expect(new Set(all.map(labelOf)).size).toBe(count)
        expect(all).toHaveLength(count)
        expect(pages).toHaveLength(Math.ceil(count / limit))
        expect(all.map(({start}) => start)).toEqual(
          all
            .map(({start}) => start)
            .toSorted()
            .toReversed(),
        )
      }
    })

    it('continues in the middle of windows that begin together', async () => {
      const usage = new Usage(tenant)
      const whole = (await usage.ofEntity('e')).records.map(labelOf)
      const paged = (await everyPage(cursor => usage.ofEntity('e', {limit: 100, cursor}))).flat().map(labelOf)
      expect(paged).toEqual(whole)
      const ofResource = (await usage.ofResource('c')).records.map(labelOf)
      const pagedResource = (await everyPage(cursor => usage.ofResource('c', {limit: 7, cursor}))).flat().map(labelOf)
      expect(pagedResource).toEqual(ofResource)
      expect(ofResource).toHaveLength(DAYS * 25)
    })

    it('adds up one type of window', async () => {
      await put(tenant, item('f', 'a', 'hourly', MIDNIGHT, {rpm: 10, tpm: -3}))
      const usage = new Usage(tenant, {pageSize: 50})
      const hours = 3 * DAYS * 24
      expect(await usage.summary({entity: 'e'})).toEqual({
        window: 'hourly',
        windows: hours,
        totalEvents: hours,
        firstStart: '2027-02-01T00:00:00Z',
        lastStart: '2027-02-12T23:00:00Z',
        limits: new Map([['rpm', {total: hours, average: 1, windows: hours, overdrawn: 0}]]),
      })
      expect((await usage.summary({entity: 'e', resource: 'a', window: 'daily'})).limits).toEqual(
        new Map([['rpm', {total: DAYS * 24, average: 24, windows: DAYS, overdrawn: 0}]]),
      )
      const first = {sinceMs: MIDNIGHT, untilMs: MIDNIGHT + HOUR}
      expect((await usage.summary({resource: 'a', ...first})).limits).toEqual(
        new Map([
          ['rpm', {total: 11, average: 5.5, windows: 2, overdrawn: 0}],
          ['tpm', {total: -3, average: -3, windows: 1, overdrawn: 0}],
        ]),
      )
      await expect(usage.summary({})).rejects.toMatchObject({code: 'usage.subject', kind: 'usage'})
    })
  })

  it('reads more than a megabyte', async () => {
    const filler = {S: 'x'.repeat(4000)}
    const items = Array.from({length: 400}, (_, hour) => ({
      ...item('e', 'r', 'hourly', MIDNIGHT + hour * HOUR, {rpm: 1}),
      filler,
    }))
    await putAll([...items, item('e', 'r', 'daily', MIDNIGHT, {rpm: 24})])
    const usage = new Usage(tenant, {pageSize: 100_000})
    expect((await usage.ofEntity('e', {resource: 'r', window: 'daily', limit: 1})).records).toHaveLength(1)
    expect((await usage.ofEntity('e')).records).toHaveLength(401)
    expect((await usage.ofResource('r')).records).toHaveLength(401)
    expect((await usage.summary({resource: 'r'})).windows).toBe(400)
  })

  it('refuses a cursor of another listing or namespace, and a page of no records', async () => {
    const other = newTenant(table)
    const usage = new Usage(tenant)
    await put(tenant, item('e', 'r', 'hourly', MIDNIGHT, {rpm: 1}), item('e', 'r', 'hourly', MIDNIGHT + HOUR, {rpm: 1}))
    const {next: ofEntity} = await usage.ofEntity('e', {limit: 1})
    const {next: ofResource} = await usage.ofResource('r', {limit: 1})
    for (const cursor of ['nonsense', ofResource as string])
      await expect(usage.ofEntity('e', {cursor})).rejects.toMatchObject({code: 'page.cursor', kind: 'usage'})
    await expect(usage.ofResource('r', {cursor: ofEntity})).rejects.toMatchObject({code: 'page.cursor'})
    await expect(new Usage(other).ofResource('r', {cursor: ofResource})).rejects.toMatchObject({code: 'page.cursor'})
    await expect(usage.ofEntity('e', {limit: 0})).rejects.toMatchObject({code: 'page.limit'})
    expect((await new Usage(other).ofEntity('e')).records).toEqual([])
    expect((await usage.ofEntity('unknown')).records).toEqual([])
  })
})
