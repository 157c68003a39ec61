import {expect, it} from 'vitest'
import {bucketMarksOf} from '../../../src/lib/migrate/records/marks.js'
import {type Item, n, readNumber} from '../../../src/lib/schema/attribute-value.js'
import {describeOnEngine} from '../../helpers/table.js'
import {AddingClient, oldBucketItem, PuttingClient} from '../old-clients.js'
import {type OldTableScene, useOldTable} from '../old-table-scene.js'

const DAY_MS = 86_400_000

const bucketAt = async (scene: OldTableScene, end: string): Promise<Item> =>
  (await scene.items()).find(({PK, SK}) => `${(PK as {S: string}).S} ${(SK as {S: string}).S}`.endsWith(end)) ?? {}

const balance = async (scene: OldTableScene): Promise<number | undefined> =>
  readNumber(await bucketAt(scene, '/BUCKET#user-1#gpt-4#0 #STATE'), 'b_rpm_tk')

describeOnEngine('a bucket that is stored in two layouts', () => {
  const scene = useOldTable(4, ({nowMs}) => [
    oldBucketItem('ENTITY#user-1', -900, nowMs - 1000, 'per limit'),
    oldBucketItem('ENTITY#user-1', 100, nowMs - 200 * DAY_MS, 'composite'),
  ])
  const where = {transport: scene.own, TableName: scene.name, clock: () => scene.nowMs}
  const putting = new PuttingClient(where, 'ENTITY#user-1')
  const adding = new AddingClient(where, 'ENTITY#user-1')

  it('keeps the debt of the one used last, and reports the decision', async () => {
    const {decisions} = await scene.migrate()
    expect(decisions.superseded).toBe(1)
    expect(await balance(scene)).toBe(-900_000)
  })

  it('is charged the later consumption of clients of either layout, each compared with its own mark', async () => {
    scene.nowMs += 10 * 60_000
    expect(await putting.acquire(3)).toBe(true)
    await scene.migrate()
    expect(await balance(scene)).toBe(-903_000)
    // The other is the one used last now; it has another counter and another balance.
    scene.nowMs += 1000
    expect(await adding.acquire(5)).toBe(true)
    expect((await scene.verify()).clean).toBe(false)
    await scene.migrate()
    expect(await balance(scene)).toBe(-908_000)
    scene.nowMs += 1000
    expect(await putting.acquire(7)).toBe(true)
    expect(await adding.acquire(2)).toBe(true)
    await scene.migrate()
    expect(await balance(scene)).toBe(-917_000)
    expect((await scene.migrate()).steps.every(({written}) => written === 0)).toBe(true)
    expect((await scene.verify()).clean).toBe(true)
  })

  it('charges new consumption to the one used last', async () => {
    const before = readNumber(await bucketAt(scene, 'ENTITY#user-1 #BUCKET#gpt-4'), 'b_rpm_tk') as number
    const other = await bucketAt(scene, 'ENTITY#user-1 #BUCKET#gpt-4#rpm')
    const current = await bucketAt(scene, '/BUCKET#user-1#gpt-4#0 #STATE')
    const spent = {b_rpm_tk: n((readNumber(current, 'b_rpm_tk') ?? 0) - 4000), b_rpm_tc: n(4000)}
    await scene.own.send('PutItem', {TableName: scene.name, Item: {...current, ...spent}})
    scene.nowMs += 1000
    expect(await adding.acquire(1)).toBe(true)
    await scene.migrate()
    const after = await bucketAt(scene, 'ENTITY#user-1 #BUCKET#gpt-4')
    // A second of refill, one token of its own, four of the new one.
    expect(readNumber(after, 'b_rpm_tk')).toBe(before + 1666 - 1000 - 4000)
    expect(await bucketAt(scene, 'ENTITY#user-1 #BUCKET#gpt-4#rpm')).toEqual(other)
    expect((await scene.migrate()).steps.every(({written}) => written === 0)).toBe(true)
  })

  it('is deleted as a whole', async () => {
    expect((await scene.cleanUp()).deleted).toEqual({bucket: 2})
    expect(bucketMarksOf(await bucketAt(scene, '#STATE')).size).toBe(0)
  })
})
