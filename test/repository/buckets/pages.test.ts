import {describe, expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {type BucketScope, readAddressPage, readShardsAt} from '../../../src/lib/repository/buckets/pages.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {newTenant, putBucket} from '../namespace-table.js'

const limits = parseLimits(['rpm=100'])

describe.each(['KEYS_ONLY', 'ALL'] as const)('with %s in the resource index', resourceIndex => {
  describeOnEngine('pages of buckets', () => {
    const table = useTable({resourceIndex})

    async function populated() {
      const tenant = newTenant(table)
      await putBucket(tenant, {entity: 'ada', resource: 'gpt-4', limits, shardCount: 3})
      await putBucket(tenant, {entity: 'ada', resource: 'search', limits})
      await putBucket(tenant, {entity: 'ben', resource: 'gpt-4', limits})
      await putBucket(newTenant(table), {entity: 'stranger', resource: 'gpt-4', limits})
      return tenant
    }

    it.each<[BucketScope, string[]]>([
      [{kind: 'namespace'}, ['ada gpt-4 0', 'ada gpt-4 1', 'ada gpt-4 2', 'ada search 0', 'ben gpt-4 0']],
      [{kind: 'resource', resource: 'gpt-4'}, ['ada gpt-4 0', 'ada gpt-4 1', 'ada gpt-4 2', 'ben gpt-4 0']],
      [{kind: 'entity', entity: 'ada'}, ['ada gpt-4 0', 'ada gpt-4 1', 'ada gpt-4 2', 'ada search 0']],
      [{kind: 'entity', entity: 'ad'}, []],
      [{kind: 'resource', resource: 'gpt'}, []],
    ])('%o has %o, in pages of one request each', async (scope, expected) => {
      const tenant = await populated()
      const found: string[] = []
      let start: Item | undefined
      let pages = 0
      tenant.transport.calls.length = 0
      do {
        const {addresses, next} = await readAddressPage(tenant, scope, {start, limit: 2})
        expect(addresses.length).toBeLessThanOrEqual(2)
        found.push(...addresses.map(({entity, resource, shard}) => `${entity} ${resource} ${shard}`))
        start = next
        pages++
      } while (start !== undefined)
      expect(found).toEqual(expected)
      expect(tenant.transport.calls).toEqual(Array(pages).fill('Query'))
    })

    it('reads shards by address, and omits those that do not exist', async () => {
      const tenant = await populated()
      const at = (entity: string, shard: number) => ({entity, resource: 'gpt-4', shard})
      const stored = await readShardsAt(tenant, [at('ada', 1), at('ben', 0), at('ada', 9), at('stranger', 0)])
      expect(stored).toMatchObject([
        {kind: 'bucket', record: {entity: 'ada', shard: 1, shardCount: 3}},
        {kind: 'bucket', record: {entity: 'ben', shard: 0}},
      ])
      expect(await readShardsAt(tenant, [])).toEqual([])
    })
  })
})
