import {beforeEach, describe, expect, it} from 'vitest'
import {Throttled} from '../../src/lib/dynamo/errors.js'
import {DEFAULT_ATTEMPTS} from '../../src/lib/dynamo/retry.js'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'

const request = (consume: Record<string, number>, signal?: AbortSignal) => ({
  entity: 'user-1',
  resource: 'gpt-4',
  consume,
  ...(signal ? {signal} : {}),
})

describeOnBoth('callers that abort', {}, table => {
  let scene: Scene
  let faults: FaultTransport
  beforeEach(async () => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    scene.transport = faults
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=60/min', 'tpm=10k/min')
  })

  const limiter = () => scene.limiter({random: () => 0})
  const consumed = async (entity = 'user-1', shards = 1) =>
    (await scene.totals(entity, 'gpt-4', 'tpm', shards)).consumed

  /** Aborts once the late call is in flight. */
  async function giveUp(controller: AbortController, asked: Promise<unknown>): Promise<void> {
    asked.catch(() => {})
    while (faults.hits === 0) await new Promise(resolve => setTimeout(resolve, 1))
    controller.abort(new Error('the user closed the window'))
    await expect(asked).rejects.toMatchObject({
      code: 'dynamo.aborted',
      cause: {message: 'the user closed the window'},
    })
  }

  it('sends nothing if aborted before the start', async () => {
    await expect(limiter().acquire(request({tpm: 500}, AbortSignal.abort()))).rejects.toMatchObject({
      code: 'dynamo.aborted',
    })
    expect(faults.calls).toEqual([])
  })

  it('does not treat an abort as an outage: allow does not admit it', async () => {
    const allowing = scene.limiter({onUnavailable: 'allow'})
    const asked = allowing.acquire(request({tpm: 500}, AbortSignal.abort()))
    await expect(asked).rejects.toMatchObject({code: 'dynamo.aborted'})
  })

  it('never charges a request aborted while queued', async () => {
    const busy = limiter()
    await busy.acquire(request({rpm: 1}))
    await busy.settled()
    const controller = new AbortController()
    faults.start({kind: 'late answer', at: 1})
    const first = busy.acquire(request({tpm: 100}))
    await giveUp(controller, busy.acquire(request({tpm: 500}, controller.signal)))
    faults.stop()
    await first
    await busy.settled()
    expect(faults.calls).toEqual(['UpdateItem BUCKET#user-1#gpt-4#0 (1)'])
    expect(await consumed()).toBe(100)
  })

  it.each(['late answer', 'late arrival'] as const)('refunds a charge aborted in flight (%s)', async kind => {
    const busy = limiter()
    await busy.acquire(request({rpm: 1}))
    const controller = new AbortController()
    faults.start({kind, at: 1})
    await giveUp(controller, busy.acquire(request({tpm: 500}, controller.signal)))
    faults.stop()
    await busy.settled()
    expect(await consumed()).toBe(0)
  })

  it('waits at close until the charge of an aborted request is refunded', async () => {
    const busy = limiter()
    await busy.acquire(request({rpm: 1}))
    let throttled = 0
    scene.transport = {
      send: (operation, ...rest) => {
        if (throttled-- > 0) return Promise.reject(new Throttled(operation, new Error('busy')))
        return faults.send(operation, ...rest)
      },
    }
    const controller = new AbortController()
    faults.start({kind: 'late answer', at: 1})
    await giveUp(controller, busy.acquire(request({tpm: 500}, controller.signal)))
    throttled = DEFAULT_ATTEMPTS + 1
    faults.stop()
    await busy.settled()
    expect(throttled).toBeLessThanOrEqual(0)
    expect(await consumed()).toBe(0)
  })

  it('keeps the charges of other requests in the same write', async () => {
    const busy = limiter()
    await busy.acquire(request({rpm: 1}))
    await busy.settled()
    const controller = new AbortController()
    faults.start({kind: 'late answer', at: 2})
    const first = busy.acquire(request({tpm: 1}))
    const others = [busy.acquire(request({tpm: 10})), busy.acquire(request({tpm: 100}))]
    await giveUp(controller, busy.acquire(request({tpm: 500}, controller.signal)))
    faults.stop()
    await Promise.all([first, ...others])
    await busy.settled()
    expect(await consumed()).toBe(111)
  })

  it('writes nothing if aborted while the limits are read', async () => {
    const fresh = limiter()
    const controller = new AbortController()
    faults.start({kind: 'late answer', at: 1, operation: 'BatchGetItem'})
    await giveUp(controller, fresh.acquire(request({tpm: 500}, controller.signal)))
    faults.stop()
    await fresh.settled()
    expect(faults.calls.filter(call => call.startsWith('UpdateItem'))).toHaveLength(1)
    expect(await scene.shards('user-1', 'gpt-4')).toEqual([])
  })

  describe('cascade', () => {
    beforeEach(async () => {
      await scene.entity('user-1', 'team-1')
      await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'tpm=1000/min')
    })

    it.each([
      ['child', 'UpdateItem BUCKET#user-1#gpt-4#0 (1)'],
      ['parent', 'UpdateItem BUCKET#team-1#gpt-4#0 (1)'],
    ])('refunds both levels if aborted while the %s is in flight', async (_, at) => {
      const busy = limiter()
      await busy.acquire(request({rpm: 1}))
      const controller = new AbortController()
      faults.start({kind: 'late answer', at})
      await giveUp(controller, busy.acquire(request({tpm: 500}, controller.signal)))
      faults.stop()
      await busy.settled()
      expect([await consumed(), await consumed('team-1')]).toEqual([0, 0])
    })
  })

  it("L3 throws the abort, not a possibly wrong refusal, while the parent's wait is read", async () => {
    await scene.entity('user-1', 'team-1')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'tpm=1000/min')
    const busy = limiter()
    await busy.acquire(request({tpm: 900}))
    await expect(busy.acquire(request({tpm: 1001}))).rejects.toMatchObject({code: 'request.too-large'})
    // The child is refunded and has about 9,300. The known state of the parent is then more than a second old.
    scene.nowMs += 600
    await busy.settled()
    scene.nowMs += 600
    const controller = new AbortController()
    faults.start({kind: 'late answer', at: 1, operation: 'BatchGetItem'})
    await giveUp(controller, busy.acquire(request({tpm: 9999}, controller.signal)))
    faults.stop()
  })

  describe('gather', () => {
    it.each(['BatchGetItem', 'TransactWriteItems'] as const)(
      'refunds all shards if aborted during the %s',
      async operation => {
        const busy = limiter()
        await busy.acquire(request({rpm: 1}))
        await splitBucket(scene.tenant, 'user-1', 'gpt-4', 1)
        await scene.limiter().acquire(request({rpm: 1}))
        await busy.acquire(request({rpm: 1}))
        const controller = new AbortController()
        faults.start({kind: 'late answer', at: 1, operation})
        await giveUp(controller, busy.acquire(request({tpm: 9000}, controller.signal)))
        faults.stop()
        await busy.settled()
        expect(await consumed('user-1', 2)).toBe(0)
        await busy.acquire(request({tpm: 9000}))
        expect(await consumed('user-1', 2)).toBe(9000)
      },
    )
  })

  describe('leases', () => {
    const failure = new Error('the work failed')

    it('refunds everything and rethrows if the body throws', async () => {
      const work = limiter().withLease(request({tpm: 500}), async lease => {
        await lease.adjust({tpm: 100})
        await lease.consume({tpm: 50})
        throw failure
      })
      await expect(work).rejects.toBe(failure)
      expect(await consumed()).toBe(0)
    })

    it('refunds everything if the body throws while settlements are in flight', async () => {
      const work = limiter().withLease(request({tpm: 500}), lease => {
        faults.start({kind: 'late answer', at: 1})
        void lease.release({tpm: 200})
        void lease.adjust({tpm: 100})
        void lease.consume({tpm: 50})
        setTimeout(() => faults.stop(), 20)
        throw failure
      })
      await expect(work).rejects.toBe(failure)
      expect(await consumed()).toBe(0)
    })

    it('D-35 refunds everything if the body is aborted', async () => {
      const controller = new AbortController()
      const work = limiter().withLease(request({tpm: 500}, controller.signal), async () => {
        controller.abort()
        controller.signal.throwIfAborted()
      })
      await expect(work).rejects.toMatchObject({name: 'AbortError'})
      expect(await consumed()).toBe(0)
    })

    it('keeps the charge if the body returns', async () => {
      expect(await limiter().withLease(request({tpm: 500}), () => 'done')).toBe('done')
      expect(await consumed()).toBe(500)
    })

    it('D-35 refunds everything at the end of an `await using` block, unless committed', async () => {
      const fresh = limiter()
      {
        await using lease = await fresh.acquire(request({tpm: 500}))
        expect(lease.consumed).toEqual({tpm: 500})
      }
      expect(await consumed()).toBe(0)
      {
        await using lease = await fresh.acquire(request({tpm: 500}))
        await lease.commit()
      }
      expect(await consumed()).toBe(500)
    })

    it('S2 refunds tokens once if released twice at the same time', async () => {
      const lease = await limiter().acquire(request({tpm: 500}))
      const releases = [lease.release({tpm: 400}), lease.release({tpm: 400})]
      const outcomes = await Promise.allSettled(releases)
      expect(outcomes.map(({status}) => status)).toEqual(['fulfilled', 'rejected'])
      expect(await consumed()).toBe(100)
    })
  })
})
