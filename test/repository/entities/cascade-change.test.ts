import {expect, it} from 'vitest'
import {Entities} from '../../../src/lib/repository/entities/entities.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {bucketItem, putAll} from '../namespace-items.js'
import {newAudit, newTenant, stored} from '../namespace-table.js'

/**
 * Parent and cascade are copied into a bucket when it is created. A bucket that was older than its entity's record
 * never cascaded, and the parent was never charged.
 */
describeOnBoth('D-25 an entity that is created after its first request', {}, table => {
  it('charges its parent from then on: every shard of every bucket is updated', async () => {
    const tenant = newTenant(table)
    const entities = new Entities(tenant, {audit: newAudit(tenant)})
    const shards = ['gpt-4', 'claude/3'].flatMap(resource => [0, 1, 2, 3].map(shard => ({resource, shard})))
    await putAll(
      tenant,
      shards.map(({resource, shard}) => {
        const item = bucketItem(tenant.namespace, 'user', resource, shard, 4)
        // A shard that the index does not show yet.
        if (shard === 3) delete item.GSI3PK
        return item
      }),
    )
    await entities.create({id: 'org'})
    await entities.create({id: 'user', parent: 'org', cascade: true})
    for (const {resource, shard} of shards) {
      const item = await stored(tenant, keys.bucket(tenant.namespace, 'user', resource, shard))
      expect(item).toMatchObject({cascade: {BOOL: true}, parent_id: {S: 'org'}, b_rpm_tk: {N: '99000'}})
    }
  })

  it('charges the new parent after it was deleted and created again under another one', async () => {
    const tenant = newTenant(table)
    const entities = new Entities(tenant, {audit: newAudit(tenant)})
    for (const id of ['old', 'new']) await entities.create({id})
    await entities.create({id: 'user', parent: 'old', cascade: true})
    await entities.delete('user')
    await putAll(tenant, [
      {...bucketItem(tenant.namespace, 'user', 'gpt-4'), cascade: {BOOL: true}, parent_id: {S: 'old'}},
    ])
    await entities.create({id: 'user', parent: 'new', cascade: true})
    const item = await stored(tenant, keys.bucket(tenant.namespace, 'user', 'gpt-4', 0))
    expect(item?.parent_id).toEqual({S: 'new'})
  })
})
