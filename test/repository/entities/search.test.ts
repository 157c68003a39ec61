import {beforeAll, describe, expect, it} from 'vitest'
import {nearestNames} from '../../../src/lib/core/text/nearest.js'
import {changedMetadata, Entities} from '../../../src/lib/repository/entities/entities.js'
import type {EntityFilter} from '../../../src/lib/repository/entities/search.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {type EntityRecord, encodeEntity} from '../../../src/lib/schema/entity-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {bucketItem, entityConfigItem, entityItem, putAll, scanNamespace, usageItem} from '../namespace-items.js'
import {newAudit, newTenant, put} from '../namespace-table.js'

const record = (namespace: string, entity: string, name: string): EntityRecord => ({
  namespace,
  entity,
  name,
  parent: undefined,
  cascade: false,
  metadata: {},
  createdAt: '',
  version: 1,
})

describeOnBoth('entity search', {}, table => {
  const tenant = newTenant(table)
  const entities = new Entities(tenant, {audit: newAudit(tenant)})
  const ids = Array.from({length: 250}, (_, i) => `e${String(i).padStart(3, '0')}`)
  // Every tenth has a name that matches, in changing case.
  const matching = ids.filter((_, i) => i % 10 === 3)

  beforeAll(async () => {
    const items = ids.map((id, i) => encodeEntity(record(tenant.namespace, id, i % 10 === 3 ? `Ann ${i}` : id)))
    const others = ids.slice(0, 30).map(id => usageItem(tenant.namespace, id, 'ann', 1))
    await putAll(tenant, [...items, ...others, entityItem(`${tenant.namespace}x`, 'ann-elsewhere')])
  })

  it('finds all, by id or name, in any case', async () => {
    const {records, next} = await entities.search({text: 'aNN'})
    expect(records.map(({entity}) => entity)).toEqual(matching)
    expect(next).toBeUndefined()
    expect((await entities.search({text: 'E01'})).records).toHaveLength(10)
    expect(await entities.search({text: 'unknown'})).toEqual({records: [], next: undefined})
  })

  it.each([1, 3, 24, 25, 26])('combines pages of %i into the whole, each full but the last', async limit => {
    const seen: string[] = []
    const sizes: number[] = []
    let cursor: string | undefined
    do {
      const page = await entities.search({text: 'ann'}, {limit, cursor})
      seen.push(...page.records.map(({entity}) => entity))
      sizes.push(page.records.length)
      cursor = page.next
    } while (cursor !== undefined)
    expect(seen).toEqual(matching)
    expect(sizes.slice(0, -1).every(size => size === limit)).toBe(true)
    expect(sizes).toHaveLength(Math.ceil(25 / limit))
  })

  it('accepts cursors of the list, and refuses those of another namespace', async () => {
    const {next} = await entities.list({limit: 100})
    expect((await entities.search({text: 'ann'}, {cursor: next})).records).toHaveLength(15)
    const elsewhere = newTenant(table)
    const others = new Entities(elsewhere, {audit: newAudit(elsewhere)})
    await expect(others.search({text: 'ann'}, {cursor: next})).rejects.toMatchObject({
      code: 'page.cursor',
      kind: 'usage',
    })
    await expect(entities.search({text: 'ann'}, {limit: 0})).rejects.toMatchObject({code: 'page.limit'})
  })

  it('finds children of one parent, by metadata too, page by page', async () => {
    const own = newTenant(table)
    const family = new Entities(own, {audit: newAudit(own)})
    const child = (id: string, metadata = {}) => ({...record(own.namespace, id, id), parent: 'team', metadata})
    await putAll(
      own,
      [
        record(own.namespace, 'team', 'team'),
        child('a', {plan: 'gold', seats: 3}),
        child('b', {plan: 'free'}),
        child('c', {plan: 'gold'}),
        {...child('d', {plan: 'gold'}), parent: 'other'},
      ].map(encodeEntity),
    )
    const found = async (filter: EntityFilter, limit?: number, cursor?: string) => {
      const {records, next} = await family.search(filter, {limit, cursor})
      return {ids: records.map(({entity}) => entity).join(' '), next}
    }
    const gold = {parent: 'team', metadata: {plan: 'gold'}}
    expect((await found({parent: 'team'})).ids).toBe('a b c')
    expect((await found({metadata: {plan: 'gold'}})).ids).toBe('a c d')
    expect((await found({metadata: {seats: '3'}})).ids).toBe('a')
    expect((await found({metadata: {constructor: ''}})).ids).toBe('')
    const first = await found(gold, 1)
    expect(first).toEqual({ids: 'a', next: expect.any(String)})
    expect(await found(gold, 1, first.next)).toEqual({ids: 'c', next: undefined})
    await expect(found(gold, 1, (await entities.list({limit: 1})).next)).rejects.toMatchObject({code: 'page.cursor'})
  })

  it('reads only the key range of a prefix', async () => {
    const before = table.capacity.snapshot()
    const {records} = await entities.search({prefix: 'e01'})
    expect(records.map(({entity}) => entity)).toEqual(ids.slice(10, 20))
    // Ten records at half a unit, and one page of the index.
    expect(table.capacity.since(before)).toMatchObject({calls: 2, read: 5.5})
    expect((await entities.search({prefix: 'e0', text: 'ann'})).records).toHaveLength(10)
    expect((await entities.search({prefix: 'E01'})).records).toEqual([])
  })

  it('finds nothing for a prefix longer than any key, without a request that DynamoDB refuses', async () => {
    const before = tenant.transport.calls.length
    for (const prefix of ['x'.repeat(1024), 'ä'.repeat(600)])
      for (const parent of [undefined, 'e001'])
        expect(await entities.search({prefix, parent})).toEqual({records: [], next: undefined})
    expect(tenant.transport.calls.slice(before)).toEqual([])
    for (const prefix of ['#', '/', 'e/', '\u{10ffff}', '\u{1F600}', 'e\u0001'])
      expect((await entities.search({prefix})).records).toEqual([])
  })

  it('accepts a prefix with a cursor before, in and behind its range', async () => {
    const cursorAt = async (limit: number) => (await entities.list({limit})).next
    const found = async (cursor: string | undefined) =>
      (await entities.search({prefix: 'e01'}, {cursor})).records.map(({entity}) => entity)
    expect(await found(await cursorAt(5))).toEqual(ids.slice(10, 20))
    expect(await found(await cursorAt(15))).toEqual(ids.slice(15, 20))
    expect(await found(await cursorAt(30))).toEqual([])
  })

  it('reports how many entities it has read and found', async () => {
    const reported: unknown[] = []
    await entities.search({text: 'ann'}, {}, {onProgress: progress => reported.push(progress)})
    expect(reported.at(-1)).toEqual({read: 250, found: 25})
    expect(reported.length).toBeGreaterThan(1)
  })

  it('finds ids with the same beginning in three requests', async () => {
    const before = tenant.transport.calls.length
    const similar = await entities.similar('e012x')
    expect(tenant.transport.calls.slice(before).toSorted()).toEqual(['BatchGetItem', 'Query', 'Query'])
    expect(similar).toContain('e012')
    expect(similar.every(id => id.startsWith('e0'))).toBe(true)
    expect(await entities.similar('x')).toHaveLength(250)
    expect(await entities.similar('zz')).toEqual([])
  })

  it('finds similar ids that have only limits or a bucket', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await own.setLimits({level: 'entity', entity: 'noa', resource: 'r'}, ['rpm=1/min'])
    await own.setLimits({level: 'resource', resource: 'r'}, ['rpd=5/day@UTC'])
    await own.topUpBucket({entity: 'main', resource: 'r'}, {rpd: 1})
    expect(await own.entities.similar('noaa')).toEqual(['noa'])
    expect(await own.entities.similar('mai')).toEqual(['main'])
  })

  it('reports deleted entities that stay blocked once, on the page where their ids are', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) {
      await own.entities.create({id})
      await own.setLimits({level: 'entity', entity: id, resource: 'r'}, ['rpm=1/min'])
    }
    for (const id of ['b', 'd', 'f']) {
      await own.setAccess({level: 'entity', entity: id, resource: 'r'}, 'disabled')
      await own.entities.delete(id)
    }
    // Neither deleted nor blocked: these have no record.
    await own.setAccess({level: 'entity', entity: 'x', resource: 'r'}, 'disabled')
    await own.setLimits({level: 'entity', entity: 'y', resource: 'r'}, ['rpm=1/min'])
    const pages: string[][][] = []
    let cursor: string | undefined
    do {
      const deleted: string[] = []
      const onDeleted = ({entity}: {entity: string}) => void deleted.push(entity)
      const page = await own.entities.search({}, {limit: 1, cursor}, {onDeleted})
      pages.push([page.records.map(({entity}) => entity), deleted])
      cursor = page.next
    } while (cursor !== undefined)
    expect(pages).toEqual([
      [['a'], []],
      [['c'], ['b']],
      [['e'], ['d', 'f']],
    ])
  })

  it('finds an id with another separator behind entities with very much usage', async () => {
    const tenant = newTenant(table)
    const {namespace} = tenant
    const own = new Entities(tenant, {audit: newAudit(tenant)})
    for (const id of ['cust-1', 'cust-18', 'cust-2', 'cust-8']) await put(tenant, entityItem(namespace, id))
    await putAll(
      tenant,
      ['cust-1', 'cust-2'].flatMap(id => Array.from({length: 520}, (_, hour) => usageItem(namespace, id, 'r1', hour))),
    )
    expect(nearestNames('cust_8', await own.similar('cust_8'))).toEqual(['cust-8'])
    for (const typed of ['CUST-8', 'cust--8', 'csut-8', 'cust.8']) expect(await own.similar(typed)).toContain('cust-8')
  })

  it('throws from `need` where `get` finds nothing', async () => {
    expect(await entities.need('e000')).toEqual(await entities.get('e000'))
    await expect(entities.need('unknown')).rejects.toMatchObject({code: 'entity.missing', kind: 'notFound'})
  })
})

describeOnBoth('changing and deleting entities', {}, table => {
  const tenant = newTenant(table)
  const entities = new Entities(tenant, {audit: newAudit(tenant)})

  it('returns before and after of a change, and keeps other metadata of concurrent changes', async () => {
    const created = await entities.create({id: 'e', metadata: {keep: 1, drop: 2}})
    const {before, after} = await entities.change('e', {setMetadata: {tier: 'gold'}, unsetMetadata: ['drop', 'never']})
    expect(before).toEqual(created)
    expect(after).toEqual({...created, metadata: {keep: 1, tier: 'gold'}, version: 2})
    const same = await entities.change('e', {setMetadata: {tier: 'gold'}})
    expect(same.before).toBe(same.after)
    await Promise.all(['a', 'b', 'c'].map(key => entities.change('e', {setMetadata: {[key]: true}})))
    expect((await entities.need('e')).metadata).toEqual({keep: 1, tier: 'gold', a: true, b: true, c: true})
  })

  it('counts the items that a deletion would delete, and writes nothing', async () => {
    const {namespace} = tenant
    await putAll(tenant, [
      entityItem(namespace, 'doomed'),
      entityConfigItem(namespace, 'doomed', 'r1'),
      usageItem(namespace, 'doomed', 'r1', 1),
      ...[0, 1].map(shard => bucketItem(namespace, 'doomed', 'r1', shard, 2)),
      entityItem(namespace, 'child', 'parent'),
      entityItem(namespace, 'parent'),
    ])
    const stored = await scanNamespace(tenant, namespace)
    const counts = await entities.countRemoval('doomed')
    expect(counts).toEqual({entity: 1, 'entity-config': 1, usage: 1, bucket: 2})
    await expect(entities.countRemoval('parent')).rejects.toMatchObject({code: 'entity.has-children', kind: 'conflict'})
    await expect(entities.countRemoval('unknown')).rejects.toMatchObject({code: 'entity.missing', kind: 'notFound'})
    expect(await scanNamespace(tenant, namespace)).toEqual(stored)
    expect((await entities.delete('doomed')).byKind).toEqual(counts)
  })
})

describe('metadata', () => {
  it('can be replaced, set and unset; unset wins', () => {
    const before = {...record('ns', 'e', 'e'), metadata: {a: 1, b: 2}}
    expect(changedMetadata(before, {})).toEqual({a: 1, b: 2})
    expect(changedMetadata(before, {setMetadata: {b: 3, c: 4}, unsetMetadata: ['a', 'c']})).toEqual({b: 3})
    expect(changedMetadata(before, {metadata: {x: 1}, setMetadata: {y: 2}})).toEqual({x: 1, y: 2})
  })
})
