import {expect, it} from 'vitest'
import {refillBucket} from '../../../src/lib/core/buckets/bucket.js'
import {shareOfBucket} from '../../../src/lib/core/buckets/shards.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {Buckets} from '../../../src/lib/repository/buckets/buckets.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant, putBucket} from '../namespace-table.js'
import {syncLimits} from './sync-limits.js'

describeOnBoth('limits in sync while a bucket is split', {}, table => {
  it('credits the elapsed time once, whichever of the two comes first', async () => {
    const tenant = newTenant(table)
    const configs = new Configs(tenant, {audit: newAudit(tenant)})
    await configs.set({level: 'system'}, [parseLimit('rpm=6000/min:2000')])
    const limits = [parseLimit('rpm=6000/min:1000')]
    await putBucket(tenant, {entity: 'e', resource: 'r', limits, consumed: 1000, ttlSeconds: 2e9})
    tenant.nowMs += 1000
    let left = 1
    tenant.transport.before = async operation => {
      if (operation === 'UpdateItem' && left-- > 0)
        await splitBucket({...tenant, transport: table.transport}, 'e', 'r', 1)
    }
    expect(await syncLimits(tenant, {level: 'system'})).toMatchObject({failed: 0})
    const bucket = await new Buckets(tenant).find('e', 'r')
    const held = (bucket?.shards ?? []).map(stored => {
      if (stored.kind !== 'bucket') return 0n
      const {state, shard, shardCount} = stored.record
      expect(shardCount).toBe(2)
      return refillBucket(shareOfBucket(state, shard, 2), tenant.nowMs).limits.get('rpm')?.tokensMilli ?? 0n
    })
    // One second at 100 tokens per second.
    expect(held.reduce((sum, tokens) => sum + tokens, 0n)).toBe(100_000n)
  })
})
