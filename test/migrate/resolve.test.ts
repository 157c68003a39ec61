import {beforeAll, expect, it} from 'vitest'
import {resolveAll, resolveConflict, type Side} from '../../src/lib/migrate/resolve.js'
import {surveyTable} from '../../src/lib/migrate/survey.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {encodeEntity} from '../../src/lib/schema/entity-record.js'
import {encodeNamespaceById, encodeNamespaceByName} from '../../src/lib/schema/namespace-record.js'
import {encodeVersion} from '../../src/lib/schema/version-record.js'
import {describeOnEngine} from '../helpers/table.js'
import {type OldTableScene, useOldTable, VERSION} from './old-table-scene.js'

const entity = (id: string, name: string): Item => ({
  PK: s(`ENTITY#${id}`),
  SK: s('#META'),
  entity_id: s(id),
  name: s(name),
  parent_id: {NULL: true},
  metadata: {M: {tier: s('gold'), since: n(3)}},
  created_at: s('2026-01-01T00:00:00Z'),
})

const singleLimit = (limit: string, capacity: number): Item => ({
  PK: s('RESOURCE#gpt-4'),
  SK: s(`#LIMIT#${limit}`),
  resource: s('gpt-4'),
  limit_name: s(limit),
  capacity: n(capacity),
  burst: n(capacity),
  refill_amount: n(capacity),
  refill_period_seconds: n(60),
})

const NAMESPACE = 'aB3x_9QwErT'
const registered = {id: NAMESPACE, name: 'default', status: 'active', createdAt: '', deletedAt: undefined} as const
const registry = [encodeNamespaceById(registered), encodeNamespaceByName(registered)]

const put = (scene: OldTableScene, Item: Item) => scene.own.send('PutItem', {TableName: scene.name, Item})

const resolve = (scene: OldTableScene, key: string, keep: Side) =>
  resolveConflict(scene.table, key, keep, {ourVersion: VERSION})

const namespaceOf = (scene: OldTableScene) =>
  new Repository({stack: scene.name, transport: scene.own, clock: () => scene.nowMs}).namespace('default')

const IDS = [...Array(20).keys()].map(at => `user-${at}`)

describeOnEngine('conflicts', () => {
  const scene = useOldTable(2, () => [
    ...registry,
    entity('user one', 'Old'),
    ...IDS.map(id => entity(id, 'Old')),
    singleLimit('rpm', 10),
    singleLimit('tpm', 20),
  ])

  /** Changes both sides of every record. */
  beforeAll(async () => {
    await scene.migrate()
    const {entities, configs} = await namespaceOf(scene)
    await Promise.all(['user one', ...IDS].map(id => entities.update(id, {name: 'New'})))
    await Promise.all(['user one', ...IDS].map(id => put(scene, entity(id, 'Older'))))
    const limit = {name: 'rpm', capacity: 7, refillAmount: 7, refillPeriodSeconds: 60}
    await configs.set({level: 'resource', resource: 'gpt-4'}, [limit])
    await put(scene, singleLimit('tpm', 30))
  })

  it('are all listed with --all', async () => {
    const {verifyMigration} = await import('../../src/lib/migrate/verify-migration.js')
    expect((await scene.verify()).differences.shown).toHaveLength(20)
    const {differences} = await verifyMigration(scene.table, {ourVersion: VERSION, all: true})
    expect(differences.count).toBe(22)
    expect(differences.shown).toHaveLength(22)
  })

  it('are resolved by a key that contains a space', async () => {
    expect(await resolve(scene, 'ENTITY#user one #META', 'old')).toMatchObject({key: 'ENTITY#user one #META'})
    const {entities} = await namespaceOf(scene)
    expect((await entities.get('user one'))?.name).toBe('Older')
  })

  it('are resolved by the key of any item of a record', async () => {
    expect(await resolve(scene, 'RESOURCE#gpt-4 #LIMIT#tpm', 'old')).toMatchObject({key: 'RESOURCE#gpt-4 #LIMIT#rpm'})
    const {configs} = await namespaceOf(scene)
    expect((await configs.get({level: 'resource', resource: 'gpt-4'}))?.limits).toMatchObject([
      {name: 'rpm', capacity: 10},
      {name: 'tpm', capacity: 30},
    ])
  })

  it('are resolved all at once after a confirmation', async () => {
    const before = await scene.items()
    const refuse = async ({count}: {count: number}) => {
      throw new Error(`not all ${count}`)
    }
    const options = {ourVersion: VERSION, confirm: refuse}
    await expect(resolveAll(scene.table, 'old', options)).rejects.toThrow('not all 20')
    expect(await scene.items()).toEqual(before)
    const result = await resolveAll(scene.table, 'new', {...options, confirm: async () => {}})
    expect(result).toEqual({settled: 20, left: {count: 0, shown: []}})
    expect(await scene.verify()).toMatchObject({clean: true})
    const {entities} = await namespaceOf(scene)
    expect((await entities.get('user-7'))?.name).toBe('New')
    // Nothing is left to confirm.
    expect(await resolveAll(scene.table, 'old', options)).toMatchObject({settled: 0, left: {count: 0}})
  })
})

describeOnEngine('entities that were copied by hand', () => {
  const copied = (id: string, name: string): Item => ({
    ...entity(id, name),
    PK: s(`${NAMESPACE}/ENTITY#${id}`),
    GSI4PK: s(NAMESPACE),
    GSI4SK: s(`${NAMESPACE}/ENTITY#${id}`),
  })
  const {GSI4PK: _, GSI4SK: __, ...unlisted} = copied('unlisted', 'One')
  const scene = useOldTable(4, () => [
    ...registry,
    ...['same', 'other', 'unlisted'].map(id => entity(id, 'One')),
    // Neither has an attribute `cascade`.
    copied('same', 'One'),
    copied('other', 'Another'),
    unlisted,
  ])

  it('are not conflicts when they are equivalent and have their index keys', async () => {
    const {conflicts} = await scene.migrate()
    expect(conflicts.shown.map(({key}) => key).sort()).toEqual(['ENTITY#other #META', 'ENTITY#unlisted #META'])
  })
})

describeOnEngine('a conflict in a table of a layout that is newer than this zael', () => {
  const record = {lambdaVersion: undefined, clientMinVersion: '0.0.0', updatedAt: '', updatedBy: undefined}
  const current = {namespace: NAMESPACE, entity: 'user-1', name: 'New', parent: undefined, cascade: false, metadata: {}}
  const scene = useOldTable(4, () => [
    ...registry,
    entity('user-1', 'Old'),
    encodeEntity({...current, createdAt: '', version: 1}),
    encodeVersion({...record, schemaVersion: '0.11.0'}),
  ])

  it('is not changed', async () => {
    const before = await scene.items()
    await expect(surveyTable(scene.table, {ourVersion: VERSION})).rejects.toMatchObject({kind: 'conflict'})
    await expect(resolve(scene, 'ENTITY#user-1 #META', 'old')).rejects.toMatchObject({
      code: 'schema.too-new',
      kind: 'conflict',
    })
    const confirm = async () => {}
    await expect(resolveAll(scene.table, 'old', {ourVersion: VERSION, confirm})).rejects.toMatchObject({
      kind: 'conflict',
    })
    expect(await scene.items()).toEqual(before)
  })
})
