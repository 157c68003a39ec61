import {beforeAll, describe, expect, it} from 'vitest'
import {isRead, type Operation, type OperationInput, type Transport} from '../../../src/lib/dynamo/transport.js'
import {openMigrationContext, readMigration} from '../../../src/lib/migrate/walk/lease.js'
import {tablePages} from '../../../src/lib/migrate/walk/scan.js'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import {type Item, type Key, n, readNumber, readString, s} from '../../../src/lib/schema/attribute-value.js'
import {migrationRecordKey} from '../../../src/lib/schema/migration-record.js'
import {describeOnEngine} from '../../helpers/table.js'
import {expectMigrated} from '../expect-migrated.js'
import {expectedOf} from '../fixtures/expected.js'
import {makePopulation} from '../fixtures/make-population.js'
import {itemsOf} from '../fixtures/old-table.js'
import {type OldTableScene, useOldTable} from '../old-table-scene.js'

/** Small pages, so that the items of one record are on several; calls `onRequest` before each request. */
function watched(scene: OldTableScene, onRequest: (operation: Operation, input: object) => Promise<void>): Transport {
  return {
    async send(operation, input, options) {
      await onRequest(operation, input)
      const request = operation === 'Scan' ? {...input, Limit: 10} : input
      return scene.own.send(operation, request as typeof input, options)
    },
  }
}

/** The step that the record of the migration names for the first time with this request. */
function stepIn(operation: Operation, input: object): string | undefined {
  const {Item: item} = input as {Item?: Item}
  return operation === 'PutItem' && item?.SK && readString(item, 'SK') === migrationRecordKey.SK
    ? readString(item, 'step')
    : undefined
}

const oldBuckets = async (scene: OldTableScene): Promise<Item[]> =>
  (await scene.items()).filter(
    item => /^ENTITY#/.test(readString(item, 'PK') ?? '') && /^#BUCKET#/.test(readString(item, 'SK') ?? ''),
  )

/** Old buckets that have not expired and still hold requests. */
const liveBuckets = async (scene: OldTableScene): Promise<Item[]> =>
  (await oldBuckets(scene)).filter(
    item => (readNumber(item, 'ttl') ?? Infinity) * 1000 > scene.nowMs && (readNumber(item, 'b_rpm_tk') ?? 0) >= 1000,
  )

/** All items of a scan up to that key. */
async function itemsUpTo(scene: OldTableScene, {PK, SK}: Key): Promise<Item[]> {
  const {Items = []} = await scene.own.send('Scan', {TableName: scene.name, ConsistentRead: true})
  const at = Items.findIndex(item => readString(item, 'PK') === PK && readString(item, 'SK') === SK)
  return Items.slice(0, at + 1)
}

const put = (scene: OldTableScene, item: Item) => scene.own.send('PutItem', {TableName: scene.name, Item: item})

describeOnEngine('the passes of a run', () => {
  const scene = useOldTable(4, population => itemsOf(4, population))

  /** How often each step starts a scan. */
  async function countScans(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {}
    let step = ''
    scene.transport = watched(scene, async (operation, input) => {
      step = stepIn(operation, input) ?? step
      const isStart = operation === 'Scan' && (input as OperationInput<'Scan'>).ExclusiveStartKey === undefined
      if (isStart) counts[step] = (counts[step] ?? 0) + 1
    })
    expect(await scene.migrate()).toMatchObject({finished: true, settled: true})
    scene.transport = scene.own
    return counts
  }

  it('are three: for the configuration, for everything else, and one that finds nothing to do', async () => {
    // Step `namespaces` finds data without a namespace on its first page.
    expect(await countScans()).toEqual({namespaces: 1, configuration: 1, data: 1, 'catch-up': 1})
  })

  it('are two when every copy is up to date', async () => {
    expect(await countScans()).toEqual({configuration: 1, data: 1})
  })

  it('are repeated until one finds nothing to do', async () => {
    const [bucket = {}] = await liveBuckets(scene)
    const spend = {...bucket, b_rpm_tc: n((readNumber(bucket, 'b_rpm_tc') ?? 0) + 1000)}
    await put(scene, spend)
    expect(await countScans()).toEqual({configuration: 1, data: 1, 'catch-up': 1})
    expect((await scene.verify()).clean).toBe(true)
  })

  it('report conflicts in the configuration even if there are only two', async () => {
    const [entity = {}] = (await scene.items()).filter(
      item => readString(item, 'SK') === '#META' && readString(item, 'PK')?.startsWith('ENTITY#'),
    )
    const id = readString(entity, 'entity_id') ?? ''
    const home = (await new Namespaces(scene.table).resolve('default'))?.id
    const [current = {}] = (await scene.items()).filter(
      item => readString(item, 'PK') === `${home}/ENTITY#${id}` && readString(item, 'SK') === '#META',
    )
    await put(scene, {...entity, name: s('Old name')})
    await put(scene, {...current, name: s('New name')})
    const result = await scene.migrate()
    expect(result.conflicts.shown).toMatchObject([{key: `ENTITY#${id} #META`, state: 'conflict'}])
    expect(result.steps.find(({id}) => id === 'catch-up')).toMatchObject({checked: 0, state: 'done'})
  })
})

describeOnEngine('a client that starts to use another namespace prefix during a run', () => {
  // So many that some buckets are compared before the first item with the new prefix is read.
  const scene = useOldTable(4, population => itemsOf(4, population), makePopulation({entities: 8}))
  beforeAll(() => scene.migrate())

  it('is noticed although all locations of old items were thought to be known', async () => {
    const home = (await new Namespaces(scene.table).resolve('default'))?.id
    const foreign = (await oldBuckets(scene)).map(item => ({
      ...item,
      PK: s(`${home}/${readString(item, 'PK')}`),
      b_rpm_tk: n((readNumber(item, 'b_rpm_tk') ?? 0) - 5000),
      b_rpm_tc: n((readNumber(item, 'b_rpm_tc') ?? 0) + 5000),
    }))
    expect(foreign.length).toBeGreaterThan(10)
    let isDone = false
    scene.transport = watched(scene, async (operation, input) => {
      // The configuration is copied, so the whole table was read.
      if (isDone || stepIn(operation, input) !== 'data') return
      isDone = true
      for (const item of foreign) await put(scene, item)
    })
    expect(await scene.migrate()).toMatchObject({finished: true, settled: true})
    expect(isDone).toBe(true)
    scene.transport = scene.own
    expect((await scene.verify()).differences.shown).toEqual([])
  })
})

describeOnEngine('a run that resumes in the middle of a pass', () => {
  const scene = useOldTable(4, population => itemsOf(4, population))

  it('has not read the whole table, so it queries all locations', async () => {
    let pages = 0
    const stop = new AbortController()
    const onProgress = ({step}: {step: string}) => {
      if (step === 'configuration' && ++pages === 4) stop.abort()
    }
    let searches = 0
    scene.transport = watched(scene, async (operation, input) => {
      if (operation === 'Query' && JSON.stringify(input).includes('"#BUCKET#')) searches++
    })
    await expect(scene.migrate({signal: stop.signal, onProgress})).rejects.toMatchObject({code: 'dynamo.aborted'})
    expect(await readMigration(scene.table)).toMatchObject({step: 'configuration', position: expect.anything()})
    expect(await scene.migrate({until: 'data'})).toMatchObject({resumed: true, finished: false})
    // Three locations for the buckets of each entity; a run that knows the table would query none.
    const owners = new Set((await oldBuckets(scene)).map(item => readString(item, 'PK')))
    expect(searches).toBeGreaterThanOrEqual(3 * owners.size)
    expect(await scene.migrate()).toMatchObject({finished: true, settled: true, conflicts: {count: 0}})
    scene.transport = scene.own
    expect((await scene.verify()).differences.shown).toEqual([])
    await expectMigrated(scene, expectedOf(scene.population, 4))
  })
})

describeOnEngine('the position of a run', () => {
  const scene = useOldTable(4, population => itemsOf(4, population))

  it('moves to the end of a page after everything in it is written, and not before', async () => {
    await scene.migrate({until: 'namespaces'})
    scene.transport = watched(scene, async (operation, input) => {
      const isProgress = stepIn(operation, input) !== undefined
      if (!isRead(operation) && !isProgress) throw new Error('nothing can be written')
    })
    await expect(scene.migrate()).rejects.toThrow('nothing can be written')
    scene.transport = scene.own
    const record = await readMigration(scene.table)
    // There may be pages before the first one with something to copy.
    const {position} = record ?? {}
    const passed = position ? await itemsUpTo(scene, position) : []
    expect(record?.step).toBe('configuration')
    expect(passed.filter(item => /^#(META|CONFIG|LIMIT#)/.test(readString(item, 'SK') ?? ''))).toEqual([])
  })
})

describeOnEngine('an old bucket that is gone when it is charged', () => {
  const scene = useOldTable(4, population => itemsOf(4, population))

  it('does not hold up the run', async () => {
    await scene.migrate()
    const [bucket = {}] = await liveBuckets(scene)
    const entity = readString(bucket, 'entity_id') ?? ''
    const resource = readString(bucket, 'resource') ?? ''
    await scene.limiter(scene.own).acquire({entity, resource, consume: {rpm: 1}})
    let charges = 0
    scene.transport = watched(scene, async operation => {
      if (operation !== 'TransactWriteItems' || charges++ > 0) return
      const {PK = s(''), SK = s('')} = bucket
      await scene.own.send('DeleteItem', {TableName: scene.name, Key: {PK, SK}})
    })
    expect(await scene.migrate()).toMatchObject({finished: true})
    expect(charges).toBeGreaterThan(0)
  })
})

describe('a page that is read ahead', () => {
  it('throws its failure only when it is requested', async () => {
    let scans = 0
    const transport: Transport = {
      send: async operation => {
        if (operation === 'GetItem') return {} as never
        if (scans++ > 0) throw new Error('the table is gone')
        return {Items: [], LastEvaluatedKey: {PK: s('a'), SK: s('b')}} as never
      },
    }
    const backoff = {random: Math.random, sleep: async () => {}}
    const table = {name: 't', transport, clock: () => 0, randomBytes: (count: number) => new Uint8Array(count), backoff}
    const context = await openMigrationContext(table)
    for await (const page of tablePages(context, {ahead: true})) {
      expect(page.next).toEqual({PK: 'a', SK: 'b'})
      break
    }
    expect(scans).toBe(2)
    scans = 0
    const read = async () => {
      for await (const _ of tablePages(context, {ahead: true}));
    }
    await expect(read()).rejects.toThrow('the table is gone')
  })
})
