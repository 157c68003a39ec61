import {beforeAll, expect, it} from 'vitest'
import {surveyTable} from '../../../src/lib/migrate/survey.js'
import {type Item, n, readNumber, s} from '../../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../../helpers/table.js'
import {AddingClient, oldBucketItem} from '../old-clients.js'
import {keyText, type OldTableScene, useOldTable, VERSION} from '../old-table-scene.js'

/** Incomplete buckets, each of another entity. */
const unreadable = (nowMs: number): Item[] => {
  const bucket = (entity: string, layout: 'composite' | 'per limit', change: Item): Item => ({
    ...oldBucketItem(`ENTITY#${entity}`, 60, nowMs, layout),
    ...change,
  })
  const {rf: _, ...timeless} = bucket('timeless', 'composite', {})
  const {b_rpm_tk: __, ...empty} = bucket('no-balance', 'composite', {b_tpm_tk: n(1000)})
  return [
    bucket('no-refill', 'per limit', {refill_amount_milli: n(0), tokens_milli: n(-5000)}),
    bucket('no-refill-2', 'composite', {b_rpm_ra: n(0)}),
    bucket('one-limit', 'composite', {
      b_total_tk: n(-7000),
      b_total_cp: n(100_000),
      b_total_ra: n(0),
      b_total_rp: n(60_000),
      b_total_tc: n(0),
    }),
    bucket('text', 'composite', {
      b_tpm_tk: s('90000'),
      b_tpm_cp: n(100_000),
      b_tpm_ra: n(100_000),
      b_tpm_rp: n(60_000),
      b_tpm_tc: n(0),
    }),
    // Remaining counters of a bucket without a new one.
    {PK: s('ENTITY#ghost'), SK: s('#BUCKET#gpt-4'), b_rpm_tk: n(-4000), b_rpm_tc: n(4000)},
    timeless,
    empty,
  ]
}

/** Two limits with an item each, one of which cannot be read. */
const half = (nowMs: number): Item[] => {
  const good = oldBucketItem('ENTITY#half', 60, nowMs, 'per limit')
  return [good, {...good, SK: s('#BUCKET#gpt-4#total'), limit_name: s('total'), refill_amount_milli: n(0)}]
}

const newBucketOf = async (scene: OldTableScene, entity: string): Promise<Item> =>
  (await scene.items()).find(item => (item.PK as {S: string}).S.endsWith(`/BUCKET#${entity}#gpt-4#0`)) ?? {}

describeOnEngine('buckets that cannot be read', () => {
  const scene = useOldTable(4, ({nowMs}) => [
    ...unreadable(nowMs),
    ...half(nowMs),
    oldBucketItem('ENTITY#good', 60, nowMs, 'composite'),
  ])
  let strange: Item[] = []
  beforeAll(async () => {
    strange = (await scene.items()).filter(item => !keyText(item).includes('good'))
  })

  it('are counted as unknown by a survey', async () => {
    const found = await surveyTable(scene.table, {ourVersion: VERSION})
    expect(found.unknown.items).toBe(strange.length)
    expect(found.unknown.keys).toContain('ENTITY#half #BUCKET#gpt-4#rpm')
    expect(found.old).toMatchObject([{type: 'bucket', items: 1, records: 1, pending: 1, expired: 0}])
    expect(found.items).toBe(strange.length + 1)
  })

  it('are listed and not changed by any command', async () => {
    const result = await scene.migrate()
    expect(result).toMatchObject({finished: true, settled: true, unknown: {count: strange.length}})
    expect(result.unknown.shown).toContain('ENTITY#no-refill #BUCKET#gpt-4#rpm')
    expect((await scene.census()).current.bucket).toBe(1)
    expect(await scene.verify()).toMatchObject({clean: true, expired: 0, checked: {bucket: 1}, unknown: result.unknown})
    const {deleted, left, unknown} = await scene.cleanUp()
    expect({deleted, left: left.count, unknown: unknown.count}).toEqual({
      deleted: {bucket: 1},
      left: 0,
      unknown: strange.length,
    })
    const after = new Map((await scene.items()).map(item => [keyText(item), item]))
    for (const item of strange) expect(after.get(keyText(item))).toEqual(item)
  })

  it('are counted as expired once they have expired', async () => {
    const ttl = n(Math.floor(scene.nowMs / 1000) - 1)
    for (const item of strange) await scene.own.send('PutItem', {TableName: scene.name, Item: {...item, ttl}})
    expect(await scene.verify()).toMatchObject({clean: true, expired: strange.length, unknown: {count: 0}})
  })
})

describeOnEngine('counters that an adjustment leaves of a deleted old bucket', () => {
  const scene = useOldTable(3, ({nowMs}) => [oldBucketItem('ENTITY#late', 60, nowMs, 'composite')])
  const client = new AddingClient(
    {transport: scene.own, TableName: scene.name, clock: () => scene.nowMs},
    'ENTITY#late',
  )
  const balance = async () => readNumber(await newBucketOf(scene, 'late'), 'b_rpm_tk')

  it('are charged to the new bucket, once', async () => {
    await scene.migrate()
    await scene.cleanUp()
    expect(await balance()).toBe(60_000)
    await client.adjust(500)
    expect((await scene.verify()).differences.shown).toMatchObject([{key: 'ENTITY#late #BUCKET#gpt-4'}])
    await scene.migrate()
    expect(await balance()).toBe(-440_000)
    expect((await scene.migrate()).steps.every(({written}) => written === 0)).toBe(true)
    expect(await scene.verify()).toMatchObject({clean: true, expired: 0, unknown: {count: 0}})
  })

  it('are charged again only for additions, and are deleted with the mark', async () => {
    await client.adjust(-20)
    await scene.migrate()
    expect(await balance()).toBe(-420_000)
    expect(await scene.cleanUp()).toMatchObject({deleted: {bucket: 1}, left: {count: 0}})
    expect(await newBucketOf(scene, 'late')).not.toHaveProperty('mg')
    await client.adjust(1)
    await scene.migrate()
    expect(await balance()).toBe(-421_000)
  })
})
