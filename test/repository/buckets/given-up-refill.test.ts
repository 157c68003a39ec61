import {expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {consumeUpdate} from '../../../src/lib/repository/buckets/consume-write.js'
import {sendMarked} from '../../../src/lib/repository/buckets/marked-write.js'
import {newMark} from '../../../src/lib/repository/buckets/writes.js'
import {decodeBucket} from '../../../src/lib/schema/bucket-record.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {newTenant, putBucket} from '../namespace-table.js'

describeOnEngine('a consumption that gives up the refill', () => {
  const table = useTable()
  const address = {entity: 'e', resource: 'r', shard: 0}

  it.each([
    ['no time has passed: it keeps the fraction', 0, 48_000n],
    ['time has passed: the fraction goes with the refill', 1, 0n],
  ] as const)('S3 when %s', async (_, elapsedMs, remainder) => {
    const tenant = newTenant(table)
    const {nowMs} = tenant
    await putBucket(tenant, {entity: 'e', resource: 'r', limits: [parseLimit('rpm=10/min')]})
    const Key = wireKey(keys.bucket(tenant.namespace, 'e', 'r', 0))
    await table.transport.send('UpdateItem', {
      TableName: table.name,
      Key,
      UpdateExpression: 'SET rf = :rf, rfr = :rfr',
      ExpressionAttributeValues: {':rf': {N: String(nowMs)}, ':rfr': {S: `${nowMs}|rpm:48000/60000`}},
    })

    const mark = newMark(tenant)
    const forgoes = [{earliestRefillMs: nowMs, lowestMilli: new Map<string, bigint>()}]
    const room = {bounds: [], shardCount: 1, forgoes}
    const amounts = new Map([['rpm', 1000n]])
    const atMs = nowMs + elapsedMs
    const update = consumeUpdate(tenant, address, amounts, mark, {nowMs: atMs, requests: 1, room})
    const {applied, item} = await sendMarked(tenant, update, mark)
    const stored = item && decodeBucket(item)
    if (stored?.kind !== 'bucket') throw new Error('no bucket')
    const {refilledAtMs, limits} = stored.record.state
    expect({applied, refilledAtMs}).toEqual({applied: true, refilledAtMs: atMs})
    expect(limits.get('rpm')).toMatchObject({tokensMilli: 9000n, remainder})
  })
})
