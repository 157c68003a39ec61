import {expect, it} from 'vitest'
import {Unavailable} from '../../../src/lib/dynamo/errors.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {keyOf} from '../../../src/lib/schema/keys.js'
import {MIGRATION_MARK} from '../../../src/lib/schema/migration-marks.js'
import {decodeUsage} from '../../../src/lib/schema/usage-record.js'
import {describeOnEngine} from '../../helpers/table.js'
import {type OldTableScene, useOldTable} from '../old-table-scene.js'

/** A record of an old aggregator for one hour of June; every token is an event. */
const usage = (
  start: string,
  tokens: number,
  {window = 'hourly', ...rest}: {window?: string; ttl?: Item[string]} = {},
): Item => ({
  PK: s('ENTITY#user-1'),
  SK: s(`#USAGE#gpt-4#2026-06-${start}:00:00Z`),
  entity_id: s('user-1'),
  resource: s('gpt-4'),
  window: s(window),
  window_start: s(`2026-06-${start}:00:00Z`),
  rpm: n(tokens),
  total_events: n(tokens),
  ...rest,
})

const put = (scene: OldTableScene, Item: Item) => scene.own.send('PutItem', {TableName: scene.name, Item})

const drop = (scene: OldTableScene, {PK = s(''), SK = s('')}: Item) =>
  scene.own.send('DeleteItem', {TableName: scene.name, Key: {PK, SK}})

/** Tokens of the new records, by window. */
async function counted(scene: OldTableScene): Promise<Record<string, number | undefined>> {
  const records = (await scene.items()).flatMap(item => decodeUsage(item) ?? [])
  return Object.fromEntries(
    records.map(({window, start, tokens}) => [`${window} ${start.slice(8, 13)}`, tokens.get('rpm')]),
  )
}

describeOnEngine('usage of a table that counted hours only', () => {
  const hours = [usage('10T00', 100), usage('11T05', 30), usage('12T00', 50), usage('12T07', 20)]
  const scene = useOldTable(4, () => hours)
  const expected = {'hourly 10T00': 100, 'hourly 11T05': 30, 'hourly 12T00': 50, 'hourly 12T07': 20}

  it('is not changed', async () => {
    const {decisions} = await scene.migrate()
    expect(await counted(scene)).toEqual(expected)
    expect(decisions).toMatchObject({split: 0, keptAsLabelled: 2})
    expect((await scene.verify()).clean).toBe(true)
  })

  it('is not changed when the hour that showed it is gone', async () => {
    await drop(scene, hours[1] as Item)
    expect((await scene.verify()).differences.shown).toEqual([])
    expect((await scene.migrate()).decisions).toMatchObject({split: 0, keptAsLabelled: 2})
    expect(await counted(scene)).toEqual(expected)
  })
})

describeOnEngine('usage of a table that counted days too', () => {
  // 10th: 7 in the first hour, 10 and 4 later. 12th: 9 in the first hour only.
  const [midnight, five, nine, alone] = [usage('10T00', 28), usage('10T05', 10), usage('10T09', 4), usage('12T00', 18)]
  const scene = useOldTable(4, () => [midnight, five, nine, alone])
  const split = {
    'hourly 10T00': 7,
    'daily 10T00': 21,
    'hourly 10T05': 10,
    'hourly 10T09': 4,
    'hourly 12T00': 9,
    'daily 12T00': 9,
  }

  it('is split, even where the day itself does not show it', async () => {
    expect((await scene.migrate()).decisions).toMatchObject({split: 2, keptAsLabelled: 0})
    expect(await counted(scene)).toEqual(split)
  })

  it('stays split when hours expire one by one', async () => {
    await drop(scene, five)
    expect((await scene.verify()).differences.shown).toEqual([])
    await scene.migrate()
    expect(await counted(scene)).toEqual(split)
  })

  it('stays split when all evidence of it is gone', async () => {
    for (const item of [midnight, nine]) await drop(scene, item)
    expect(await scene.verify()).toMatchObject({clean: true, decisions: {split: 1}})
    await put(scene, usage('12T00', 20))
    await scene.migrate()
    expect(await counted(scene)).toMatchObject({'hourly 12T00': 10, 'daily 12T00': 10})
  })
})

describeOnEngine('usage that spans several pages', () => {
  // The label is on the first page, the last midnight on another.
  const days = [...Array(20).keys()].map(at => String(at + 2).padStart(2, '0'))
  const scene = useOldTable(4, () => [
    usage('02T00', 6, {window: 'daily'}),
    usage('02T03', 6),
    ...days.slice(1).map(day => usage(`${day}T00`, 4)),
  ])

  it('is read as a whole once in a pass', async () => {
    let whole = 0
    scene.transport = {
      send: (operation, input, options) => {
        if (operation === 'Query' && JSON.stringify(input).includes('"#USAGE#gpt-4#"')) whole++
        const request = operation === 'Scan' ? {...input, Limit: 4} : input
        return scene.own.send(operation, request as typeof input, options)
      },
    }
    await scene.migrate()
    whole = 0
    expect(await scene.verify()).toMatchObject({clean: true, decisions: {split: 19}})
    expect(whole).toBe(1)
    scene.transport = scene.own
    expect(await counted(scene)).toMatchObject({'hourly 21T00': 2, 'daily 21T00': 2})
  })
})

describeOnEngine('usage without a record in the new place', () => {
  const scene = useOldTable(4, () => [usage('10T03', 30), usage('11T05', 20)])

  it('is added once, when an aggregator is faster and when a response is lost', async () => {
    let answersLost = 0
    scene.transport = {
      send: async (operation, input, options) => {
        const {Item, TableName} = input as {Item?: Item; TableName?: string}
        const sortKey = operation === 'PutItem' ? keyOf(Item ?? {}).SK : ''
        if (sortKey.includes('10T03')) {
          const {rpm: _, total_events: __, [MIGRATION_MARK]: ___, ...record} = Item as Item
          const byAggregator = {...record, rpm: n(7), total_events: n(7)}
          const ConditionExpression = 'attribute_not_exists(PK)'
          await scene.own.send('PutItem', {TableName, Item: byAggregator, ConditionExpression}, options).catch(() => {})
        }
        const answer = await scene.own.send(operation, input, options)
        if (sortKey.includes('11T05') && answersLost++ === 0) throw new Unavailable(operation, true)
        return answer
      },
    }
    await scene.migrate()
    expect(answersLost).toBe(1)
    expect(await counted(scene)).toEqual({'hourly 10T03': 37, 'hourly 11T05': 20})
    expect((await scene.verify()).clean).toBe(true)
  })
})

describeOnEngine('usage with a counter named like another attribute of the record', () => {
  const scene = useOldTable(4, () => [{...usage('10T03', 30), window_start: n(5)}, usage('11T05', 20)])

  it('is not moved, unlike its neighbours', async () => {
    await scene.migrate()
    expect(await counted(scene)).toEqual({'hourly 11T05': 20})
    const {shown} = (await scene.verify()).differences
    expect(shown.map(({key}) => key)).toEqual([expect.stringContaining('10T03')])
  })
})
