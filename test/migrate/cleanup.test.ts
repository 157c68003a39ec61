import {expect, it} from 'vitest'
import {cleanUp} from '../../src/lib/migrate/cleanup.js'
import {readMigration} from '../../src/lib/migrate/walk/lease.js'
import {n, readNumber, s} from '../../src/lib/schema/attribute-value.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {describeOnEngine} from '../helpers/table.js'
import {makePopulation} from './fixtures/make-population.js'
import {itemsOf} from './fixtures/old-table.js'
import {AddingClient, oldBucketItem} from './old-clients.js'
import {useOldTable, VERSION} from './old-table-scene.js'

describeOnEngine('a clean-up', () => {
  const population = makePopulation({entities: 1})
  const scene = useOldTable(
    3,
    () => [...itemsOf(3, population), oldBucketItem('ENTITY#late', 60, population.nowMs, 'composite')],
    population,
  )
  const client = new AddingClient(
    {transport: scene.own, TableName: scene.name, clock: () => scene.nowMs},
    'ENTITY#late',
  )
  const isLate = (input: unknown) => JSON.stringify(input).includes('ENTITY#late')

  it('keeps a record that changes between the comparison and the deletion', async () => {
    await scene.migrate()
    // An old client consumes right before its bucket would be deleted.
    scene.transport = {
      send: async (operation, input, options) => {
        const isDeletion = operation === 'DeleteItem' || operation === 'TransactWriteItems'
        if (isDeletion && isLate(input)) await client.acquire(1)
        return scene.own.send(operation, input, options)
      },
    }
    const {left} = await scene.cleanUp()
    expect(left).toMatchObject({count: 1, shown: [{type: 'bucket', key: 'ENTITY#late #BUCKET#gpt-4'}]})
    scene.transport = scene.own
    expect((await scene.census()).old).toEqual({bucket: 1})
    expect(await readMigration(scene.table)).toMatchObject({leaseUntilMs: 0, verifiedAt: expect.any(String)})
    expect((await scene.verify()).clean).toBe(false)
    await scene.migrate()
    expect((await scene.cleanUp()).deleted).toEqual({bucket: 1})
  })

  it('removes the marks too: a bucket that an old client creates again is charged from the start', async () => {
    const balance = async () => {
      const item = (await scene.items()).find(each => (each.PK as {S: string}).S.endsWith('/BUCKET#late#gpt-4#0'))
      return {tokens: readNumber(item ?? {}, 'b_rpm_tk') ?? 0, mark: item?.mg}
    }
    const before = await balance()
    expect(before.mark).toBeUndefined()
    const recreated = oldBucketItem('ENTITY#late', 93, scene.nowMs, 'composite')
    await scene.own.send('PutItem', {
      TableName: scene.name,
      Item: {...recreated, b_rpm_tc: n(7000), PK: s('ENTITY#late')},
    })
    await scene.migrate()
    // Seven tokens were consumed from a full bucket.
    expect((await balance()).tokens).toBe(before.tokens - 7000)
  })
})

describeOnEngine('a clean-up whose responses get lost', () => {
  const population = makePopulation({entities: 2})
  const scene = useOldTable(4, () => itemsOf(4, population), population)

  it('counts deleted items as deleted', async () => {
    await scene.migrate()
    const lost = new Set<string>()
    scene.transport = {
      send: (operation, input, options) => {
        const name = JSON.stringify(input)
        if (operation !== 'DeleteItem' || lost.has(name)) return scene.own.send(operation, input, options)
        lost.add(name)
        const faults = new FaultTransport(scene.own)
        faults.start({kind: 'lost after apply', at: 1})
        return faults.send(operation, input, options)
      },
    }
    const {left, deleted} = await scene.cleanUp()
    scene.transport = scene.own
    expect(lost.size).toBeGreaterThan(5)
    expect(left).toEqual({count: 0, shown: []})
    expect(deleted).toMatchObject({entity: 2})
    expect((await scene.census()).old).toEqual({})
  })

  it('asks for no confirmation when there is nothing old', async () => {
    const before = await scene.items()
    const confirm = async () => {
      throw new Error('asked')
    }
    const options = {owner: 'test', ourVersion: VERSION, confirm}
    expect(await cleanUp(scene.table, options)).toMatchObject({deleted: {}, left: {count: 0}})
    expect(await scene.items()).toEqual(before)
  })
})
