import {beforeEach, describe, expect, it, vi} from 'vitest'
import {BucketQueue} from '../../src/lib/limiter/queue/bucket-queue.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {refusal} from './visit.js'

const request = (consume: Record<string, number>, entity = 'user-1') => ({entity, resource: 'gpt-4', consume})

describeOnBoth('acquire', {}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min', 'tpm=10k/min')
  })

  describe('L7 calls', () => {
    it('makes one failed update, reads limits and entity, and writes once for the first request', async () => {
      await scene.limiter().acquire(request({rpm: 1, tpm: 500}))
      expect(scene.calls.sort()).toEqual(['BatchGetItem', 'GetItem', 'UpdateItem', 'UpdateItem'])
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 9500, consumed: 500})
    })

    it('admits with one update and no read on the fast path', async () => {
      await scene.limiter().acquire(request({rpm: 1}))
      scene.calls.length = 0
      const before = table.capacity.snapshot()
      await scene.limiter().acquire(request({rpm: 1, tpm: 500}))
      expect(scene.calls).toEqual(['UpdateItem'])
      expect(table.capacity.since(before)).toMatchObject({calls: 1, read: 0, write: 1})
    })

    it('refuses with one update that is not applied on the fast path', async () => {
      await scene.limiter().acquire(request({tpm: 10_000}))
      const before = await scene.shards('user-1', 'gpt-4')
      scene.calls.length = 0
      const error = await refusal(scene.limiter().acquire(request({tpm: 100})))
      expect(scene.calls).toEqual(['UpdateItem'])
      expect(error.retryAfterMs).toBe(601)
      expect(await scene.shards('user-1', 'gpt-4')).toEqual(before)
    })

    it('makes at most one failed update, reads that miss the caches, and one write on the slow path', async () => {
      await scene.limiter().acquire(request({tpm: 10_000}))
      scene.nowMs += 1000
      scene.calls.length = 0
      const limiter = scene.limiter()
      await limiter.acquire(request({tpm: 100}))
      expect(scene.calls.sort()).toEqual(['BatchGetItem', 'GetItem', 'UpdateItem', 'UpdateItem'])
      scene.calls.length = 0
      scene.nowMs += 1000
      await limiter.acquire(request({tpm: 200}))
      expect(scene.calls).toEqual(['UpdateItem'])
    })

    it('makes no call for a known refusal', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({tpm: 10_000}))
      scene.calls.length = 0
      for (let i = 0; i < 100; i++) await refusal(limiter.acquire(request({tpm: 100})))
      expect(scene.calls).toEqual([])
    })

    it('looks up the known state once for an admission and for a known refusal', async () => {
      const limiter = scene.limiter()
      for (let i = 0; i < 2; i++) await limiter.acquire(request({tpm: 5000}))
      using lookup = vi.spyOn(BucketQueue.prototype, 'knownRefusal')
      await limiter.acquire(request({rpm: 1}))
      expect(lookup).toHaveBeenCalledTimes(1)
      await refusal(limiter.acquire(request({tpm: 100})))
      expect(lookup).toHaveBeenCalledTimes(2)
    })

    it('batches 100 concurrent requests into two writes', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({tpm: 1}))
      await limiter.settled()
      scene.calls.length = 0
      await Promise.all(Array.from({length: 100}, () => limiter.acquire(request({tpm: 1}))))
      expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem'])
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 9899, consumed: 101})
    })

    it('batches 100 callers that resume together and ask again into the next write', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({tpm: 1}))
      await limiter.settled()
      scene.calls.length = 0
      const askTwice = async () => {
        await limiter.acquire(request({tpm: 1}))
        await limiter.acquire(request({tpm: 1}))
      }
      await Promise.all(Array.from({length: 100}, askTwice))
      // The first alone; the others with the first again; the others again.
      expect(scene.calls).toHaveLength(3)
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 9799, consumed: 201})
    })
  })
  it('does not refuse by an old state while a refund is pending', async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({rpm: 60}))
    const {transport} = scene
    let answer = (): void => {}
    const answered = new Promise<void>(resolve => {
      answer = resolve
    })
    const sent = new Promise<void>(resolve => {
      scene.transport = {
        send: async (...args) => {
          const result = await transport.send(...args)
          resolve()
          await answered
          return result
        },
      }
    })
    const inFlight = limiter.acquire(request({tpm: 1}))
    await sent
    const returned = lease.release({rpm: 10})
    const asked = limiter.acquire(request({rpm: 5}))
    await new Promise(setImmediate)
    answer()
    await Promise.all([inFlight, returned, asked])
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 5, consumed: 55})
  })

  describe('cascade', () => {
    beforeEach(async () => {
      await scene.entity('user-1', 'team-1')
      await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'tpm=1000/min')
    })

    it('L7 charges both, later with two parallel updates and no read', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 1, tpm: 100}))
      scene.calls.length = 0
      await limiter.acquire(request({rpm: 1, tpm: 100}))
      expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem'])
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 9800, consumed: 200})
      expect(await scene.totals('team-1', 'gpt-4', 'tpm')).toEqual({tokens: 800, consumed: 200})
    })

    it('L7 S5 makes no call and charges neither if one is known to refuse', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 60, tpm: 900}))
      await refusal(limiter.acquire(request({tpm: 500})))
      await limiter.settled()
      scene.calls.length = 0
      const byParent = await refusal(limiter.acquire(request({tpm: 500})))
      const byChild = await refusal(limiter.acquire(request({rpm: 1, tpm: 50})))
      expect([byParent, byChild].map(({statuses}) => statuses.find(status => status.exceeded)?.entity)).toEqual([
        'team-1',
        'user-1',
      ])
      expect(scene.calls).toEqual([])
    })

    it('S5 refunds the child when a full parent refuses', async () => {
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 1, tpm: 1000}))
      const other = scene.limiter()
      const error = await refusal(other.acquire(request({rpm: 1, tpm: 500})))
      expect(error.statuses.filter(status => status.exceeded)).toMatchObject([
        {entity: 'team-1', level: 'parent', name: 'tpm', available: 0, requested: 500},
      ])
      // The refusal does not wait for the refund; close does.
      await other.settled()
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 9000, consumed: 1000})
      expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 59, consumed: 1})
    })

    it('adjusts, releases and rolls back both levels of a lease', async () => {
      const limiter = scene.limiter()
      const lease = await limiter.acquire(request({rpm: 1, tpm: 100}))
      await lease.adjust({tpm: 50})
      expect(lease.consumed).toEqual({rpm: 1, tpm: 150})
      await lease.release({tpm: 120})
      expect(await scene.totals('team-1', 'gpt-4', 'tpm')).toEqual({tokens: 970, consumed: 30})
      await lease.consume({tpm: 10})
      await lease.rollback()
      expect(await scene.totals('team-1', 'gpt-4', 'tpm')).toEqual({tokens: 1000, consumed: 0})
      expect(await scene.totals('user-1', 'gpt-4', 'tpm')).toEqual({tokens: 10_000, consumed: 0})
    })
  })

  describe('shards', () => {
    async function grow(limiter: ReturnType<Scene['limiter']>): Promise<void> {
      await limiter.acquire(request({rpm: 1}))
      scene.nowMs += 1
      const {splitBucket} = await import('../../src/lib/repository/buckets/split.js')
      expect(await splitBucket(scene.tenant, 'user-1', 'gpt-4', 1)).toBe(2)
      expect(await splitBucket(scene.tenant, 'user-1', 'gpt-4', 2)).toBe(4)
    }

    it('S8 moves tokens in a split, and gathers a request as large as the whole capacity', async () => {
      const limiter = scene.limiter()
      await grow(limiter)
      expect(await scene.totals('user-1', 'gpt-4', 'tpm', 4)).toEqual({tokens: 10_000, consumed: 0})
      const fresh = scene.limiter()
      await fresh.acquire(request({tpm: 10_000}))
      expect(await scene.totals('user-1', 'gpt-4', 'tpm', 4)).toEqual({tokens: 0, consumed: 10_000})
      const error = await refusal(fresh.acquire(request({tpm: 5000})))
      expect(error.retryAfterMs).toBeGreaterThan(29_000)
      scene.nowMs += error.retryAfterMs
      await fresh.acquire(request({tpm: 5000}))
    })
  })
})
