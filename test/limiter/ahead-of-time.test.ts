import {expect, it} from 'vitest'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'

const REQUEST = {entity: 'user-1', resource: 'gpt-4', consume: {rpm: 40}}
const YEAR_MS = 365 * 86_400_000

describeOnBoth('S7 a bucket that a wrong clock refilled years ahead', {}, table => {
  /** An empty bucket of 60 per minute whose refill instant is ahead of time. */
  async function empty(aheadMs: number): Promise<Scene> {
    const scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min')
    await scene.limiter().acquire({...REQUEST, consume: {rpm: 60}})
    await table.transport.send('UpdateItem', {
      TableName: table.name,
      Key: wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0)),
      UpdateExpression: 'SET rf = :rf',
      ExpressionAttributeValues: {':rf': n(scene.nowMs + aheadMs)},
    })
    return scene
  }

  const refilledAt = async (scene: Scene) => (await scene.shards('user-1', 'gpt-4'))[0]?.state.refilledAtMs

  it('is repaired by the first request it refuses, and admits after the stated wait', async () => {
    const scene = await empty(YEAR_MS)
    const limiter = scene.limiter()
    const refusal = await limiter.acquire(REQUEST).catch(error => error)
    expect(refusal).toMatchObject({code: 'limit.exceeded', retryAfterMs: 40_001})
    // The refusal does not wait for the write that repairs the bucket.
    await limiter.settled()
    expect(await refilledAt(scene)).toBe(scene.nowMs)
    scene.nowMs += 40_001
    await scene.limiter().acquire(REQUEST)
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 0.001, consumed: 100})
    await limiter.close()
  })

  it.each([120_000, 86_400_000])('is kept at %d ms ahead: it waits, and no tokens are created', async aheadMs => {
    const scene = await empty(aheadMs)
    const refusal = await scene
      .limiter()
      .acquire(REQUEST)
      .catch(error => error)
    expect(refusal).toMatchObject({code: 'limit.exceeded', retryAfterMs: aheadMs + 40_001})
    expect(await refilledAt(scene)).toBe(scene.nowMs + aheadMs)
  })

  it.each([120_000, YEAR_MS])('is repaired by a reset at %d ms ahead', async aheadMs => {
    const scene = await empty(aheadMs)
    await new NamespaceRepository(scene.tenant, undefined).resetBucket({entity: 'user-1', resource: 'gpt-4'})
    expect(await refilledAt(scene)).toBe(scene.nowMs)
    await scene.limiter().acquire({...REQUEST, consume: {rpm: 60}})
    scene.nowMs += 40_001
    await scene.limiter().acquire(REQUEST)
  })
})
