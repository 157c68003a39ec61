import {expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {Buckets} from '../../../src/lib/repository/buckets/buckets.js'
import {admissionUpdate, takeFromFull, takeStored} from '../../../src/lib/repository/buckets/consume-write.js'
import {sendMarked} from '../../../src/lib/repository/buckets/marked-write.js'
import {newMark} from '../../../src/lib/repository/buckets/writes.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, putBucket} from '../namespace-table.js'

/** DynamoDB deletes expired items some time later; until then their balances must not count. */
describeOnBoth('a bucket that expires', {}, table => {
  const address = {entity: 'e', resource: 'r', shard: 0}
  const amounts = new Map([['rpm', 1000n]])

  it.each([
    ['a second ago', -1, false],
    ['now', 0, false],
    ['in a second', 1, true],
    ['never', undefined, true],
  ] as const)('%s: consumption without a read is applied only while it lives', async (_, inSeconds, applied) => {
    const tenant = newTenant(table)
    const {nowMs} = tenant
    const ttlSeconds = inSeconds === undefined ? undefined : nowMs / 1000 + inSeconds
    await putBucket(tenant, {entity: 'e', resource: 'r', limits: [parseLimit('rpm=10/min')], ttlSeconds})

    const mark = newMark(tenant)
    const room = {bounds: [], shardCount: 1}
    const take = takeStored(amounts, room, {nowMs, requests: 1, repairsPressure: false})
    const update = admissionUpdate(tenant, address, take, mark)
    const consumed = await sendMarked(tenant, update, mark)
    expect(consumed.applied).toBe(applied)

    const stored = await new Buckets(tenant).get('e', 'r', 0)
    if (stored?.kind !== 'bucket') throw new Error('no bucket')
    const bounds = [{latestRefillMs: nowMs, lowestMilli: new Map()}]
    const write = takeFromFull(amounts, stored.record, bounds, {requests: 1, nowMs, ttlSeconds})
    const fullMark = newMark(tenant)
    const full = admissionUpdate(tenant, address, write, fullMark)
    expect((await sendMarked(tenant, full, fullMark)).applied).toBe(applied)
  })
})
