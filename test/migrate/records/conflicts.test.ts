import {expect, it} from 'vitest'
import {resolveConflict, type Side} from '../../../src/lib/migrate/resolve.js'
import {migrateTable} from '../../../src/lib/migrate/run.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {encodeVersion} from '../../../src/lib/schema/version-record.js'
import {describeOnEngine} from '../../helpers/table.js'
import {itemsOf} from '../fixtures/old-table.js'
import {type OldTableScene, useOldTable, VERSION} from '../old-table-scene.js'

const put = (scene: OldTableScene, Item: Item) => scene.own.send('PutItem', {TableName: scene.name, Item})

const get = async (scene: OldTableScene, PK: string, SK: string) =>
  (await scene.own.send('GetItem', {TableName: scene.name, Key: {PK: s(PK), SK: s(SK)}, ConsistentRead: true})).Item

const resolve = (scene: OldTableScene, key: string, keep: Side) =>
  resolveConflict(scene.table, key, keep, {ourVersion: VERSION})

const repositoryOf = (scene: OldTableScene) =>
  new Repository({stack: scene.name, transport: scene.own, clock: () => scene.nowMs})

describeOnEngine('records that change after they were copied', () => {
  const scene = useOldTable(4, population => itemsOf(4, population))
  const oldEntity = async () => (await get(scene, 'ENTITY#org:0', '#META')) as Item

  it('are copied again while their copies are unchanged', async () => {
    await scene.migrate()
    await put(scene, {...(await oldEntity()), name: s('Renamed by an old client')})
    expect(await scene.verify()).toMatchObject({
      clean: false,
      differences: {count: 1, shown: [{key: 'ENTITY#org:0 #META', state: 'behind'}]},
    })
    const result = await scene.migrate()
    expect(result.conflicts.count).toBe(0)
    const namespace = await repositoryOf(scene).namespace('default')
    expect((await namespace.entities.get('org:0'))?.name).toBe('Renamed by an old client')
    expect((await scene.verify()).clean).toBe(true)
  })

  it('are conflicts when both were changed: listed, not changed, blocking a clean-up, resolved by hand', async () => {
    const namespace = await repositoryOf(scene).namespace('default')
    await namespace.entities.update('org:0', {name: 'Renamed by a current client'})
    await put(scene, {...(await oldEntity()), name: s('Renamed again by an old client')})
    const result = await scene.migrate()
    expect(result.conflicts).toMatchObject({
      count: 1,
      shown: [{type: 'entity', key: 'ENTITY#org:0 #META', state: 'conflict'}],
    })
    expect((await namespace.entities.get('org:0'))?.name).toBe('Renamed by a current client')
    const before = await scene.items()
    await expect(scene.cleanUp()).rejects.toMatchObject({
      code: 'migrate.not-clean',
      kind: 'negative',
      // Keys of the JSON output.
      details: {differences: 1, shown: [{type: 'entity', key: 'ENTITY#org:0 #META', says: expect.any(String)}]},
    })
    expect(await scene.items()).toEqual(before)

    await resolve(scene, 'ENTITY#org:0 #META', 'new')
    expect((await scene.verify()).clean).toBe(true)
    expect((await namespace.entities.get('org:0'))?.name).toBe('Renamed by a current client')
    await put(scene, {...(await oldEntity()), name: s('The last word')})
    // The copy is unchanged since the conflict was resolved, so it follows again.
    await scene.migrate()
    expect((await namespace.entities.get('org:0'))?.name).toBe('The last word')
  })

  it('are resolved with --keep old by copying the old limits', async () => {
    const namespace = await repositoryOf(scene).namespace('default')
    const {PK, SK, ...config} = (await get(scene, 'SYSTEM#', '#CONFIG')) as Item
    await namespace.configs.set({level: 'system'}, [
      {name: 'rpm', capacity: 7, refillAmount: 7, refillPeriodSeconds: 60},
    ])
    await put(scene, {PK: PK as Item[string], SK: SK as Item[string], ...config, l_rpm_cp: n(9), l_rpm_bx: n(11)})
    expect((await scene.migrate()).conflicts).toMatchObject({count: 1, shown: [{key: 'SYSTEM# #CONFIG'}]})
    await resolve(scene, 'SYSTEM# #CONFIG', 'old')
    const limits = (await namespace.configs.get({level: 'system'}))?.limits
    expect(limits?.find(({name}) => name === 'rpm')).toMatchObject({capacity: 11})
    expect((await scene.verify()).clean).toBe(true)
  })

  it('cannot be resolved without a conflict', async () => {
    const before = await scene.items()
    await expect(resolve(scene, 'ENTITY#org:0 #META', 'old')).rejects.toMatchObject({kind: 'notFound'})
    await expect(resolve(scene, 'ENTITY#missing #META', 'old')).rejects.toMatchObject({kind: 'notFound'})
    await expect(resolve(scene, 'nonsense', 'old')).rejects.toMatchObject({kind: 'usage'})
    expect(await scene.items()).toEqual(before)
  })
})

describeOnEngine('a new record that a current client created first', () => {
  const scene = useOldTable(4, population => itemsOf(4, population))

  it('is up to date when it is equivalent, and a conflict otherwise', async () => {
    const repository = repositoryOf(scene)
    await repository.namespaces.register('default')
    const namespace = await repository.namespace('default')
    const [same, other] = scene.population.configs.filter(({scope}) => scope.level === 'resource')
    if (!same || !other) throw new Error('no resource limits in the population')
    const folded = same.limits.map(({burst, ...limit}) => ({...limit, capacity: burst}))
    await namespace.configs.set(same.scope, folded)
    await namespace.configs.set(other.scope, [{name: 'rpm', capacity: 1, refillAmount: 1, refillPeriodSeconds: 1}])
    const result = await scene.migrate()
    expect(result.conflicts).toMatchObject({
      count: 1,
      shown: [{key: `RESOURCE#${(other.scope as {resource: string}).resource} #CONFIG`}],
    })
  })
})

describeOnEngine('a table of a layout that is newer than this zael', () => {
  const scene = useOldTable(4, () => [
    encodeVersion({
      schemaVersion: '0.11.0',
      lambdaVersion: undefined,
      clientMinVersion: '0.0.0',
      updatedAt: '',
      updatedBy: undefined,
    }),
  ])

  it('is refused and not changed', async () => {
    const before = await scene.items()
    const options = {owner: 'test', ourVersion: VERSION}
    await expect(migrateTable(scene.table, options)).rejects.toMatchObject({code: 'schema.too-new', kind: 'conflict'})
    await expect(scene.verify()).rejects.toMatchObject({kind: 'conflict'})
    await expect(scene.cleanUp()).rejects.toMatchObject({kind: 'conflict'})
    expect(await scene.items()).toEqual(before)
  })
})
