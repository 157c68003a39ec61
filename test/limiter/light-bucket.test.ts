import {expect, it} from 'vitest'
import {n} from '../../src/lib/schema/attribute-value.js'
import {keys} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {HotBucket} from './fixtures/hot-bucket.js'

const REQUEST = {entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}}

/** Several processes share a bucket that is full again at every request: the usual case. */
describeOnBoth('a lightly used bucket', {timeout: 300_000}, (table, extent) => {
  it.each([
    ['one limiter', 1, 0.2, 1.02],
    ['three limiters', 3, 0.2, 1.2],
    ['eight limiters', 8, 0.2, 1.2],
    // Every other request finds it not quite full.
    ['eight limiters at half its rate', 8, 0.8, 1.75],
  ])('L7 S1 makes little more than one write per decision: %s', async (_, limiters, perSecond, most) => {
    const {namespace} = new Scene(table)
    const bucket = new HotBucket({table, namespace, limit: 'rpm=100/min', limiters, jitter: 0.25})
    await bucket.warmUp()
    const decisions = extent === 'all' ? 400 : 100
    await bucket.offer(perSecond, decisions / perSecond)
    expect(bucket.granted).toBe(bucket.decisions)
    expect(bucket.writesPerDecision).toBeLessThanOrEqual(most)
    expect(bucket.largestExcess).toBeLessThanOrEqual(0)
  })

  /** Two limiters know the bucket as full; then one of them writes without the other knowing. */
  async function knownAsFull() {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'tpm=1000/min')
    const [first, second] = [scene.limiter(), scene.limiter()]
    for (const limiter of [first, second]) {
      await limiter.acquire(REQUEST)
      await limiter.acquire(REQUEST)
    }
    scene.nowMs += 20_000
    scene.calls.length = 0
    return {scene, first, second}
  }

  it('S2 takes from a full bucket with one call per process, and charges it', async () => {
    const {scene, first, second} = await knownAsFull()
    await first.acquire(REQUEST)
    scene.nowMs += 4_000
    await second.acquire(REQUEST)
    scene.nowMs += 4_000
    await first.acquire(REQUEST)
    expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem', 'UpdateItem'])
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 99, consumed: 7})
    expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 1000, consumed: 0})
  })

  it('S1 does not take a bucket for full that others emptied', async () => {
    const {scene, first, second} = await knownAsFull()
    await first.acquire({...REQUEST, consume: {rpm: 100, tpm: 1000}})
    await expect(second.acquire(REQUEST)).rejects.toMatchObject({code: 'limit.exceeded'})
    scene.nowMs += 6_000
    await second.acquire(REQUEST)
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 9, consumed: 105})
    expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 100, consumed: 1000})
  })

  it('S1 does not take a bucket for full that others charged a moment ago', async () => {
    const {scene, first, second} = await knownAsFull()
    for (const limiter of [first, second, first, second]) {
      await limiter.acquire(REQUEST)
      scene.nowMs += 6
    }
    // The 18 ms between them refill 30 milli.
    const [record] = await scene.shards('user-1', 'gpt-4')
    expect(record?.state.limits.get('rpm')?.tokensMilli).toBeLessThanOrEqual(96_030n)
    expect(record?.state.limits.get('rpm')?.consumedMilli).toBe(8000n)
  })

  it.each([
    ['capacity', {b_rpm_cp: n(50_000)}],
    ['refill amount', {b_tpm_ra: n(1_000)}],
    ['refill period', {b_rpm_rp: n(3_600_000)}],
    ['number of shards', {shard_count: n(2)}],
  ])('S9 ignores bounds based on another %s', async (_, changed) => {
    const {scene, first} = await knownAsFull()
    const {PK, SK} = keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0)
    const [name, value] = Object.entries(changed)[0] as [string, {N: string}]
    await table.transport.send('UpdateItem', {
      TableName: table.name,
      Key: {PK: {S: PK}, SK: {S: SK}},
      UpdateExpression: 'SET #name = :value',
      ExpressionAttributeNames: {'#name': name},
      ExpressionAttributeValues: {':value': value},
    })
    const before = await scene.shards('user-1', 'gpt-4')
    await first.acquire(REQUEST)
    // The first try learns of the change, the next one applies it.
    expect(scene.calls.filter(call => call === 'UpdateItem').length).toBeGreaterThan(1)
    expect(before[0]?.state.limits.get('rpm')?.consumedMilli).toBe(4000n)
    expect((await scene.totals('user-1', 'gpt-4', 'rpm')).consumed).toBe(5)
  })
})
