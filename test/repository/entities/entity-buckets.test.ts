import {expect, it} from 'vitest'
import {Entities} from '../../../src/lib/repository/entities/entities.js'
import {type Item, s} from '../../../src/lib/schema/attribute-value.js'
import {decodeBucket} from '../../../src/lib/schema/bucket-record.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {bucketItem, putAll, scanNamespace} from '../namespace-items.js'
import {newAudit, newTenant, put, stored, type TestTenant} from '../namespace-table.js'

describeOnBoth('buckets of an entity that changes', {}, table => {
  const arranged = () => {
    const tenant = newTenant(table)
    return {tenant, namespace: tenant.namespace, entities: new Entities(tenant, {audit: newAudit(tenant)})}
  }

  async function families(tenant: TestTenant, entity: string) {
    const found = new Set<string>()
    for (const item of await scanNamespace(tenant, tenant.namespace)) {
      const bucket = decodeBucket(item)
      if (bucket?.kind === 'bucket' && bucket.record.entity === entity) {
        found.add(`${bucket.record.cascade} ${bucket.record.parent}`)
      }
    }
    return [...found]
  }

  it('follow every change of parent and cascade', async () => {
    const {tenant, namespace, entities} = arranged()
    await entities.create({id: 'p'})
    await entities.create({id: 'q'})
    await putAll(
      tenant,
      [0, 1].map(shard => bucketItem(namespace, 'e', 'r', shard, 2)),
    )
    await putAll(tenant, [bucketItem(namespace, 'e2', 'r')])
    await entities.create({id: 'e', parent: 'p', cascade: true})
    expect(await families(tenant, 'e')).toEqual(['true p'])
    await entities.update('e', {parent: 'q'})
    expect(await families(tenant, 'e')).toEqual(['true q'])
    await entities.update('e', {parent: null, cascade: false})
    expect(await families(tenant, 'e')).toEqual(['false undefined'])
    expect(await families(tenant, 'e2')).toEqual(['false undefined'])
    const {lr, pgen, pinc, ...item} = (await stored(tenant, keys.bucket(namespace, 'e', 'r', 1))) ?? {}
    // A new revision invalidates plans that were made with the old parent.
    expect(lr).toEqual({S: expect.any(String)})
    const record = await stored(tenant, keys.entity(namespace, 'e'))
    expect({pgen, pinc}).toEqual({pgen: record?.pgen, pinc: record?.pinc})
    const others = Object.entries(item).filter(([name]) => !name.startsWith('wn_'))
    expect(Object.fromEntries(others)).toEqual(bucketItem(namespace, 'e', 'r', 1, 2))
  })

  it('are not written when they are up to date', async () => {
    const {tenant, namespace, entities} = arranged()
    await putAll(tenant, [bucketItem(namespace, 'e', 'r')])
    await entities.create({id: 'e'})
    await entities.update('e', {name: 'other'})
    expect(tenant.transport.count('UpdateItem')).toBe(0)
  })

  it('D-33 are not created again when they were deleted in the meantime, not even as ghosts', async () => {
    const {tenant, namespace, entities} = arranged()
    await entities.create({id: 'p'})
    const {PK, SK} = keys.bucket(namespace, 'e', 'r', 1)
    const remains: Item = {PK: s(PK), SK: s(SK), b_rpm_tk: {N: '5'}, b_rpm_tc: {N: '-5'}}
    await put(tenant, bucketItem(namespace, 'e', 'r', 0, 2), remains)
    const gone = keys.bucket(namespace, 'e', 'r', 0)
    tenant.transport.before = async operation => {
      if (operation !== 'UpdateItem') return
      const Key = {PK: s(gone.PK), SK: s(gone.SK)}
      await table.transport.send('DeleteItem', {TableName: tenant.name, Key})
    }
    await entities.create({id: 'e', parent: 'p', cascade: true})
    expect(tenant.transport.count('UpdateItem')).toBe(1)
    expect(await stored(tenant, gone)).toBeUndefined()
    expect(await stored(tenant, {PK, SK})).toEqual(remains)
  })

  it('end up with the last of several changes, whichever write comes last', async () => {
    const {tenant, namespace, entities} = arranged()
    for (const id of ['p', 'q', 'e']) await entities.create({id})
    await putAll(
      tenant,
      [0, 1, 2].map(shard => bucketItem(namespace, 'e', 'r', shard, 3)),
    )
    const others = new Entities({...tenant, transport: table.transport}, {audit: newAudit(tenant)})
    tenant.transport.before = async operation => {
      if (operation !== 'UpdateItem') return
      tenant.transport.before = () => {}
      await others.update('e', {parent: 'q'})
    }
    await entities.update('e', {parent: 'p', cascade: true})
    expect(await entities.get('e')).toMatchObject({parent: 'q', cascade: true})
    expect(await families(tenant, 'e')).toEqual(['true q'])
  })
})
