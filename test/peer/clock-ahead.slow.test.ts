import {afterAll, afterEach, beforeAll, beforeEach, expect, it, vi} from 'vitest'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {sum} from './fleet.js'
import {type PeerScene, usePeers} from './peers.js'
import {describeWithPeers, PythonProcess, quota} from './python-client.js'

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
  // zael's monotonic clock moves with the scene's.
  beforeEach(() => void vi.useFakeTimers({toFake: ['performance']}))
  afterEach(() => void vi.useRealTimers())

  it('leave zael its share of the refill, and get no more than that all together', async () => {
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
      // Each is first in turn.
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

const HOURLY = {cron: '0 * * * *'}
const HOUR_MS = 3_600_000

describeWithPeers('a bucket with a quota that is doubled between the resets of its two shards', () => {
  const peers = usePeers('0.17')

  /** A second before the reset; a process 2 s ahead has taken the second shard's part of the next hour: 6 of 12. */
  async function betweenResets(): Promise<{readonly scene: PeerScene; readonly resetMs: number}> {
    const scene = await peers.currentScene()
    const {client} = scene
    const resetMs = Math.ceil(scene.nowMs / HOUR_MS) * HOUR_MS
    await client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits: [quota('q', 12, HOURLY)]})
    await scene.at(resetMs - 60_000)
    expect(await client.acquire('u', 'gpt', {q: 1}, {times: 12})).toMatchObject({admitted: 12})
    expect(await splitBucket(scene.tenant, 'u', 'gpt', 1)).toBe(2)
    const spent = {rf: n(resetMs + 1000), b_q_tk: n(0), b_q_tc: n(6000), b_q_gc: n(2)}
    const Item = {...(await scene.bucketItem('u', 'gpt', 1)), ...spent}
    await scene.table.transport.send('PutItem', {TableName: scene.table.name, Item})
    await scene.at(resetMs - 1000)
    return {scene, resetMs}
  }

  // Each shard records its own grant, so no later write can see the mistake.
  it('is granted 3 twice by the stream processor of zae-limiter 0.17, even without zael', async () => {
    const {scene, resetMs} = await betweenResets()
    const {client} = scene
    const records = await scene.changes(() =>
      client.repository('bump_shard_count', {entity_id: 'u', resource: 'gpt', current_count: 2}),
    )
    expect((await client.process.stream(client.stack, records)).errors).toEqual([])
    await scene.at(resetMs + 60_000)
    expect(await client.acquire('u', 'gpt', {q: 1}, {times: 40})).toMatchObject({admitted: 9, errors: 0})
  })

  it('is granted everything once by zael', async () => {
    const {scene, resetMs} = await betweenResets()
    expect(await splitBucket(scene.tenant, 'u', 'gpt', 2)).toBe(4)
    await scene.at(resetMs + 60_000)
    expect(await scene.ask('u', 'gpt', {q: 1}, 40)).toMatchObject({admitted: 6, errors: []})
    expect(await scene.client.acquire('u', 'gpt', {q: 1}, {times: 5})).toMatchObject({admitted: 0})
  })
})
