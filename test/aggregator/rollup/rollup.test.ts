import {randomUUID} from 'node:crypto'
import {beforeEach, describe, expect, it} from 'vitest'
import {DEFAULT_SETTINGS} from '../../../src/lib/aggregator/environment.js'
import {replay} from '../../../src/lib/aggregator/replay.js'
import type {StreamRecord} from '../../../src/lib/aggregator/stream-event.js'
import {Denied, Unavailable} from '../../../src/lib/dynamo/errors.js'
import {verifyTable} from '../../../src/lib/insight/verify/verify.js'
import {classifyItem} from '../../../src/lib/migrate/records/classify.js'
import {Usage} from '../../../src/lib/repository/usage/usage.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {Interceptor} from '../../repository/namespace-table.js'
import {usageItems, usageOf} from '../fixtures/stored-usage.js'
import {bucketImage, streamRecord} from '../fixtures/stream.js'
import {ALWAYS, agendaOf, aggregatorOn, DAY_MS, HOUR_MS, inNamespace, store} from './rolled-table.js'

/** The first second of the last day of a month. */
const DAY_START_MS = Date.UTC(2023, 10, 30)
const DAY_END_MS = DAY_START_MS + DAY_MS
const MONTH_SWEPT_MS = DAY_END_MS + 2 * HOUR_MS
const DAY = 'daily 2023-11-30T00:00:00Z'
const MONTH = 'monthly 2023-11-01T00:00:00Z'

describeOnBoth('rolling up', {}, table => {
  let namespace: string
  let nowMs: number
  let sequence: number
  const counters = new Map<string, number>()
  const clock = () => nowMs

  beforeEach(async () => {
    namespace = `ns${randomUUID().slice(0, 8)}`
    nowMs = DAY_START_MS + HOUR_MS
    sequence = 1000
    counters.clear()
    await store(table.transport, table.name, ALWAYS)
  })

  const aggregator = (transport: {send: Interceptor['send']} = table.transport) =>
    aggregatorOn(transport as never, table.name, clock)

  /** The record of one request that took this many tokens. */
  function used(tokens: number, atMs: number, entity = 'user-1'): StreamRecord {
    const before = counters.get(entity) ?? 0
    counters.set(entity, before + tokens)
    const image = (total: number) => bucketImage({namespace, entity, tc: {tpm: total * 1000}, rq: total})
    return streamRecord(before === 0 ? undefined : image(before), image(before + tokens), {atMs, sequence: sequence++})
  }

  async function sweepAt(atMs: number, by = aggregator()): Promise<void> {
    nowMs = atMs
    await by.tick()
  }

  const stored = () => usageOf(table, namespace)
  const rolledDay = async (): Promise<Item | undefined> =>
    (await usageItems(table, namespace)).find(({SK}) => SK && 'S' in SK && SK.S.endsWith('#daily'))
  const shown = async (window: 'daily' | 'monthly', entity = 'user-1') => {
    const usage = new Usage(inNamespace(table.transport, table.name, namespace))
    const {records} = await usage.ofEntity(entity, {window})
    return records.map(({start, tokens}) => `${start} ${tokens.get('tpm') ?? 0}`)
  }

  it('costs one write per bucket and batch; a day and a month come when they are over', async () => {
    const {handle} = aggregator()
    const {counts} = await handle({Records: [used(3, nowMs), used(4, nowMs)]})
    expect(counts).toMatchObject({snapshots: 1, rolledUp: 0, errors: 0})
    expect(Object.keys(await stored())).toEqual(['hourly 2023-11-30T01:00:00Z'])
    expect(await shown('daily')).toEqual(['2023-11-30T00:00:00Z 7'])
    expect(await shown('monthly')).toEqual(['2023-11-01T00:00:00Z 7'])
    nowMs += HOUR_MS
    await handle({Records: [used(5, nowMs)]})
    expect(await agendaOf(aggregator().table, namespace)).toEqual([`${DAY} gpt-4`, `${MONTH} gpt-4`])
    await sweepAt(DAY_END_MS + 4 * 60_000)
    expect((await stored())[DAY]).toBeUndefined()
    await sweepAt(DAY_END_MS + 5 * 60_000)
    expect((await stored())[DAY]).toEqual({tpm: 12, events: 12})
    expect((await stored())[MONTH]).toBeUndefined()
    expect(await agendaOf(aggregator().table, namespace)).toEqual([`${MONTH} gpt-4`])
    await sweepAt(MONTH_SWEPT_MS)
    expect((await stored())[MONTH]).toEqual({tpm: 12, events: 12})
    expect(await agendaOf(aggregator().table, namespace)).toEqual([])
    expect(await shown('daily')).toEqual(['2023-11-30T00:00:00Z 12'])
  })

  it('leaves a record of the layout that other clients expect, as if it had been counted directly', async () => {
    const record = used(5, nowMs)
    await aggregator().handle({Records: [record]})
    const expires = Math.floor(nowMs / 1000) + 90 * 86_400
    await sweepAt(DAY_END_MS + HOUR_MS / 2)
    const position = record.dynamodb.SequenceNumber.padStart(40, '0')
    expect(await rolledDay()).toEqual({
      PK: s(`${namespace}/ENTITY#user-1`),
      SK: s('#USAGE#gpt-4#2023-11-30T00:00:00Z#daily'),
      entity_id: s('user-1'),
      resource: s('gpt-4'),
      window: s('daily'),
      window_start: s('2023-11-30T00:00:00Z'),
      tpm: n(5),
      total_events: n(5),
      GSI2PK: s(`${namespace}/RESOURCE#gpt-4`),
      GSI2SK: s('USAGE#2023-11-30T00:00:00Z#user-1'),
      GSI4PK: s(namespace),
      GSI4SK: s(`${namespace}/ENTITY#user-1`),
      ttl: n(expires),
      _seq_0: s(`2026-01-01T00:00:00.000#${position}`),
      _rolled: s('1'),
    })
  })

  it('follows a record that comes late, at once, and its repetition changes nothing', async () => {
    const first = aggregator()
    await first.handle({Records: [used(3, nowMs)]})
    await sweepAt(MONTH_SWEPT_MS, first)
    const late = [used(4, DAY_END_MS - 1000)]
    nowMs = MONTH_SWEPT_MS + HOUR_MS
    expect((await first.handle({Records: late})).counts).toMatchObject({snapshots: 1, rolledUp: 2})
    expect((await first.handle({Records: late})).counts).toMatchObject({snapshots: 0, rolledUp: 0})
    expect(await stored()).toMatchObject({[DAY]: {tpm: 7}, [MONTH]: {tpm: 7}})
  })

  it('rolls up on the repetition what a process that died had counted and not rolled up', async () => {
    await aggregator().handle({Records: [used(3, nowMs)]})
    await sweepAt(MONTH_SWEPT_MS)
    const late = [used(4, DAY_END_MS - 1000)]
    for (const dying of ['PutItem', 'Query'] as const) {
      const wire = new Interceptor(table.transport)
      wire.before = operation => {
        if (operation === dying) throw new Denied(operation, undefined)
      }
      expect((await aggregator(wire).handle({Records: late})).failures).toHaveLength(1)
    }
    expect(await stored()).toMatchObject({[DAY]: {tpm: 3}, [MONTH]: {tpm: 3}})
    expect((await aggregator().handle({Records: late})).counts).toMatchObject({snapshots: 0, rolledUp: 2})
    expect(await stored()).toMatchObject({[DAY]: {tpm: 7}, [MONTH]: {tpm: 7}})
  })

  describe('ends in the right sum', () => {
    const ENTITIES = ['user-1', 'user-2', 'user-3']

    async function scene(): Promise<void> {
      await aggregator().handle({Records: ENTITIES.map((entity, at) => used(at + 1, nowMs, entity))})
      nowMs += HOUR_MS
      await aggregator().handle({Records: ENTITIES.map(entity => used(10, nowMs, entity))})
    }

    async function expectDone(): Promise<void> {
      for (const [at, entity] of ENTITIES.entries()) {
        const usage = await usageOf(table, namespace, entity)
        expect(usage).toMatchObject({[DAY]: {tpm: 11 + at}, [MONTH]: {tpm: 11 + at}})
      }
      expect(await agendaOf(aggregator().table, namespace)).toEqual([])
    }

    it.each(['before', 'after'] as const)(
      'when the process dies at any of its calls, %s it is carried out',
      async when => {
        await scene()
        nowMs = MONTH_SWEPT_MS
        for (let at = 0; ; at++) {
          const wire = new Interceptor(table.transport)
          const die = () => {
            if (wire.calls.length > at) throw new Denied('UpdateItem', undefined)
          }
          wire[when] = die
          await aggregator(wire).tick()
          nowMs += 200_000
          if (wire.calls.length <= at) break
          expect(at).toBeLessThan(200)
        }
        await expectDone()
      },
    )

    it('when answers are lost', async () => {
      await scene()
      const wire = new Interceptor(table.transport)
      wire.after = operation => {
        if (['PutItem', 'UpdateItem', 'DeleteItem'].includes(operation) && wire.calls.length % 2 === 0)
          throw new Unavailable(operation, true, undefined)
      }
      await sweepAt(MONTH_SWEPT_MS, aggregator(wire))
      await sweepAt(MONTH_SWEPT_MS + 200_000)
      await expectDone()
    })

    it.each([
      ['GetItem', 'after'],
      ['Query', 'after'],
      ['PutItem', 'before'],
    ] as const)('when a late record is counted and rolled up in the middle of it: %s, %s it', async (call, when) => {
      await scene()
      const late = [used(100, DAY_END_MS - 1000)]
      const wire = new Interceptor(table.transport)
      let isDone = false
      const meanwhile = async (input: unknown) => {
        if (isDone || !JSON.stringify(input).includes('/ENTITY#user-1')) return
        isDone = true
        expect((await aggregator().handle({Records: late})).counts.rolledUp).toBeGreaterThan(0)
      }
      if (when === 'before') wire.before = (operation, input) => (operation === call ? meanwhile(input) : undefined)
      else wire.after = (operation, _, input) => (operation === call ? meanwhile(input) : undefined)
      await sweepAt(MONTH_SWEPT_MS, aggregator(wire))
      expect(isDone).toBe(true)
      expect(await stored()).toMatchObject({[DAY]: {tpm: 111}, [MONTH]: {tpm: 111}})
    })

    it('when two late records are rolled up at the same time in a day that was rolled up before', async () => {
      await scene()
      await sweepAt(MONTH_SWEPT_MS)
      const [one, other] = [[used(100, DAY_END_MS - 2000)], [used(1000, DAY_END_MS - 1000)]]
      const wire = new Interceptor(table.transport)
      wire.before = async operation => {
        if (operation === 'PutItem' && wire.count('PutItem') === 1) await aggregator().handle({Records: other})
      }
      await aggregator(wire).handle({Records: one})
      expect(await stored()).toMatchObject({[DAY]: {tpm: 1111}, [MONTH]: {tpm: 1111}})
    })

    it('when two processes sweep at the same time, and one takes over from another that hangs', async () => {
      await scene()
      nowMs = MONTH_SWEPT_MS
      const sweepers = [aggregator(), aggregator(), aggregator()]
      await Promise.all(sweepers.map(each => each.tick()))
      await expectDone()
      expect(sweepers.flatMap(({lines}) => lines)).toEqual([])
    })
  })

  it('leaves what is another process’s alone until its time is over', async () => {
    await aggregator().handle({Records: [used(3, nowMs)]})
    nowMs = DAY_END_MS + 5 * 60_000
    const wire = new Interceptor(table.transport)
    wire.before = operation => {
      if (operation === 'PutItem') throw new Denied(operation, undefined)
    }
    await aggregator(wire).tick()
    await sweepAt(nowMs + 60_000)
    expect((await stored())[DAY]).toBeUndefined()
    await sweepAt(nowMs + 180_000)
    expect((await stored())[DAY]).toMatchObject({tpm: 3})
  })

  it('leaves records of other clients alone, and readers show both', async () => {
    const Item = encodeUsage({
      ...{namespace, entity: 'user-1', resource: 'gpt-4', window: 'daily', start: '2023-11-30T00:00:00Z'},
      ...{tokens: new Map([['tpm', 40]]), totalEvents: 9, ttlSeconds: undefined},
    })
    await table.transport.send('PutItem', {TableName: table.name, Item})
    await aggregator().handle({Records: [used(3, nowMs)]})
    await sweepAt(MONTH_SWEPT_MS)
    expect(await rolledDay()).toEqual(Item)
    expect(await shown('daily')).toEqual(['2023-11-30T00:00:00Z 43'])
    expect(await shown('monthly')).toEqual(['2023-11-01T00:00:00Z 3'])
  })

  it('does not trust a day that an older aggregator has counted in part, and puts it right', async () => {
    await aggregator().handle({Records: [used(3, nowMs)]})
    const Item = {
      ...encodeUsage({
        ...{namespace, entity: 'user-1', resource: 'gpt-4', window: 'daily', start: '2023-11-30T00:00:00Z'},
        ...{tokens: new Map([['tpm', 1]]), totalEvents: 1, ttlSeconds: undefined},
      }),
      _seq_0: s('2026-01-01T00:00:00.000#1'),
    } as Item
    await table.transport.send('PutItem', {TableName: table.name, Item})
    expect(await shown('daily')).toEqual(['2023-11-30T00:00:00Z 3'])
    await sweepAt(DAY_END_MS + 5 * 60_000)
    expect((await stored())[DAY]).toEqual({tpm: 3, events: 3})
  })

  it('creates nothing for an entity whose usage was deleted meanwhile', async () => {
    await aggregator().handle({Records: [used(3, nowMs)]})
    const {PK, SK} = keys.usage(namespace, 'user-1', 'gpt-4', 'hourly', '2023-11-30T01:00:00Z')
    await table.transport.send('DeleteItem', {TableName: table.name, Key: {PK: s(PK), SK: s(SK)}})
    await sweepAt(MONTH_SWEPT_MS)
    expect(await usageItems(table, namespace)).toEqual([])
    expect(await agendaOf(aggregator().table, namespace)).toEqual([])
  })

  it('does not make a day smaller whose first hours have expired', async () => {
    await aggregator().handle({Records: [used(3, nowMs)]})
    nowMs += HOUR_MS
    await aggregator().handle({Records: [used(4, nowMs)]})
    await sweepAt(DAY_END_MS + 5 * 60_000)
    const {PK, SK} = keys.usage(namespace, 'user-1', 'gpt-4', 'hourly', '2023-11-30T01:00:00Z')
    await table.transport.send('DeleteItem', {TableName: table.name, Key: {PK: s(PK), SK: s(SK)}})
    nowMs = DAY_START_MS + HOUR_MS + 90 * DAY_MS + 1000
    await aggregator().handle({Records: [used(5, DAY_START_MS + 3 * HOUR_MS)]})
    expect((await stored())[DAY]).toMatchObject({tpm: 7})
  })

  it('follows records that were given up on and are replayed, and enters what is not over', async () => {
    await aggregator().handle({Records: [used(3, nowMs)]})
    await sweepAt(MONTH_SWEPT_MS)
    const [late, running] = [used(4, DAY_END_MS - 1000), used(5, nowMs)]
    const settings = {...DEFAULT_SETTINGS, archives: false}
    for (const counted of [4, 0]) {
      const outcome = await replay(aggregator().table, {Records: [late, running]}, settings, () => {})
      expect(outcome).toMatchObject({counted, undecided: []})
      expect(await stored()).toMatchObject({[DAY]: {tpm: 7}, [MONTH]: {tpm: 7}})
    }
    expect(await shown('daily')).toEqual(['2023-12-01T00:00:00Z 5', '2023-11-30T00:00:00Z 7'])
    const next = ['daily 2023-12-01T00:00:00Z gpt-4', 'monthly 2023-12-01T00:00:00Z gpt-4']
    expect(await agendaOf(aggregator().table, namespace)).toEqual(next)
  })

  it('leaves nothing that verify or migrate does not know', async () => {
    await aggregator().handle({Records: [used(3, nowMs)]})
    const {Items = []} = await table.transport.send('Scan', {TableName: table.name})
    const registry = Items.filter(({PK}) => PK && 'S' in PK && PK.S === '_/SYSTEM#')
    expect(registry.length).toBeGreaterThan(2)
    for (const item of registry) expect(classifyItem(item)).toMatchObject({kind: 'current', namespace: '_'})
    const report = await verifyTable(aggregator().table)
    const unknown = report.findings.filter(({kind, key}) => kind === 'unknown' || key.startsWith('_/'))
    expect(unknown).toEqual([])
  })
})
