import {beforeEach, describe, expect, it} from 'vitest'
import {makeLimit} from '../../src/lib/core/limits/limit.js'
import {ValidationFailed} from '../../src/lib/dynamo/errors.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import type {Lease} from '../../src/lib/limiter/lease.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {readNumber} from '../../src/lib/schema/attribute-value.js'
import {attributes} from '../../src/lib/schema/attributes.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, request} from './visit.js'

/** All limiters with this source of randomness share a slot for their marks. */
const sameSlot = (stem: number) => (count: number) => new Uint8Array(count).fill(count === 1 ? 0 : stem)

describeOnBoth('settlements batched with requests', {timeout: 60_000}, table => {
  let scene: Scene
  let faults: FaultTransport
  let limiter: RateLimiter
  let lease: Lease
  beforeEach(async () => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    scene.transport = faults
    limiter = scene.limiter({settle: 'soon', randomBytes: sameSlot(1)})
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/day', 'tpm=1000/day')
    await holdTokens()
  })

  /** Takes 100 of both limits; the second request compares them with the configuration, and takes one. */
  async function holdTokens(): Promise<void> {
    lease = await limiter.acquire(request({rpm: 100, tpm: 100}))
    await limiter.acquire(request({rpm: 1, tpm: 1}))
  }

  const consumed = async (name: 'rpm' | 'tpm') => (await scene.totals('user-1', 'gpt-4', name)).consumed
  const tokens = async (name: 'rpm' | 'tpm') => (await scene.totals('user-1', 'gpt-4', name)).tokens
  const key = () => wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0))
  const dropBucket = () => table.transport.send('DeleteItem', {TableName: table.name, Key: key()})
  const rival = () => scene.limiter({randomBytes: sameSlot(2), transport: table.transport})
  async function counted(): Promise<number> {
    const {Item} = await table.transport.send('GetItem', {TableName: table.name, Key: key()})
    return readNumber(Item ?? {}, attributes.bucket.requests) ?? 0
  }

  /** Calls for a settlement and a request at the same time. */
  async function callsOf(deltas: Record<string, number>, consume: Record<string, number>): Promise<number> {
    faults.start()
    await lease.adjust(deltas)
    await limiter.acquire(request(consume))
    await limiter.settled()
    return faults.calls.length
  }

  /** Runs something just before write number `at` from now on. */
  function before(at: number, intrude: () => Promise<unknown>): void {
    let writes = 0
    scene.transport = {
      send: async (operation, input, options) => {
        if (operation === 'UpdateItem' && ++writes === at) await intrude()
        return faults.send(operation, input, options)
      },
    }
  }

  it.each([
    ['a charge', {tpm: 30}],
    ['a refund', {tpm: -30}],
    ['a refund of exactly the request', {tpm: -10}],
    ['both', {rpm: 20, tpm: -40}],
    ['a settlement of a limit that the request does not name', {rpm: -7}],
  ])('writes %s with the request, and counts both like two writes (S2)', async (_, deltas: Record<string, number>) => {
    expect(await callsOf(deltas, {tpm: 10})).toBe(1)
    const [rpm, tpm] = [101 + (deltas.rpm ?? 0), 111 + (deltas.tpm ?? 0)]
    expect([await consumed('rpm'), await consumed('tpm')]).toEqual([rpm, tpm])
    expect([await tokens('rpm'), await tokens('tpm')]).toEqual([1000 - rpm, 1000 - tpm])
    expect(await counted()).toBe(3)
  })

  it('batches awaited settlements and rollbacks too', async () => {
    const other = await limiter.acquire({...request({tpm: 50}), settle: 'now'})
    faults.start()
    await Promise.all([
      limiter.acquire(request({tpm: 1})),
      other.adjust({tpm: -20}),
      lease.rollback(),
      limiter.acquire(request({tpm: 2})),
    ])
    await limiter.settled()
    expect(faults.calls).toHaveLength(1)
    expect([await consumed('rpm'), await consumed('tpm')]).toEqual([1, 1 + 30 + 1 + 2])
    expect(await counted()).toBe(1 + 1 + 2)
  })

  it.each([-60, 60])(
    'shows the balance of a lease that awaits its own settlement of %i while it takes more (L6)',
    async delta => {
      const other = await limiter.acquire({...request({tpm: 100}), settle: 'now'})
      const shown: (number | undefined)[] = []
      const note = () => shown.push(other.limits.tpm?.available)
      faults.start()
      await Promise.all([other.adjust({tpm: delta}).then(note), other.consume({tpm: 10}).then(note)])
      expect(faults.calls).toHaveLength(1)
      note()
      const left = await tokens('tpm')
      expect(left).toBe(1000 - 101 - 100 - delta - 10)
      for (const each of shown) expect(each).toBeLessThanOrEqual(left + 10)
      expect(shown.at(-1)).toBe(left)
    },
  )

  it.each([
    [-60, 1],
    [60, 1],
  ])('shows the exact balance of a lease that takes more with its own settlement of %i (L6)', async (delta, calls) => {
    faults.start()
    await lease.adjust({tpm: delta})
    await lease.consume({tpm: 10})
    expect(lease.limits.tpm?.available).toBe(1000 - 111 - delta)
    await limiter.settled()
    expect(faults.calls).toHaveLength(calls)
    expect(lease.limits.tpm?.available).toBe(await tokens('tpm'))
    expect(lease.consumed).toEqual({rpm: 100, tpm: 110 + delta})
  })

  it.each([
    ['by the calendar', {reset: {crons: ['0 0 * * *']}, timeZone: 'UTC'}],
    ['by sessions', {reset: {afterSeconds: 3600}}],
  ])('refunds a quota reset %s only with a request of the same period', async (_, kind) => {
    const quota = {name: 'q', capacity: 1000, refillAmount: 0, refillPeriodSeconds: 1}
    scene.nowMs = Date.parse('2026-03-10T09:00:00Z')
    limiter = scene.limiter({settle: 'soon', defaultLimits: [makeLimit({...quota, ...kind})]})
    const spend = (q: number) => limiter.acquire({entity: 'user-1', resource: 'other', consume: {q}})
    const left = async () => (await scene.totals('user-1', 'other', 'q')).tokens
    const held = await spend(100)
    await spend(1)
    faults.start()
    await held.adjust({q: -30})
    await spend(10)
    expect(faults.calls).toHaveLength(1)
    expect(await left()).toBe(919)
    await held.adjust({q: -30})
    scene.nowMs += 86_400_000
    await spend(10)
    await limiter.settled()
    expect(await left()).toBe(990)
  })

  describe('separate writes', () => {
    it('are made when the request needs the refund', async () => {
      await limiter.acquire(request({tpm: 899}))
      expect(await callsOf({tpm: -50}, {tpm: 50})).toBe(2)
      expect(await tokens('tpm')).toBe(0)
    })

    it('are made when the charge creates a debt, and the request is still admitted', async () => {
      expect(await callsOf({tpm: 895}, {tpm: 10})).toBe(2)
      expect(await tokens('tpm')).toBe(-6)
    })

    it('are made when another process took the tokens meanwhile', async () => {
      await rival().acquire(request({tpm: 890}))
      faults.start()
      // Last: it is written within 50 ms, whatever else is slow.
      await lease.adjust({tpm: -50})
      await limiter.acquire(request({tpm: 20}))
      await limiter.settled()
      // The batched write is refused.
      expect(faults.calls).toHaveLength(3)
      expect(await tokens('tpm')).toBe(1000 - 101 + 50 - 890 - 20)
    })

    it.each([
      ['knows', true],
      ['does not know', false],
    ])(
      'are made when the bucket has a new incarnation that the process %s, without a refund (S6)',
      async (_, isKnown) => {
        await dropBucket()
        await rival().acquire(request({rpm: 500, tpm: 500}))
        if (isKnown) await limiter.acquire(request({rpm: 1, tpm: 1}))
        await callsOf({rpm: 5, tpm: -50}, {tpm: 10})
        const own = isKnown ? 1 : 0
        expect([await consumed('rpm'), await consumed('tpm')]).toEqual([505 + own, 510 + own])
      },
    )

    it('are made when the bucket was reset: it is full and needs no refund (S6)', async () => {
      await new NamespaceRepository(scene.tenant, undefined).resetBucket({entity: 'user-1', resource: 'gpt-4'})
      await callsOf({tpm: -50}, {tpm: 10})
      expect(await tokens('tpm')).toBe(990)
    })

    it('are made when the table rejects the combined write', async () => {
      let hasFailed = false
      const {transport} = scene
      const send = (async (operation, input, options) => {
        if (operation === 'UpdateItem' && !hasFailed) {
          hasFailed = true
          throw new ValidationFailed('UpdateItem', new Error('too long'))
        }
        return transport.send(operation, input, options)
      }) as Transport['send']
      scene.transport = {send}
      expect(await callsOf({rpm: 5, tpm: -50}, {tpm: 10})).toBeGreaterThanOrEqual(2)
      expect([await consumed('rpm'), await consumed('tpm')]).toEqual([106, 61])
    })
  })

  describe('without an answer (S6)', () => {
    it.each(['lost before apply', 'lost after apply', 'overtaken'] as const)(
      'counts all parts once when a write is %s',
      async kind => {
        await lease.adjust({rpm: 5, tpm: -50})
        faults.start({kind, at: 1, operation: 'UpdateItem'})
        await limiter.acquire(request({rpm: 1, tpm: 10}))
        await limiter.settled()
        expect(faults.hits).toBe(1)
        expect([await consumed('rpm'), await consumed('tpm')]).toEqual([107, 61])
        // The overtaken write arrives with the next call.
        await limiter.acquire(request({tpm: 1}))
        expect([await consumed('rpm'), await consumed('tpm')]).toEqual([107, 62])
      },
    )

    it.each(['lost before apply', 'lost after apply'] as const)(
      'refunds at most once and charges everything when a write is %s and its mark overwritten',
      async kind => {
        const other = rival()
        await other.acquire(request({rpm: 1, tpm: 1}))
        // The process has not seen the other's mark.
        await limiter.acquire(request({rpm: 1, tpm: 1}))
        await lease.adjust({rpm: 5, tpm: -50})
        faults.start({kind, at: 1, operation: 'UpdateItem'})
        before(2, () => other.acquire(request({rpm: 1, tpm: 1})))
        await limiter.acquire(request({rpm: 10}))
        await limiter.settled()
        const [rpm, tpm] = [await consumed('rpm'), await consumed('tpm')]
        expect(rpm).toBeGreaterThanOrEqual(101 + 3 + 15)
        expect(tpm).toBeGreaterThanOrEqual(101 + 3 - 50)
      },
    )

    it('fails the request in an outage, and settles once when the table is back', async () => {
      await lease.adjust({tpm: -50})
      faults.start({kind: 'throttled', at: 1, operation: 'UpdateItem', times: 8})
      expect(await failure(limiter.acquire(request({tpm: 10})))).toMatchObject({code: 'limiter.unavailable'})
      await limiter.settled()
      expect(await consumed('tpm')).toBe(51)
    })
  })
})
