import {describe, expect, it} from 'vitest'
import {Throttled} from '../../../src/lib/dynamo/errors.js'
import {findBinary} from '../../../src/lib/local/engines/dynoxide.js'
import {startTestStack, TestClock} from '../../../src/lib/local/testing/index.js'

const isInstalled = await findBinary().then(
  () => true,
  () => false,
)
const request = {entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}}

describe.skipIf(!isInstalled)('zael/testing', () => {
  it('gives a limiter on its own table, and leaves nothing behind', async () => {
    let endpoint = ''
    {
      await using stack = await startTestStack({limits: ['rpm=2/min']})
      endpoint = stack.endpoint
      const {lease} = (await stack.limiter.tryAcquire(request)) as {lease: {limits: unknown}}
      expect(lease.limits).toMatchObject({rpm: {available: 1, capacity: 2}})
      const namespace = await stack.repository.namespace()
      expect(await namespace.bucket({entity: 'user-1', resource: 'gpt-4'})).toMatchObject({
        limits: [{name: 'rpm', capacity: 2}],
      })
      expect(await stack.newLimiter().available(request)).toMatchObject({rpm: 1})
    }
    await expect(fetch(endpoint)).rejects.toThrow()
  })

  it('moves time without waiting', async () => {
    const time = new TestClock()
    await using stack = await startTestStack({limits: ['rpm=1/min'], clock: time.clock, sleep: time.sleep})
    await stack.limiter.acquire(request)
    const before = time.clock()
    expect(await stack.limiter.tryAcquire({...request, waitMs: 120_000})).toMatchObject({admitted: true})
    expect(time.clock() - before).toBeGreaterThanOrEqual(60_000)
    time.advance(60_001)
    expect(await stack.limiter.available(request)).toEqual({rpm: 1})
  })

  it('L9 returns the slots of a killed limiter in virtual time', async () => {
    const time = new TestClock()
    await using stack = await startTestStack({limits: ['rpm=100/min', 'parallel=2/inflight'], time})
    const other = stack.newLimiter()
    const [dying] = [await other.acquire(request), await stack.limiter.acquire(request)]
    stack.kill(other)
    expect(await stack.limiter.tryAcquire(request)).toMatchObject({admitted: false, reason: 'in-flight'})
    await time.pass(34_000)
    expect(await stack.limiter.tryAcquire(request)).toMatchObject({admitted: false})
    await time.pass(11_000)
    const decision = await stack.limiter.tryAcquire(request)
    expect(decision).toMatchObject({admitted: true, limits: {parallel: {available: 0}}})
    expect(dying.signal.aborted).toBe(false)
  })

  it('S12 keeps the slots of living limiters, however much virtual time passes', async () => {
    const time = new TestClock()
    await using stack = await startTestStack({limits: ['parallel=1/inflight'], time})
    const lease = await stack.limiter.acquire({...request, consume: {}})
    const other = stack.newLimiter()
    const waiting = {...request, consume: {}, waitMs: 120_000}
    expect(await other.tryAcquire(waiting)).toMatchObject({admitted: false, reason: 'in-flight'})
    await time.pass(600_000)
    expect(lease.signal.aborted).toBe(false)
    stack.kill(stack.limiter)
    const before = time.clock()
    expect(await other.tryAcquire(waiting)).toMatchObject({admitted: true})
    expect(time.clock() - before).toBeLessThanOrEqual(45_000)
    expect(() => stack.kill({} as never)).toThrow('not one of this stack')
  })

  it('loses the slots of a process that is suspended', async () => {
    const time = new TestClock()
    await using stack = await startTestStack({limits: ['parallel=1/inflight'], time})
    const lease = await stack.limiter.acquire({...request, consume: {}})
    time.advance(31_000)
    await time.pass(0)
    expect(lease.signal.aborted).toBe(true)
  })

  it('sees and fails requests', async () => {
    const operations: string[] = []
    await using stack = await startTestStack({
      limits: ['rpm=5/min'],
      random: () => 0,
      intercept: (sent, send) => {
        operations.push(sent.operation)
        return send()
      },
    })
    await stack.limiter.acquire(request)
    expect(operations).toContain('UpdateItem')
    const failing = stack.newLimiter({
      timeoutMs: 200,
      onUnavailable: 'allow',
      intercept: async () => {
        throw new Throttled('UpdateItem')
      },
    })
    expect((await failing.acquire(request)).isMetered).toBe(false)
  })

  it('closes twice, and refuses unreadable limits before it starts anything', async () => {
    const stack = await startTestStack()
    await stack.close()
    await stack.close()
    await expect(startTestStack({limits: ['rpm']})).rejects.toMatchObject({code: 'limit.syntax'})
  })
})
