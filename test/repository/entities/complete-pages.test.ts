import {expect, it} from 'vitest'
import {Entities} from '../../../src/lib/repository/entities/entities.js'
import {s} from '../../../src/lib/schema/attribute-value.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {bucketItem, entityItem, putAll, scanNamespace, usageItem} from '../namespace-items.js'
import {newAudit, newTenant} from '../namespace-table.js'

// One page of an answer holds 1 MB at most.
const PADDING = s('x'.repeat(20_000))

/** One page was taken for the whole: children were missing from lists, and a deleted entity left records behind. */
describeOnBoth('D-38 more than one page of records', {}, table => {
  it('finds all children', async () => {
    const tenant = newTenant(table)
    const ids = Array.from({length: 70}, (_, i) => `c${String(i).padStart(2, '0')}`)
    await putAll(
      tenant,
      ids.map(id => ({...entityItem(tenant.namespace, id, 'p'), padding: PADDING})),
    )
    const entities = new Entities(tenant, {audit: newAudit(tenant)})
    tenant.transport.calls.length = 0
    expect((await entities.children('p')).map(({entity}) => entity)).toEqual(ids)
    expect(tenant.transport.count('Query')).toBeGreaterThan(1)
  })

  it('leaves nothing of a deleted entity behind', async () => {
    const tenant = newTenant(table)
    const entities = new Entities(tenant, {audit: newAudit(tenant)})
    const usage = Array.from({length: 70}, (_, hour) => usageItem(tenant.namespace, 'e', 'r', hour))
    const buckets = Array.from({length: 40}, (_, shard) => bucketItem(tenant.namespace, 'e', 'r', shard, 40))
    await putAll(tenant, [
      entityItem(tenant.namespace, 'e'),
      ...[...usage, ...buckets].map(item => ({...item, padding: PADDING})),
    ])
    expect(await entities.delete('e')).toEqual({deleted: 111, byKind: {entity: 1, usage: 70, bucket: 40}, blocks: []})
    const left = await scanNamespace(tenant, tenant.namespace)
    expect(left.map(item => item.action)).toEqual([s('entity_deleted')])
  })
})
