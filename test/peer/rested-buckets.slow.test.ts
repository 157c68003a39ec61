import {afterAll, beforeAll, describe, expect, it} from 'vitest'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {sum} from './fleet.js'
import {type PeerScene, usePeers} from './peers.js'
import {describeWithPeers, type PythonClient, PythonProcess} from './python-client.js'

const CAPACITY = 40
const PER_SECOND = 20
const REST_MS = 10_000
const rps = {name: 'rps', capacity: CAPACITY, refill_amount: PER_SECOND, refill_period_seconds: 1}
const ONE = {entity: 'u', resource: 'gpt', consume: {rps: 1}}

/** Requests beyond the admitted ones. */
const SPARE = 8

/** Whole tokens that a bucket earns. */
const earned = (ms: number): number => (PER_SECOND * ms) / 1000

/** Successive requests. */
async function ask(limiter: RateLimiter, times: number): Promise<number> {
  let admitted = 0
  for (let i = 0; i < times; i++) if ((await limiter.tryAcquire(ONE)).admitted) admitted++
  return admitted
}

const take = async (client: PythonClient, times: number, concurrency = 1): Promise<number> =>
  (await client.acquire('u', 'gpt', {rps: 1}, {times, concurrency})).admitted

/**
 * Python takes stored tokens without moving the refill instant, so that the next refill credits the whole rest again:
 * where `stored + earned` passes the capacity, the lesser of the surplus and the stored balance comes on top.
 */
const excessOf = (stored: number, restMs: number): number =>
  Math.max(0, Math.min(stored, stored + earned(restMs) - CAPACITY))

describeWithPeers.each([
  ['0.10', 1],
  // Clients of 0.10 credit every shard with the whole bucket's refill: see write-pressure.slow.test.ts.
  ['0.17', 1],
  ['0.17', 4],
] as const)('a rested bucket of zae-limiter %s with %i shards', (release, shards) => {
  const peers = usePeers(release)
  let second: PythonProcess

  beforeAll(() => {
    second = new PythonProcess(release)
  })
  afterAll(() => second[Symbol.asyncDispose]())

  /** A bucket that stored this many tokens and then rested. */
  async function rested(stored: number, restMs = REST_MS): Promise<PeerScene> {
    const scene = await (release === '0.17' ? peers.currentScene() : peers.scene())
    await scene.client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits: [rps]})
    await scene.client.acquire('u', 'gpt', {rps: CAPACITY - stored})
    for (let count = 1; count < shards; count *= 2) await splitBucket(scene.tenant, 'u', 'gpt', count)
    await scene.pass(restMs)
    expect(await scene.totals('u', 'gpt', 'rps', shards)).toMatchObject({tokens: stored})
    return scene
  }

  it.each([
    [CAPACITY, 80],
    [16, 56],
    [0, 40],
  ])('S1 that stored %i admits %i to Python alone', async (stored, admitted) => {
    const {client} = await rested(stored)
    expect(admitted).toBe(CAPACITY + excessOf(stored, REST_MS))
    // Python draws a shard per request: enough requests reach every shard, but may miss the last tokens of some.
    const taken = await take(client, shards === 1 ? admitted + SPARE : 2 * admitted)
    expect(taken).toBeLessThanOrEqual(admitted)
    expect(taken).toBeGreaterThanOrEqual(shards === 1 ? admitted : admitted - SPARE)
  })

  it('S1 admits nothing on top to Python alone if it is not full after its rest', async () => {
    const {client} = await rested(16, 1000)
    expect(excessOf(16, 1000)).toBe(0)
    expect(await take(client, CAPACITY)).toBeLessThanOrEqual(16 + earned(1000))
  })

  it.each([CAPACITY, 16])('S1 that stored %i admits its capacity to zael alone', async stored => {
    const scene = await rested(stored)
    expect(await scene.ask('u', 'gpt', {rps: 1}, CAPACITY + 4)).toMatchObject({admitted: CAPACITY})
  })

  it('S1 admits its capacity if zael comes first', async () => {
    const scene = await rested(CAPACITY)
    await using limiter = scene.limiter()
    expect(await ask(limiter, CAPACITY / 2)).toBe(CAPACITY / 2)
    const moved = (await scene.shards('u', 'gpt', shards)).filter(({state}) => state.refilledAtMs === scene.nowMs)
    expect(moved).toHaveLength(shards)
    expect(await take(scene.client, CAPACITY / 2 + SPARE)).toBeLessThanOrEqual(CAPACITY / 2)
  })

  it('S1 admits to zael the rest after Python, and what Python took from stored tokens', async () => {
    const scene = await rested(16)
    expect(await take(scene.client, 8)).toBe(8)
    await using limiter = scene.limiter()
    expect(await ask(limiter, CAPACITY + 12)).toBe(CAPACITY)
  })

  it.each([CAPACITY, 16])(
    'S1 that stored %i admits to a mixed fleet at most what it admits to Python alone',
    async stored => {
      const scene = await rested(stored)
      await second.setClock(scene.nowMs)
      const clients = [scene.client, await second.open(peers.table.name, scene.client.namespace)]
      const limiters = [0, 1].map(() => scene.limiter({denyCacheMs: 0}))
      const most = CAPACITY + excessOf(stored, REST_MS)
      let total = 0
      for (let step = 0; step <= 4; step++) {
        const each = step === 0 ? 30 : 6
        const admitted = await Promise.all([
          ...clients.map(client => take(client, each, 3)),
          ...limiters.map(limiter => ask(limiter, each)),
        ])
        total += sum(admitted)
        expect(total).toBeLessThanOrEqual(most + earned(step * 500))
        await scene.pass(500)
        await second.setClock(scene.nowMs)
      }
      expect(total).toBeGreaterThanOrEqual(CAPACITY)
      for (const limiter of limiters) await limiter.close()
    },
  )
})

const BEHIND_MS = 10_000

describeWithPeers('a bucket that a client 10 s behind the others uses', () => {
  const peers = usePeers('0.17')
  let second: PythonProcess

  beforeAll(() => {
    second = new PythonProcess('0.17')
  })
  afterAll(() => second[Symbol.asyncDispose]())

  type Client = 'Python' | 'zael'

  /** Admissions of the client behind and then of the other, at the same instant. */
  async function admitted(scene: PeerScene, [behind, other]: readonly [Client, Client], times: number, rest: number) {
    await second.setClock(scene.nowMs - BEHIND_MS)
    const late = await second.open(peers.table.name, scene.client.namespace)
    await using slow = scene.limiter({clock: () => scene.nowMs - BEHIND_MS, denyCacheMs: 0})
    await using right = scene.limiter({denyCacheMs: 0})
    const first = await (behind === 'Python' ? take(late, times) : ask(slow, times))
    return [first, await (other === 'Python' ? take(scene.client, rest + 4) : ask(right, rest + 4))]
  }

  async function configured(): Promise<PeerScene> {
    const scene = await peers.currentScene()
    await scene.client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits: [rps]})
    return scene
  }

  const PAIRS: readonly (readonly [Client, Client])[] = [
    ['Python', 'Python'],
    ['Python', 'zael'],
    ['zael', 'Python'],
    ['zael', 'zael'],
  ]

  // A time span is credited once, but a bucket that was full 10 s ago by one clock earns 10 s until now by the other.
  describe.each(PAIRS)('%s, beside %s', (behind, other) => {
    it('S7 admits the difference once if the client behind has created and emptied the bucket', async () => {
      const scene = await configured()
      const difference = Math.min(CAPACITY, earned(BEHIND_MS))
      expect(await admitted(scene, [behind, other], CAPACITY, difference)).toEqual([CAPACITY, difference])
    })

    it('S1 S7 admits its capacity to zael after 15 requests of the client behind, and to Python also the stored balance', async () => {
      const scene = await configured()
      const rest = other === 'zael' ? CAPACITY : CAPACITY - 15 + CAPACITY
      expect(await admitted(scene, [behind, other], 15, rest)).toEqual([15, rest])
    })

    it('S7 admits nothing on top of a bucket in use', async () => {
      const scene = await configured()
      await scene.ask('u', 'gpt', {rps: CAPACITY})
      expect(await admitted(scene, [behind, other], 4, 0)).toEqual([0, 0])
    })
  })
})
