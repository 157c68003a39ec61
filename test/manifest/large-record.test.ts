import {expect, it} from 'vitest'
import type {Manifest} from '../../src/lib/manifest/manifest.js'
import {planManifest} from '../../src/lib/manifest/plan.js'
import {managedBy} from '../../src/lib/manifest/scopes.js'
import {encodeConfig} from '../../src/lib/schema/config-record.js'
import {isSameManaged} from '../../src/lib/schema/provisioner-record.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {manyManaged, storedParts} from '../repository/limits/support.js'
import {putAll} from '../repository/namespace-items.js'
import {apply, manifestOf, newNamespace, type TestNamespace} from './support.js'

const limitsOf = (capacity: number) => [{name: 'rpm', capacity, refillAmount: capacity, refillPeriodSeconds: 60}]

const idOf = (at: number) => `user-${String(at).padStart(250, '0')}`

/** Entities with long ids and limits of their own; an item has room for some 1,500. */
function manyEntities(count: number): Manifest {
  const ids = Array.from({length: count}, (_, at) => idOf(at))
  const scopes = new Map([['_default_', {limits: limitsOf(1), policies: {}}]])
  const entities = new Map(ids.map(id => [id, {scopes}]))
  return {namespace: 'test', system: undefined, resources: new Map(), entities}
}

/** The limits of these entities, as if they were set one by one. */
async function setAll({tenant}: TestNamespace, {entities}: Manifest): Promise<void> {
  const others = {namespace: tenant.namespace, onUnavailable: undefined, auditRetentionDays: undefined}
  const scopeOf = (entity: string) => ({level: 'entity', entity, resource: '_default_'}) as const
  const items = [...entities.keys()].map(id => encodeConfig({...others, scope: scopeOf(id), limits: limitsOf(1)}))
  await putAll(tenant, items)
}

describeOnBoth('a manifest whose entities exceed one record', {timeout: 120_000}, table => {
  it('is adopted, changed and made smaller, and always knows its managed entities', async () => {
    const namespace = newNamespace(table)
    const {tenant, repository} = namespace
    const manifest = manyEntities(1700)
    await setAll(namespace, manifest)
    expect(await apply(repository, manifest)).toMatchObject({outcome: 'complete', adopted: 1700, created: 0})
    expect(await storedParts(tenant)).toHaveLength(2)
    const plan = await planManifest(repository, manifest)
    expect(plan).toMatchObject({changes: [], counts: {adopt: 0, unchanged: 1700}})
    expect(isSameManaged(plan.seen.record, managedBy(manifest))).toBe(true)

    // Other limits, the same scopes: the parts stay.
    const parts = await storedParts(tenant)
    const raised = new Map([['_default_', {limits: limitsOf(2), policies: {}}]])
    const changed = {...manifest, entities: new Map([...manifest.entities, [idOf(3), {scopes: raised}]])}
    expect(await apply(repository, changed)).toMatchObject({outcome: 'complete', updated: 1})
    expect(await storedParts(tenant)).toEqual(parts)

    // Two fewer, one of them from each part: they are deleted, and nothing else is.
    const smaller = {...changed, entities: new Map(changed.entities)}
    for (const gone of [idOf(0), idOf(1699)]) smaller.entities.delete(gone)
    expect(await apply(repository, smaller)).toMatchObject({outcome: 'complete', deleted: 2, created: 0, updated: 0})
    expect(await repository.configs.get({level: 'entity', entity: idOf(1699), resource: '_default_'})).toBeUndefined()
    const seen = await repository.provisioner.get()
    expect(isSameManaged(seen.record, managedBy(smaller))).toBe(true)
    expect(await storedParts(tenant)).toHaveLength(2)
  })

  it('is not planned while a part of its record is missing', async () => {
    const {tenant, repository} = newNamespace(table)
    await repository.provisioner.save(manyManaged(25), await repository.provisioner.get())
    const [part] = await storedParts(tenant)
    const Key = {PK: part?.PK, SK: part?.SK} as Parameters<typeof tenant.transport.send<'DeleteItem'>>[1]['Key']
    await tenant.transport.send('DeleteItem', {TableName: tenant.name, Key})
    await expect(planManifest(repository, manifestOf(''))).rejects.toMatchObject({code: 'manifest.record-damaged'})
    await expect(repository.configs.entities('gpt-4')).rejects.toMatchObject({code: 'manifest.record-damaged'})
  })
})
