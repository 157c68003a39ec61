import {expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import {ConditionFailed} from '../../../src/lib/dynamo/errors.js'
import {admissionUpdate, takeStored} from '../../../src/lib/repository/buckets/consume-write.js'
import {newMark} from '../../../src/lib/repository/buckets/writes.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import type {ConfigScope} from '../../../src/lib/schema/config-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant, putBucket} from '../namespace-table.js'
import {syncLimits} from './sync-limits.js'

const scopes: ConfigScope[] = [
  {level: 'entity', entity: 'user-1', resource: 'gpt-4'},
  {level: 'entity', entity: 'user-1', resource: DEFAULT_RESOURCE},
  {level: 'resource', resource: 'gpt-4'},
  {level: 'system'},
]

/**
 * The reference pushes new limits to shard 0 of one bucket, and only when they are set for exactly that entity and
 * resource; everybody else keeps the old ones until the bucket item disappears. After lowering 100 to 5, 50 more were
 * admitted (also C-21).
 */
describeOnBoth('D-18: config changes reach live buckets', {}, table => {
  it.each(scopes)('lowering 100 to 5 at $level $resource leaves at most 5, over all shards', async scope => {
    const tenant = newTenant(table)
    const configs = new Configs(tenant, {audit: newAudit(tenant)})
    await configs.set(scope, [parseLimit('rpm=100/day')])
    await putBucket(tenant, {entity: 'user-1', resource: 'gpt-4', limits: [parseLimit('rpm=100/day')], shardCount: 4})
    await configs.set(scope, [parseLimit('rpm=5/day')])
    await syncLimits(tenant, scope)

    let admitted = 0
    for (let request = 0; request < 60; request++) {
      const address = {entity: 'user-1', resource: 'gpt-4', shard: request % 4}
      const amounts = new Map([['rpm', 1000n]])
      const room = {bounds: [{earliestRefillMs: 0, highestMilli: new Map()}], shardCount: 4}
      const write = takeStored(amounts, room, {requests: 1, nowMs: tenant.nowMs, repairsPressure: false})
      const update = admissionUpdate(tenant, address, write, newMark(tenant))
      await tenant.transport.send('UpdateItem', update).then(
        () => admitted++,
        error => expect(error).toBeInstanceOf(ConditionFailed),
      )
    }
    // 1.25 tokens per shard: one each.
    expect(admitted).toBe(4)
  })
})
