import {expect, it} from 'vitest'
import {ConditionFailed} from '../../src/lib/dynamo/errors.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {readRefusals} from '../../src/lib/schema/refusal-counts.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {refusal, request} from './visit.js'

/** Every kind of limit beside a rate that is full between requests. */
const FULL: readonly (readonly string[])[] = [
  ['rpm=100k/min'],
  ['rpm=100k/min,x0.5@"* 2,3 * * *"'],
  ['rpm=100k/min', 'rpd=1M/day@UTC'],
  ['rpm=100k/min', 'sess=1M/5h!'],
  ['rpm=100k/min,x0.5@"* 2,3 * * *"', 'rpd=1M/day@UTC'],
  ['rpm=100k/min,soft', 'rpd=1M/day@UTC,soft'],
  ['rpm=100k/min', 'tpm=1M/min', 'rpd=1M/day@UTC'],
]

describeOnBoth('processes that share a contended bucket', {}, table => {
  const amountsOf = (limits: readonly string[]): Record<string, number> =>
    Object.fromEntries(limits.map(limit => [limit.split('=')[0], 1]))

  it.each(FULL)('L7 take turns on a full bucket with one write each: %s %s %s', async (...limits: string[]) => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, ...limits)
    const consume = amountsOf(limits)
    const limiters = [scene.limiter(), scene.limiter(), scene.limiter()]
    // Twice, so that every process has compared the limits with the configuration.
    for (let turn = 0; turn < 6; turn++) await limiters[turn % 3]?.acquire(request(consume))
    scene.nowMs += 1000
    // The first turn after the pause learns the state that the others left.
    for (const limiter of limiters) await limiter.acquire(request(consume))
    const before = scene.calls.length
    for (let turn = 0; turn < 30; turn++) {
      scene.nowMs += 5
      await limiters[turn % 3]?.acquire(request(consume))
    }
    expect(scene.calls.length - before).toBe(30)
    const [record] = await scene.shards('user-1', 'gpt-4')
    for (const [name, limit] of record?.state.limits ?? []) {
      if (!(name in consume)) continue
      expect(limit.consumedMilli, name).toBe(39_000n)
      // A rate loses refill beyond its capacity; a quota counts every request.
      expect(limit.tokensMilli, name).toBe(limit.capacityMilli - (limit.kind?.quota ? 39_000n : 1000n))
    }
  })

  it('L2 L6 report a request as contended, not as exceeded, when others change the bucket before every write', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min')
    const limiter = scene.limiter()
    for (let turn = 0; turn < 2; turn++) await limiter.acquire(request({rpm: 1}))
    const {transport} = scene
    scene.transport = {
      send: async (operation, input, options) => {
        if (operation !== 'UpdateItem') return transport.send(operation, input, options)
        // The table's response to a write that others overtook.
        const {TableName, Key} = input as {TableName: string; Key: never}
        const {Item} = await transport.send('GetItem', {TableName, Key, ConsistentRead: true})
        throw new ConditionFailed('UpdateItem', Item)
      },
    }
    const error = await refusal(limiter.acquire(request({rpm: 1})))
    expect(error).toMatchObject({contended: true, code: 'limit.exceeded'})
    expect(error.message).toMatch(/^The bucket is contended: .*; try again in 20 ms$/)
    expect(error.statuses).toMatchObject([{name: 'rpm', exceeded: false, available: 98, retryAfterMs: 0}])
    expect(await limiter.tryAcquire(request({rpm: 1}))).toMatchObject({admitted: false, reason: 'contended'})
    expect(await limiter.tryAcquire(request({rpm: 99}))).toMatchObject({admitted: false, reason: 'exceeded'})
    scene.transport = transport
    scene.nowMs += 20
    await limiter.acquire(request({rpm: 98}))
    await limiter.close()
    // Only the request that exceeded its limit counts as refused.
    const Key = wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0))
    const {Item = {}} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
    expect(readRefusals(Item)).toMatchObject({requests: 1})
  })
})
