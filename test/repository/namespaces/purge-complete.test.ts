import {expect, it} from 'vitest'
import {Namespaces} from '../../../src/lib/repository/namespaces/namespaces.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {putAll, scanNamespace, strayItems} from '../namespace-items.js'
import {newTenant, stored} from '../namespace-table.js'

/**
 * A purge went by an index that items without both of its keys are not in. Deletion was two writes: a crash in between
 * left a namespace that was neither listed nor recoverable nor purgeable.
 */
describeOnBoth('D-31 namespaces are deleted and recovered as a whole', {}, table => {
  it('purges items that are in no index', async () => {
    const tenant = newTenant(table)
    const namespaces = new Namespaces(tenant)
    const {namespace} = await namespaces.register('strays')
    await putAll(tenant, strayItems(namespace.id))
    await namespaces.delete('strays')
    const removed = await namespaces.purge(namespace.id)
    expect(removed.byKind).toEqual({
      provisioner: 1,
      'entity-config': 3,
      bucket: 1,
      'resource-config': 1,
      other: 1,
    })
    expect(await scanNamespace(tenant, namespace.id)).toEqual([])
  })

  it('leaves both records as before or both as after, when a deletion or recovery crashes at any request', async () => {
    const tenant = newTenant(table)
    const namespaces = new Namespaces(tenant)
    const {namespace} = await namespaces.register('crashing')
    const state = async () => [
      (await stored(tenant, keys.namespaceByName('crashing')))?.status,
      (await stored(tenant, keys.namespaceById(namespace.id)))?.status,
    ]
    const active = [{S: 'active'}, {S: 'active'}]
    const deleted = [undefined, {S: 'deleted'}]
    for (const change of [() => namespaces.delete('crashing'), () => namespaces.recover(namespace.id)]) {
      for (let allowed = 0, done = false; !done; allowed++) {
        let requests = allowed
        tenant.transport.before = () => {
          if (requests-- <= 0) throw new Error('crash')
        }
        done = await change().then(
          () => true,
          () => false,
        )
        tenant.transport.before = () => {}
        expect([active, deleted]).toContainEqual(await state())
      }
    }
    expect(await state()).toEqual(active)
  })
})
