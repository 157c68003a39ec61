import {expect, it} from 'vitest'
import type {Manifest} from '../../src/lib/manifest/manifest.js'
import {planManifest} from '../../src/lib/manifest/plan.js'
import {ScopeSet, statedScopes} from '../../src/lib/manifest/scopes.js'
import {itemBytes, MAX_ITEM_BYTES} from '../../src/lib/schema/item-size.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {newNamespace} from './support.js'

const LIMITS = [{name: 'rpm', capacity: 1, refillAmount: 1, refillPeriodSeconds: 60}]

/** Entities with long ids and limits of their own. */
function manyEntities(count: number): Manifest {
  const ids = Array.from({length: count}, (_, at) => `user-${String(at).padStart(250, '0')}`)
  const entities = new Map(ids.map(id => [id, {scopes: new Map([['_default_', {limits: LIMITS, policies: {}}]])}]))
  return {namespace: 'test', system: undefined, resources: new Map(), entities}
}

const managedBy = (manifest: Manifest) => new ScopeSet(statedScopes(manifest).map(({scope}) => scope)).managed()

describeOnEngine('the record of managed scopes', () => {
  const table = useTable()

  it('is rejected as too large before anything else is read', async () => {
    const {tenant, repository} = newNamespace(table)
    tenant.transport.calls.length = 0
    await expect(planManifest(repository, manyEntities(1600))).rejects.toMatchObject({
      code: 'manifest.too-large',
      exitCode: 2,
      message: expect.stringMatching(/^The limits of 1600 entities are too many.* DynamoDB allows 409600\.$/),
    })
    expect(tenant.transport.calls).toEqual(['GetItem'])
  })

  it('is measured with what was managed before, each scope once', async () => {
    const {repository} = newNamespace(table)
    const before = {
      managesSystem: true,
      resources: ['r'],
      entities: new Map([
        ['gone-ä', ['r', 's']],
        [`user-${'0'.repeat(250)}`, ['_default_', 'r']],
      ]),
    }
    const seen = await repository.provisioner.save(before, await repository.provisioner.get())
    const manifest = manyEntities(1600)
    const both = new ScopeSet([...ScopeSet.of(seen.record), ...ScopeSet.of(managedBy(manifest))]).managed()
    const bytes = itemBytes(repository.provisioner.itemOf(both, seen)) + 1024
    await expect(planManifest(repository, manifest)).rejects.toMatchObject({details: {entities: 1601, bytes}})
  })

  it('can be as large as a plan allows, on this engine', async () => {
    const {repository} = newNamespace(table)
    const seen = await repository.provisioner.get()
    const bytesOf = (count: number) => itemBytes(repository.provisioner.itemOf(managedBy(manyEntities(count)), seen))
    const [base, perEntity] = [bytesOf(0), bytesOf(1) - bytesOf(0)]
    const count = Math.floor((MAX_ITEM_BYTES - 1024 - base) / perEntity)
    const largest = manyEntities(count)
    const plan = await planManifest(repository, largest)
    await expect(planManifest(repository, manyEntities(count + 1))).rejects.toMatchObject({code: 'manifest.too-large'})
    await repository.provisioner.save(managedBy(largest), plan.seen, 'sha256:'.padEnd(71, '0'))
    expect((await repository.provisioner.get()).record.entities.size).toBe(count)
  })
})
