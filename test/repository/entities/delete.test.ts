import {expect, it} from 'vitest'
import {Entities} from '../../../src/lib/repository/entities/entities.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {type Item, s} from '../../../src/lib/schema/attribute-value.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {
  bucketItem,
  entityConfigItem,
  entityItem,
  putAll,
  scanNamespace,
  strayItems,
  usageItem,
} from '../namespace-items.js'
import {newAudit, newTenant, put, stored, type TestTenant} from '../namespace-table.js'

const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'no error',
    error => error.code,
  )

const LIMITS = [{name: 'rpm', capacity: 10, refillAmount: 10, refillPeriodSeconds: 60}]
const RESOURCES = ['r1', 'r2', 'r3']

/** An entity with limits on three resources, four shards of each bucket, and 120 usage records. */
async function busyEntity(tenant: TestTenant, entity: string): Promise<void> {
  const {namespace} = tenant
  await put(tenant, entityItem(namespace, entity))
  const configs = new Configs(tenant, {audit: newAudit(tenant)})
  for (const resource of RESOURCES) await configs.set({level: 'entity', entity, resource}, LIMITS)
  await putAll(tenant, [
    ...RESOURCES.flatMap(resource => [0, 1, 2, 3].map(shard => bucketItem(namespace, entity, resource, shard, 4))),
    ...Array.from({length: 120}, (_, hour) => usageItem(namespace, entity, 'r1', hour)),
  ])
}

const ofEntity = (entity: string) => (item: Item) =>
  JSON.stringify(item.PK).match(`(ENTITY#${entity}"|BUCKET#${entity}#)`) !== null

describeOnBoth('deleting an entity', {}, table => {
  const arranged = () => {
    const tenant = newTenant(table)
    const audit = newAudit(tenant)
    const changed: string[] = []
    const entities = new Entities(tenant, {audit, onChanged: entity => changed.push(entity)})
    return {tenant, audit, transport: tenant.transport, namespace: tenant.namespace, entities, changed}
  }

  it('removes record, limits, usage and buckets of all shards, and nothing of its neighbours', async () => {
    const {tenant, audit, transport, namespace, entities, changed} = arranged()
    for (const entity of ['busy', 'busy2', 'bus']) await busyEntity(tenant, entity)
    const before = (await scanNamespace(tenant, namespace)).filter(item => !ofEntity('busy')(item))
    transport.before = (operation, input) => {
      if (operation === 'Query') Object.assign(input as object, {Limit: 50})
    }
    expect(await entities.delete('busy')).toEqual({
      deleted: 136,
      blocks: [],
      byKind: {entity: 1, 'entity-config': 3, usage: 120, bucket: 12},
    })
    const after = await scanNamespace(tenant, namespace)
    expect(after.filter(ofEntity('busy'))).toEqual([])
    const isAbout = /AUDIT#busy"|ENTITY_CONFIG_RESOURCES/
    const others = (items: Item[]) => items.filter(({PK, SK}) => !isAbout.test(JSON.stringify([PK, SK])))
    expect(others(after)).toEqual(others(before))
    expect(await stored(tenant, keys.entityConfigRegistry(namespace))).toMatchObject({
      r1: {N: '2'},
      r2: {N: '2'},
      r3: {N: '2'},
    })
    const [event] = (await audit.list({entity: 'busy', action: 'entity_deleted'})).records
    expect(event?.details).toEqual({records_deleted: 136})
    expect(changed).toEqual(['busy'])
  })

  it('D-38 sends unprocessed items again, and reads unprocessed keys again', async () => {
    const {tenant, transport, namespace, entities} = arranged()
    await busyEntity(tenant, 'busy')
    let turn = 0
    transport.after = async (operation, output, input) => {
      if (turn++ % 2 === 0) return
      const {RequestItems} = input as {RequestItems: {[table: string]: never}}
      if (operation === 'BatchWriteItem') {
        const requests = RequestItems[tenant.name] as unknown as Array<{DeleteRequest: {Key: Item}}>
        const left = requests.slice(-2)
        for (const {DeleteRequest} of left) await put({...tenant, transport: table.transport}, DeleteRequest.Key)
        Object.assign(output as object, {UnprocessedItems: {[tenant.name]: left}})
      }
      if (operation === 'BatchGetItem') {
        const {Keys, ...settings} = RequestItems[tenant.name] as unknown as {Keys: Item[]}
        const answer = output as {Responses: {[table: string]: Item[]}}
        const last = Keys.at(-1) as Item
        const isOther = (item: Item) => JSON.stringify(item.PK) !== JSON.stringify(last.PK)
        answer.Responses[tenant.name] = (answer.Responses[tenant.name] ?? []).filter(isOther)
        Object.assign(output as object, {UnprocessedKeys: {[tenant.name]: {Keys: [last], ...settings}}})
      }
    }
    expect((await entities.delete('busy')).deleted).toBe(136)
    transport.after = () => {}
    expect((await scanNamespace(tenant, namespace)).filter(ofEntity('busy'))).toEqual([])
  })

  it('can be interrupted after any request and finishes when run again, with exact registries and one event', async () => {
    const {tenant, audit, transport, namespace, entities} = arranged()
    for (const entity of ['busy', 'other']) await busyEntity(tenant, entity)
    for (let cuts = 0, done = false; !done; cuts++) {
      let requests = cuts
      transport.before = () => {
        if (requests-- === 0) throw new Error('cut off')
      }
      done = (await codeOf(entities.delete('busy'))) === 'no error'
      transport.before = () => {}
    }
    expect((await scanNamespace(tenant, namespace)).filter(ofEntity('busy'))).toEqual([])
    expect(await stored(tenant, keys.entityConfigRegistry(namespace))).toMatchObject({r1: {N: '1'}, r3: {N: '1'}})
    expect((await audit.list({entity: 'busy', action: 'entity_deleted'})).records).toHaveLength(1)
  })

  it('finds buckets that the index does not show: higher shards, and remains without index keys', async () => {
    const {tenant, namespace, entities} = arranged()
    const hidden = (shard: number) => {
      const {GSI3PK, GSI3SK, ...item} = bucketItem(namespace, 'e', 'r1', shard, 6)
      return item
    }
    const {PK, SK} = keys.bucket(namespace, 'e', 'used', 0)
    const ghost: Item = {PK: s(PK), SK: s(SK), b_rpm_tk: {N: '1000'}, b_rpm_tc: {N: '-1000'}}
    await putAll(tenant, [
      bucketItem(namespace, 'e', 'r1', 0, 6),
      ...[1, 2, 5].map(hidden),
      usageItem(namespace, 'e', 'used', 1),
      ghost,
    ])
    expect(await entities.delete('e')).toEqual({deleted: 6, byKind: {usage: 1, bucket: 5}, blocks: []})
    expect((await scanNamespace(tenant, namespace)).filter(ofEntity('e'))).toEqual([])
  })

  it('does not change the registry for limits that it never counted, and removes counts that reach zero', async () => {
    const {tenant, namespace, entities} = arranged()
    const {GSI3PK, GSI3SK, GSI4SK, ...uncounted} = entityConfigItem(namespace, 'e', 'r1')
    await put(tenant, uncounted, entityItem(namespace, 'e'))
    const configs = new Configs(tenant, {audit: newAudit(tenant)})
    await configs.set({level: 'entity', entity: 'other', resource: 'r1'}, LIMITS)
    await configs.set({level: 'entity', entity: 'e', resource: 'r2'}, LIMITS)
    await entities.delete('e')
    const registry = await stored(tenant, keys.entityConfigRegistry(namespace))
    expect(registry?.r1).toEqual({N: '1'})
    expect(registry).not.toHaveProperty('r2')
  })

  it('refuses while there are children and names them; a deleted child does not count', async () => {
    const {transport, entities} = arranged()
    await entities.create({id: 'p'})
    for (let i = 0; i < 7; i++) await entities.create({id: `c${i}`, parent: 'p'})
    await expect(entities.delete('p')).rejects.toMatchObject({
      code: 'entity.has-children',
      kind: 'conflict',
      message: 'Entity "p" is the parent of c0, c1, c2, c3, c4 and 2 more.',
      details: {children: ['c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6']},
    })
    expect(await entities.get('p')).toMatchObject({entity: 'p'})
    for (let i = 1; i < 7; i++) await entities.delete(`c${i}`)
    // The index still shows a child that has no parent any more.
    let stale: unknown
    transport.after = (operation, output, input) => {
      if (operation !== 'Query' || (input as {IndexName?: string}).IndexName !== 'GSI1') return
      const answer = output as {Items: Item[]}
      if (stale) answer.Items = stale as Item[]
      else stale = answer.Items
    }
    expect(await entities.children('p')).toHaveLength(1)
    await entities.update('c0', {parent: null})
    expect(await codeOf(entities.delete('p'))).toBe('no error')
  })

  it('fails when nothing exists to delete, and writes nothing', async () => {
    const {audit, tenant, namespace, entities} = arranged()
    await putAll(tenant, strayItems(namespace))
    await expect(entities.delete('unknown')).rejects.toMatchObject({code: 'entity.missing', kind: 'notFound'})
    expect((await audit.listAll()).records).toEqual([])
  })

  it('leaves one event when several delete at once', async () => {
    const {audit, entities} = arranged()
    await entities.create({id: 'e'})
    const outcomes = await Promise.all([1, 2, 3].map(() => codeOf(entities.delete('e'))))
    expect(outcomes).toContain('no error')
    expect((await audit.list({entity: 'e', action: 'entity_deleted'})).records).toHaveLength(1)
  })
})
