import {afterAll, afterEach, beforeAll, beforeEach, expect, it, vi} from 'vitest'
import {sum} from './fleet.js'
import {usePeers} from './peers.js'
import {describeWithPeers, PythonProcess} from './python-client.js'

const AHEAD_MS = 10_000
const SECONDS = 16

const rps = {name: 'rps', capacity: 10, refill_amount: 1, refill_period_seconds: 1}
const ONE = {entity: 'u', resource: 'gpt', consume: {rps: 1}}

describeWithPeers.each(['0.10', '0.17'] as const)('processes of zae-limiter %s that are 10 s ahead', release => {
  const peers = usePeers(release)
  let second: PythonProcess

  beforeAll(() => {
    second = new PythonProcess(release)
  })
  afterAll(() => second[Symbol.asyncDispose]())
  // The steady clock of zael passes with that of the scene.
  beforeEach(() => void vi.useFakeTimers({toFake: ['performance']}))
  afterEach(() => void vi.useRealTimers())

  it('leave zael its share of what refills, and all together get no more than that', async () => {
    const scene = await peers.scene()
    const clients = [scene.client, await second.open(peers.table.name, scene.client.namespace)]
    const setClocks = () => Promise.all(clients.map(({process}) => process.setClock(scene.nowMs + AHEAD_MS)))
    await scene.client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits: [rps]})
    expect(await scene.client.acquire('u', 'gpt', {rps: 10})).toMatchObject({admitted: 1})
    // The lead is credited once, and taken here.
    await setClocks()
    expect(await scene.client.acquire('u', 'gpt', {rps: 10})).toMatchObject({admitted: 1})
    await using first = scene.limiter({denyCacheMs: 0})
    await using another = scene.limiter({denyCacheMs: 0})
    const admits = [
      ...clients.map(client => async () => (await client.acquire('u', 'gpt', {rps: 1})).admitted),
      ...[first, another].map(limiter => async () => Number((await limiter.tryAcquire(ONE)).admitted)),
    ]
    const given = admits.map(() => 0)
    for (let second = 0; second < SECONDS; second++) {
      await setClocks()
      // Each is the first in turn.
      for (let at = 0; at < admits.length; at++) {
        const who = (second + at) % admits.length
        given[who] = (given[who] as number) + (await (admits[who] as () => Promise<number>)())
      }
      scene.nowMs += 1000
      vi.advanceTimersByTime(1000)
    }
    const [python, zael] = [sum(given.slice(0, 2)), sum(given.slice(2))]
    expect(python + zael).toBeLessThanOrEqual(SECONDS)
    expect(python + zael).toBeGreaterThanOrEqual(SECONDS - 1)
    expect(zael).toBeGreaterThanOrEqual(SECONDS / 4)
    expect(await scene.totals('u', 'gpt', 'rps')).toMatchObject({consumed: 20 + python + zael})
  })
})
