import {expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {ValidationFailed} from '../../src/lib/dynamo/errors.js'
import {openManifestNamespace} from '../../src/lib/manifest/manifest.js'
import {parseManifest} from '../../src/lib/manifest/parse.js'
import {diffManifest, planManifest} from '../../src/lib/manifest/plan.js'
import {Repository} from '../../src/lib/repository/repository.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {keys} from '../../src/lib/schema/keys.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {putBucket, stored, type TestTenant, totalOf} from '../repository/namespace-table.js'
import {apply, manifestOf, newNamespace, planLines} from './support.js'

const TEXT = `
system: {limits: {rpm: 1000/min}}
resources: {gpt-4: {limits: {rpm: 100/min}}}
entities:
  user: {limits: {rpm: 5/min}, resources: {gpt-4: {limits: {rpm: 7/min}}}}
  other: {resources: {gpt-4: {limits: {rpm: 8/min}}}}
`
const USER = {level: 'entity', entity: 'user', resource: 'gpt-4'} as const

/** Every item of a namespace, including those in no index. */
async function itemsOf(tenant: TestTenant): Promise<Item[]> {
  const {Items = []} = await tenant.transport.send('Scan', {TableName: tenant.name, ConsistentRead: true})
  return Items.filter(({PK}) => PK && 'S' in PK && PK.S.startsWith(`${tenant.namespace}/`))
}

describeOnBoth('declarative limits', {}, table => {
  it('M-1: need only the table for plan, apply and drift', async () => {
    const {repository} = newNamespace(table)
    expect((await planManifest(repository, manifestOf(TEXT))).counts.create).toBe(5)
    expect((await apply(repository, TEXT)).outcome).toBe('complete')
    const resolved = await repository.configs.resolve({entity: 'user', resource: 'gpt-4'})
    expect(resolved).toMatchObject({source: 'entity', limits: parseLimits(['rpm=7/min'])})
    expect((await diffManifest(repository, manifestOf(TEXT))).differences).toEqual([])
  })

  it('M-2: have no changes if the manifest is unchanged, and only its changes otherwise', async () => {
    const {repository} = newNamespace(table)
    await apply(repository, TEXT)
    const {changes, counts} = await planManifest(repository, manifestOf(TEXT))
    expect(changes).toEqual([])
    expect(counts).toEqual({create: 0, update: 0, delete: 0, adopt: 0, unchanged: 5})
    expect(await planLines(repository, TEXT.replace('100/min', '200/min'))).toEqual([
      'update resource gpt-4: rpm=100/60:100 → rpm=200/60:200',
    ])
  })

  it('M-3: compare drift with the live items, whichever client changed them', async () => {
    const {repository} = newNamespace(table)
    await apply(repository, TEXT)
    await repository.setLimits(USER, parseLimits(['rpm=70/min']))
    await repository.deleteLimits({level: 'resource', resource: 'gpt-4'})
    const {differences: drift} = await diffManifest(repository, manifestOf(TEXT))
    expect(drift.map(({kind, change}) => [kind, change.kind === 'limits' && change.scope])).toEqual([
      ['missing', {level: 'resource', resource: 'gpt-4'}],
      ['changed', USER],
    ])
  })

  it('M-4: are indexed: listed by resource, and found by a purge', async () => {
    const {tenant, repository} = newNamespace(table)
    await apply(repository, TEXT)
    const {records} = await repository.configs.entities('gpt-4')
    expect(records.map(({scope}) => scope.level === 'entity' && scope.entity).sort()).toEqual(['other', 'user'])
    const items = await itemsOf(tenant)
    expect(items.filter(item => !item.GSI4PK || !item.GSI4SK)).toEqual([])
    const entityConfigs = items.filter(({SK}) => SK && 'S' in SK && SK.S.startsWith('#CONFIG#'))
    expect(entityConfigs.filter(item => item.GSI3PK && item.GSI3SK)).toHaveLength(3)
  })

  it('M-5: are registered by resource, with the number of entities', async () => {
    const {tenant, repository} = newNamespace(table)
    await apply(repository, TEXT)
    const registry = await stored(tenant, keys.resourceRegistry(tenant.namespace))
    expect(registry?.resources).toEqual({SS: ['gpt-4']})
    const counts = await stored(tenant, keys.entityConfigRegistry(tenant.namespace))
    expect(counts).toMatchObject({'gpt-4': {N: '2'}, _default_: {N: '1'}})
  })

  it('M-6: audit changes, apply them to live buckets, and remove deletes from the registries', async () => {
    const {tenant, repository} = newNamespace(table)
    await apply(repository, TEXT)
    const bucket = {entity: 'user', resource: 'gpt-4', limits: parseLimits(['rpm=7/min'])}
    await putBucket(tenant, bucket)
    const capacity = async () => totalOf(await repository.buckets.find('user', 'gpt-4'), 'rpm', 'capacityMilli')
    const updated = await apply(repository, TEXT.replace('rpm: 7/min', 'rpm: 3/min'))
    expect(updated.buckets).toEqual({checked: 1, updated: 1, failed: 0})
    expect(await capacity()).toBe(3)
    // Without its own limits the entity's default applies.
    await apply(repository, 'entities: {user: {limits: {rpm: 5/min}}}')
    expect(await capacity()).toBe(5)
    const events = (await repository.audit.list({entity: 'user'})).records.filter(({resource}) => resource === 'gpt-4')
    expect(events.map(({action, principal}) => [action, principal]).sort()).toEqual([
      ['limits_deleted', 'tester'],
      ['limits_set', 'tester'],
      ['limits_set', 'tester'],
    ])
    expect(await repository.configs.resourcesOfEntities()).toEqual(['_default_'])
    expect((await stored(tenant, keys.resourceRegistry(tenant.namespace)))?.resources).toBeUndefined()
  })

  it('M-7: report a failed change, and do not record it as applied', async () => {
    const {tenant, repository} = newNamespace(table)
    tenant.transport.before = (operation, input) => {
      const isUser = operation === 'TransactWriteItems' && JSON.stringify(input).includes('ENTITY#user"')
      if (isUser) throw new ValidationFailed(operation)
    }
    const result = await apply(repository, TEXT)
    expect(result).toMatchObject({outcome: 'failed', created: 3, failures: [{}, {}]})
    const {record} = await repository.provisioner.get()
    expect(record).toMatchObject({appliedHash: undefined, lastApplied: undefined, managesSystem: true})
    expect(record.entities).toEqual(new Map([['other', ['gpt-4']]]))
  })

  it('M-8: respect a requested namespace', async () => {
    const repository = new Repository({stack: table.name, transport: table.transport})
    await repository.namespaces.registerMany(['one', 'two'])
    const manifest = parseManifest(`namespace: two\n${TEXT}`, {file: 'limits.yaml'})
    await expect(openManifestNamespace(repository, manifest, 'one')).rejects.toMatchObject({
      code: 'manifest.namespace',
      kind: 'usage',
      message: 'The manifest is for namespace "two", not for "one".',
    })
    await apply(await openManifestNamespace(repository, manifest, 'two'), manifest)
    const system = {level: 'system'} as const
    expect(await (await repository.namespace('two')).configs.get(system)).toMatchObject({scope: system})
    expect(await (await repository.namespace('one')).configs.get(system)).toBeUndefined()
    const nowhere = parseManifest('namespace: three', {file: 'limits.yaml'})
    await expect(openManifestNamespace(repository, nowhere)).rejects.toMatchObject({
      code: 'namespace.missing',
      kind: 'notFound',
    })
    await repository.close()
  })

  it('M-9: list a long plan completely', async () => {
    const {repository} = newNamespace(table)
    const names = Array.from({length: 120}, (_, at) => `resource-with-a-long-name-${at}`)
    const manifest = manifestOf(`resources: {${names.map(name => `${name}: {limits: {rpm: 1/min}}`).join(', ')}}`)
    const {changes} = await planManifest(repository, manifest)
    expect(changes).toHaveLength(120)
    expect(JSON.stringify(changes).length).toBeGreaterThan(4096)
    expect(await apply(repository, manifest)).toMatchObject({outcome: 'complete', created: 120})
  })
})
