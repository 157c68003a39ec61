import {expect, it} from 'vitest'
import {whyJson, whyLines} from '../../src/lib/cli/acquire/why-presenter.js'
import {LATEST_EXPIRY_SECONDS} from '../../src/lib/core/buckets/bucket.js'
import {explain} from '../../src/lib/insight/why/explain.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {refusal, request, splitInto} from './visit.js'

const YEAR_MS = 365 * 86_400_000
const gpt4 = {level: 'resource', resource: 'gpt-4'} as const

describeOnBoth('L5 the slowest possible limits', {}, table => {
  const sceneWith = async (limit: string) => {
    const scene = new Scene(table)
    await scene.configure(gpt4, limit)
    return {scene, repository: new NamespaceRepository(scene.tenant, 'tester')}
  }

  it.each([
    ['credits=1/day:20000000000'],
    ['credits=1/30d'],
    ['credits=1/1000000000s:9007199254740'],
    ['credits=1/1000000000s:9007199254740,x0.5@"* 2 * * *"'],
    ['credits=9007199254740/1000000000s!'],
    ['credits=9007199254740@"0 0 29 2 *"'],
  ])('admit, refuse and settle with any debt: %s', async limit => {
    const {scene, repository} = await sceneWith(limit)
    await using limiter = scene.limiter()
    const lease = await limiter.acquire(request({credits: 1}))
    await lease.adjust({credits: 9_007_199_254_739})
    const error = await refusal(limiter.acquire(request({credits: 1})))
    expect(error.retryAfterMs).toBeGreaterThan(0)
    expect(Object.values(error.headers()).join()).not.toMatch(/Infinity|NaN/)
    await using restarted = scene.limiter()
    expect((await restarted.tryAcquire(request({credits: 1}))).admitted).toBe(false)
    await restarted.available(request({}))
    await restarted.timeUntilAvailable(request({credits: 1}))
    expect((await repository.bucket({entity: 'user-1', resource: 'gpt-4'}))?.shards[0]?.expiresAt).toMatch(
      /^[2-9]\d{3}-/,
    )
    const question = {entity: 'user-1', resource: 'gpt-4', consume: {credits: 1}}
    const explanation = await explain(repository, question, () => scene.nowMs)
    expect(whyLines(explanation).length).toBeGreaterThan(0)
    expect(whyJson(explanation)).toMatchObject({admitted: false})
    await lease.rollback()
    expect((await scene.limiter().tryAcquire(request({credits: 1}))).admitted).toBe(true)
    await splitInto(scene, 2)
    scene.nowMs += 20 * YEAR_MS
    expect((await scene.limiter().tryAcquire(request({credits: 1}))).admitted).toBe(true)
  })

  it('L2 report a wait that includes the whole debt', async () => {
    const {scene} = await sceneWith('credits=1/30d')
    await using limiter = scene.limiter()
    const lease = await limiter.acquire(request({credits: 1}))
    await lease.adjust({credits: 1e9})
    const {retryAfterMs} = await refusal(limiter.acquire(request({credits: 1})))
    expect(retryAfterMs).toBeGreaterThan(3000 * YEAR_MS)
  })

  it('are charged and shown in a bucket that another client lets expire beyond any date', async () => {
    const {scene, repository} = await sceneWith('credits=1/day:20000000000')
    await (await scene.limiter().acquire(request({credits: 1}))).commit()
    await table.transport.send('UpdateItem', {
      TableName: table.name,
      Key: wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0)),
      UpdateExpression: 'SET #ttl = :ttl',
      ExpressionAttributeNames: {'#ttl': 'ttl'},
      ExpressionAttributeValues: {':ttl': {N: '12096001700000000'}},
    })
    expect(await scene.shards('user-1', 'gpt-4')).toMatchObject([{ttlSeconds: LATEST_EXPIRY_SECONDS}])
    expect((await repository.bucket({entity: 'user-1', resource: 'gpt-4'}))?.shards[0]?.expiresAt).toBe(
      '9999-12-31T23:59:59Z',
    )
    await repository.resetBucket({entity: 'user-1', resource: 'gpt-4'})
    expect((await scene.limiter().tryAcquire(request({credits: 1}))).admitted).toBe(true)
  })
})
