import {afterEach, beforeEach, expect, it, vi} from 'vitest'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {seededRandom} from './fixtures/seeded-random.js'
import {request} from './visit.js'

/** Tokens per second, and the capacity. */
const RATE = 1
const CAPACITY = 10

const AHEAD_MS = 10_000
const STEP_MS = 250

describeOnBoth('beside a zae-limiter client whose clock is 10 s ahead', {}, table => {
  let scene: Scene
  let python: PythonPeer

  beforeEach(async () => {
    // The process's monotonic clock moves with the scene's.
    vi.useFakeTimers({toFake: ['performance']})
    scene = new Scene(table)
    // A minute begins.
    scene.nowMs = 1_700_000_040_000
    python = new PythonPeer(scene)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, `rps=${RATE}/sec:${CAPACITY}`)
  })
  afterEach(() => vi.useRealTimers())

  function pass(ms: number): void {
    scene.nowMs += ms
    vi.advanceTimersByTime(ms)
  }

  /** Both ask for a token at every step, in random order; resolves to the number each got. */
  async function race(seconds: number): Promise<{zael: number; python: number}> {
    await using limiter = scene.limiter({denyCacheMs: 0})
    const random = seededRandom(7)
    const given = {zael: 0, python: 0}
    const ask = {
      zael: async () => (await limiter.tryAcquire(request({rps: 1}))).admitted,
      python: () => python.acquire('rps', 1, scene.nowMs + AHEAD_MS),
    }
    for (let ms = 0; ms < seconds * 1000; ms += STEP_MS) {
      const order = random() < 0.5 ? (['zael', 'python'] as const) : (['python', 'zael'] as const)
      for (const who of order) if (await ask[who]()) given[who]++
      pass(STEP_MS)
    }
    return given
  }

  it.each([
    ['', []],
    [' of a bucket that has a daily quota', ['rpd=100k/day@UTC']],
  ])('gives zael its share of the refill%s, and both together no more than the rate', async (_, others) => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, `rps=${RATE}/sec:${CAPACITY}`, ...others)
    await scene.limiter().acquire(request({rps: CAPACITY}))
    // The client's lead of 10 s is credited once.
    expect(await python.acquire('rps', CAPACITY, scene.nowMs + AHEAD_MS)).toBe(true)
    const given = await race(16)
    expect(given.zael + given.python).toBeLessThanOrEqual(RATE * 16)
    expect(given.zael + given.python).toBeGreaterThanOrEqual(RATE * 16 - 1)
    expect(given.zael).toBeGreaterThanOrEqual(RATE * 16 * 0.3)
    expect(given.python).toBeGreaterThanOrEqual(RATE * 16 * 0.3)
  })

  it('gives zael the whole refill when the client is gone, and returns the bucket to the clocks', async () => {
    const limiters = [scene.limiter({denyCacheMs: 0}), scene.limiter({denyCacheMs: 0})]
    for (const limiter of limiters) await limiter.acquire(request({rps: CAPACITY / 2}))
    expect(await python.acquire('rps', CAPACITY, scene.nowMs + AHEAD_MS)).toBe(true)
    const aheadMs = async () => (await python.number('rf')) - scene.nowMs
    let admitted = 0
    async function goOn(seconds: number): Promise<void> {
      for (const limiter of limiters) if ((await limiter.tryAcquire(request({rps: 1}))).admitted) admitted++
      for (let second = 0; second < seconds; second += 5) {
        pass(5000)
        for (const limiter of limiters) if ((await limiter.tryAcquire(request({rps: 5}))).admitted) admitted += 5
      }
    }
    await goOn(45)
    expect(admitted).toBe(45)
    expect(await aheadMs()).toBe(AHEAD_MS)
    // In the last 10 s of each of two minutes, half of the time is not credited: this pays back the client's early
    // credit.
    await goOn(90)
    expect(await aheadMs()).toBeLessThanOrEqual(0)
    expect(admitted).toBe(135 - AHEAD_MS / 1000)
  })

  it.each([1, 30])('does not credit the lead again after a reset %i s later', async seconds => {
    await using limiter = scene.limiter({denyCacheMs: 0})
    await limiter.acquire(request({rps: CAPACITY}))
    expect(await python.acquire('rps', CAPACITY, scene.nowMs + AHEAD_MS)).toBe(true)
    expect((await limiter.tryAcquire(request({rps: 1}))).admitted).toBe(false)
    pass(seconds * 1000)
    await new NamespaceRepository(scene.tenant, undefined).resetBucket({entity: 'user-1', resource: 'gpt-4'})
    await scene.limiter().acquire(request({rps: CAPACITY}))
    expect((await limiter.tryAcquire(request({rps: 1}))).admitted).toBe(false)
  })

  it('reports a wait that is true for a process that has not seen the bucket', async () => {
    await using warm = scene.limiter({denyCacheMs: 0})
    await warm.acquire(request({rps: CAPACITY}))
    expect(await python.acquire('rps', CAPACITY, scene.nowMs + AHEAD_MS)).toBe(true)
    // Sees the bucket ahead, and follows it.
    expect((await warm.tryAcquire(request({rps: 1}))).admitted).toBe(false)
    pass(1500)
    expect((await warm.tryAcquire(request({rps: 1}))).admitted).toBe(true)
    const refused = await warm.tryAcquire(request({rps: 1}))
    if (refused.admitted || refused.retryAfterMs === null) throw new Error('there is half a token only')
    pass(refused.retryAfterMs)
    await using cold = scene.limiter()
    expect((await cold.tryAcquire(request({rps: 1}))).admitted).toBe(true)
  })

  it('credits a clock that is repeatedly set ahead and back only once', async () => {
    let aheadMs = 0
    await using limiter = scene.limiter({denyCacheMs: 0, clock: () => scene.nowMs + aheadMs})
    await limiter.acquire(request({rps: CAPACITY}))
    let admitted = 0
    for (let second = 0; second < 20; second++) {
      aheadMs = second % 2 === 0 ? 5000 : 0
      while ((await limiter.tryAcquire(request({rps: 1}))).admitted) admitted++
      pass(1000)
    }
    expect(admitted).toBeLessThanOrEqual(RATE * (20 + 5))
    expect(admitted).toBeGreaterThanOrEqual(RATE * 20)
  })

  it.each([
    ['more than a minute ahead', {aheadMs: 61_000, limits: []}],
    ['beyond a reset of the calendar', {aheadMs: AHEAD_MS, limits: ['q=5@"15 * * * *"']}],
    ['of sessions', {aheadMs: AHEAD_MS, limits: ['s=5/5h!']}],
  ])('waits for a bucket %s instead of following it', async (_, {aheadMs, limits}) => {
    scene.nowMs += 55_000
    await scene.configure({level: 'resource', resource: 'gpt-4'}, `rps=${RATE}/sec:${CAPACITY}`, ...limits)
    await using limiter = scene.limiter({denyCacheMs: 0})
    await limiter.acquire(request({rps: CAPACITY}))
    expect(await python.acquire('rps', CAPACITY, scene.nowMs + aheadMs)).toBe(true)
    expect((await limiter.tryAcquire(request({rps: 1}))).admitted).toBe(false)
    pass(2000)
    expect((await limiter.tryAcquire(request({rps: 1}))).admitted).toBe(false)
    expect(await python.number('rf')).toBe(scene.nowMs - 2000 + aheadMs)
  })

  it('makes one write for a request on the warm path', async () => {
    await using limiter = scene.limiter({denyCacheMs: 0})
    await limiter.acquire(request({rps: CAPACITY}))
    expect(await python.acquire('rps', CAPACITY - 2, scene.nowMs + AHEAD_MS)).toBe(true)
    await limiter.acquire(request({rps: 1}))
    scene.calls.length = 0
    pass(2500)
    for (let time = 0; time < 3; time++) await limiter.acquire(request({rps: 1}))
    expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem', 'UpdateItem'])
  })
})
