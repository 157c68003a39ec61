import {expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {bucketsFor, bucketsOf} from '../../../src/lib/insight/lookup/bucket-search.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, put, putBucket} from '../../repository/namespace-table.js'

const limits = parseLimits(['rpm=60', 'tpm=10'])

describeOnBoth('current buckets', {}, table => {
  it('are refilled by calculation, shard by shard, without a write', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await putBucket(tenant, {
      entity: 'e',
      resource: 'r',
      limits,
      shardCount: 2,
      consumed: 40,
      ttlSeconds: 1_900_000_000,
    })
    const writes = tenant.transport.calls.length
    const [bucket] = await bucketsOf(own, 'e', 'r', tenant.nowMs + 10_000)
    expect(bucket).toMatchObject({entity: 'e', resource: 'r', shardCount: 2, parent: null, cascade: false})
    // 30 − 40 + 0.5 per second × 10 s on each shard of rpm.
    expect(bucket?.limits).toEqual([
      {name: 'rpm', level: -10, capacity: 60, debt: 10, refillPerSecond: 1},
      {
        name: 'tpm',
        level: expect.closeTo(-68.334, 2),
        capacity: 10,
        debt: expect.any(Number),
        refillPerSecond: expect.closeTo(1 / 6, 5),
      },
    ])
    expect(bucket?.shards[1]).toMatchObject({
      shard: 1,
      isGhost: false,
      limits: [{name: 'rpm', level: -5, capacity: 30, debt: 5, refillPerSecond: 0.5}, {name: 'tpm'}],
      writePressure: 0,
      writes: 0,
      refillAgeMs: 10_000,
      expiresAt: '2030-03-17T17:46:40Z',
    })
    expect(tenant.transport.calls.slice(writes).filter(call => !/^(Query|BatchGetItem|GetItem)$/.test(call))).toEqual(
      [],
    )
  })

  it('ignore a ghost shard', async () => {
    const tenant = newTenant(table)
    const {PK, SK} = keys.bucket(tenant.namespace, 'e', 'r', 0)
    await put(tenant, {PK: {S: PK}, SK: {S: SK}, b_rpm_tk: {N: '5000'}})
    const [bucket] = await bucketsOf(new NamespaceRepository(tenant, undefined), 'e', 'r', tenant.nowMs)
    expect(bucket).toMatchObject({limits: [], shards: [{isGhost: true, incomplete: ['rpm'], writePressure: null}]})
  })

  it('are paged by resource in order, with names that begin alike and all shards', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    const names = ['a', 'a-b', 'a.b', 'a:b', 'aa', 'b']
    for (const entity of names) await putBucket(tenant, {entity, resource: 'r', limits, shardCount: 2})
    await putBucket(tenant, {entity: 'a', resource: 'r2', limits})
    for (const limit of [1, 2, 5, 6, undefined]) {
      const found: string[] = []
      let cursor: string | undefined
      do {
        const page = await bucketsFor(own, 'r', {limit, cursor}, tenant.nowMs)
        expect(page.records.length).toBeLessThanOrEqual(limit ?? 6)
        found.push(...page.records.map(({entity, shards}) => `${entity} ${shards.length}`))
        cursor = page.next
      } while (cursor !== undefined)
      expect(found).toEqual(names.map(name => `${name} 2`))
    }
    await expect(bucketsFor(own, 'r', {cursor: 'a#b'}, 0)).rejects.toMatchObject({code: 'page.cursor', kind: 'usage'})
  })

  it('raise an error for an unknown name, not for an empty result', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, undefined)
    await expect(bucketsOf(own, 'e', undefined, 0)).rejects.toMatchObject({code: 'entity.missing', kind: 'notFound'})
    await expect(bucketsOf(own, 'e', 'r', 0)).rejects.toMatchObject({code: 'entity.missing'})
    await own.configs.set({level: 'entity', entity: 'e', resource: 'gpt-4'}, limits)
    expect(await bucketsOf(own, 'e', undefined, 0)).toEqual([])
    await expect(bucketsOf(own, 'e', 'r', 0)).rejects.toMatchObject({code: 'bucket.missing', kind: 'notFound'})
    expect(await bucketsFor(own, 'gpt-4', {}, 0)).toEqual({records: [], next: undefined})
    await expect(bucketsFor(own, 'gtp-4', {}, 0)).rejects.toMatchObject({
      code: 'resource.missing',
      hint: 'Did you mean "gpt-4"?',
    })
  })
})
