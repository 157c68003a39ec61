import {randomBytes} from 'node:crypto'
import {beforeEach, describe, expect, it} from 'vitest'
import type {Limit} from '../../../src/lib/core/limits/limit.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import type {Operation} from '../../../src/lib/dynamo/transport.js'
import {addressOf, Buckets, type ShardedBucket, visibleLimits} from '../../../src/lib/repository/buckets/buckets.js'
import {MARK_SLOTS, newMark} from '../../../src/lib/repository/buckets/writes.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, put, putBucket, type TestTenant} from '../namespace-table.js'

const limits = (...texts: string[]): Limit[] => texts.map(parseLimit)

async function collect(walk: AsyncIterable<ShardedBucket>): Promise<Record<string, number[]>> {
  const found: Record<string, number[]> = {}
  for await (const {entity, resource, shards} of walk) {
    expect(found).not.toHaveProperty([`${entity} ${resource}`])
    found[`${entity} ${resource}`] = shards.map(shard => addressOf(shard).shard)
  }
  return found
}

/** Makes an index answer in pages of a few rows. */
function pageBy(tenant: TestTenant, size: number): void {
  tenant.transport.before = (operation: Operation, input: unknown) => {
    if (operation === 'Query') (input as {Limit: number}).Limit = size
  }
}

/** Removes the rows of some shards from index responses, as if they had not arrived there yet. */
function hideFromIndexes(tenant: TestTenant, isHidden: (pk: string) => boolean): void {
  tenant.transport.after = (operation, output) => {
    if (operation !== 'Query') return
    const answer = output as {Items: Item[]}
    answer.Items = answer.Items.filter(item => !isHidden((item.PK as {S: string}).S))
  }
}

const ghost = (tenant: TestTenant, entity: string, resource: string, shard: number): Promise<void> => {
  const {PK, SK} = keys.bucket(tenant.namespace, entity, resource, shard)
  return put(tenant, {PK: {S: PK}, SK: {S: SK}, b_rpm_tk: {N: '-500'}, b_rpm_tc: {N: '500'}})
}

describeOnBoth('buckets', {eachIndex: true}, table => {
  let tenant: TestTenant
  let buckets: Buckets

  beforeEach(() => {
    tenant = newTenant(table)
    buckets = new Buckets(tenant)
  })

  const putSome = async () => {
    const some = limits('rpm=100/min')
    await putBucket(tenant, {entity: 'a', resource: 'gpt', limits: some, shardCount: 12})
    await putBucket(tenant, {entity: 'a', resource: 'gpt-4', limits: some, shardCount: 2})
    await putBucket(tenant, {entity: 'a:b', resource: 'gpt', limits: some})
    await putBucket(tenant, {entity: 'b', resource: 'gpt', limits: some, shardCount: 4})
    const other = newTenant(table)
    await putBucket(other, {entity: 'a', resource: 'gpt', limits: some})
    await put(tenant, {...keyOf(keys.systemConfig(tenant.namespace)), GSI4PK: {S: tenant.namespace}, GSI4SK: {S: 'X'}})
  }
  const upTo = (count: number) => Array.from({length: count}, (_, shard) => shard)

  it.each([1, 3, 1000])('finds every shard of an entity, a resource, a namespace in pages of %i rows', async size => {
    await putSome()
    pageBy(tenant, size)
    const ofA = {'a gpt': upTo(12), 'a gpt-4': upTo(2)}
    expect(await collect(buckets.ofEntity('a'))).toEqual(ofA)
    expect(await collect(buckets.ofResource('gpt'))).toEqual({'a gpt': upTo(12), 'a:b gpt': [0], 'b gpt': upTo(4)})
    expect(await collect(buckets.ofNamespace())).toEqual({...ofA, 'a:b gpt': [0], 'b gpt': upTo(4)})
    expect(await buckets.find('a', 'gpt-4')).toMatchObject({shardCount: 2, shards: [{}, {}]})
    expect(await collect(buckets.ofEntity('unknown'))).toEqual({})
    expect(await buckets.find('unknown', 'gpt')).toBeUndefined()
  })

  it('finds shards that the index does not know yet', async () => {
    await putSome()
    hideFromIndexes(tenant, pk => !/BUCKET#(a|b)#gpt#(3|11)$/.test(pk))
    expect(await collect(buckets.ofResource('gpt'))).toEqual({'a gpt': upTo(12), 'b gpt': upTo(4)})
    expect(await collect(buckets.ofNamespace())).toEqual({'a gpt': upTo(12), 'b gpt': upTo(4)})
    hideFromIndexes(tenant, () => true)
    expect((await buckets.find('a', 'gpt'))?.shards).toHaveLength(12)
  })

  it('trusts shard 0 when another shard still has the old count', async () => {
    const sketch = {entity: 'a', resource: 'r', limits: limits('rpm=100/min')}
    await putBucket(tenant, {...sketch, shardCount: 4, shards: [0, 2, 3]})
    await putBucket(tenant, {...sketch, shardCount: 2, shards: [1]})
    hideFromIndexes(tenant, pk => !pk.endsWith('#1'))
    expect(await collect(buckets.ofResource('r'))).toEqual({'a r': upTo(4)})
    expect((await buckets.find('a', 'r'))?.shardCount).toBe(4)
  })

  it('ignores an absurd shard count', async () => {
    const shards = [0, 1, 5, 3000]
    await putBucket(tenant, {entity: 'a', resource: 'r', limits: limits('rpm=100/min'), shardCount: 4096, shards})
    expect(await collect(buckets.ofEntity('a'))).toEqual({'a r': shards})
    // 1,024 shards by key, in hundreds; the one beyond came from the index.
    expect(tenant.transport.count('BatchGetItem')).toBe(12)
  })

  it('finds the other shards when shard 0 is gone', async () => {
    const sketch = {entity: 'a', resource: 'r', limits: limits('rpm=100/min'), shardCount: 4}
    await putBucket(tenant, {...sketch, shards: [1, 3]})
    expect(await buckets.find('a', 'r')).toMatchObject({shardCount: 4, shards: [{}, {}]})
  })

  it('reports the remains of refunds as a ghost, and hides the limit that measures writes', async () => {
    await ghost(tenant, 'a', 'r', 0)
    expect((await buckets.find('a', 'r'))?.shards).toMatchObject([{kind: 'ghost', shard: 0}])
    expect(await buckets.get('a', 'r', 0)).toMatchObject({kind: 'ghost'})
    expect(await buckets.get('a', 'r', 1)).toBeUndefined()
    await putBucket(tenant, {entity: 'b', resource: 'r', limits: limits('rpm=100/min', 'tpm=1/min')})
    const bucket = await buckets.get('b', 'r', 0)
    if (bucket?.kind !== 'bucket') throw new Error('no bucket')
    expect([...bucket.record.state.limits.keys()].sort()).toEqual(['rpm', 'tpm', 'wcu'])
    expect([...visibleLimits(bucket.record).keys()].sort()).toEqual(['rpm', 'tpm'])
  })

  it('reads a large namespace in portions', async () => {
    for (let at = 0; at < 250; at++)
      await putBucket(tenant, {entity: `e${at}`, resource: 'r', limits: limits('rpm=100/min')})
    const walk = buckets.ofNamespace()
    await walk.next()
    expect(tenant.transport.count('BatchGetItem')).toBe(1)
    await walk.return()
    expect(Object.keys(await collect(buckets.ofNamespace()))).toHaveLength(250)
  })
})

function keyOf({PK, SK}: {PK: string; SK: string}): Item {
  return {PK: {S: PK}, SK: {S: SK}}
}

describe('a write mark', () => {
  it('uses every slot, and no nonce twice', () => {
    const marks = Array.from({length: 1000}, () => newMark({randomBytes}))
    expect([...new Set(marks.map(({slot}) => slot))].sort()).toEqual(Array.from({length: MARK_SLOTS}, (_, at) => at))
    expect(new Set(marks.map(({nonce}) => nonce)).size).toBe(1000)
  })
})
