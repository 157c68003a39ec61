import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {Denied} from '../../src/lib/dynamo/errors.js'
import type {Lease} from '../../src/lib/limiter/lease.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {declareDead, HolderRecords, readHolder, sendBeat} from '../../src/lib/repository/buckets/holders.js'
import {
  endReservation,
  openReservations,
  returnReservation,
  storeReservation,
} from '../../src/lib/repository/buckets/reservations.js'
import type {Reservation} from '../../src/lib/schema/reservation-record.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {reserveFor} from './fixtures/reserve.js'
import {StoppableProcess} from './fixtures/stoppable-process.js'
import {slotsIn} from './in-flight/slots.js'
import {request, splitInto} from './visit.js'

describeOnBoth('reservations of quotas', {timeout: 60_000}, table => {
  let scene: Scene
  let gateway: StoppableProcess
  let other: RateLimiter
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/min', 'tpd=1000/day@UTC')
    gateway = new StoppableProcess(scene)
    other = scene.limiter({denyCacheMs: 0})
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  const reserve = (tpd = 500, entity = 'user-1'): Promise<Lease> =>
    gateway.limiter.acquire({...request({rpm: 1, tpd}, entity), reserve: true})
  const ask = (tpd: number, entity = 'user-1') => other.tryAcquire(request({tpd}, entity))
  /** Tokens stored, and consumption counted. */
  const totals = (count = 1, entity = 'user-1') => scene.totals(entity, 'gpt-4', 'tpd', count)

  /** The process dies, and others look for 45 seconds. */
  async function die(): Promise<void> {
    gateway.isRunning = false
    expect(await ask(950)).toMatchObject({admitted: false})
    await gateway.pass(45)
  }

  async function open(): Promise<Reservation[]> {
    const ids = await new HolderRecords(scene.tenant).ids()
    return (await Promise.all(ids.map(id => openReservations(scene.tenant, id)))).flat()
  }

  it('S13 come back within 45 seconds of the first refusal after the process died', async () => {
    await reserve()
    await gateway.pass(2)
    gateway.isRunning = false
    expect((await ask(600)).admitted).toBe(false)
    await gateway.pass(34)
    expect(await totals()).toEqual({tokens: 500, consumed: 500})
    await gateway.pass(11)
    expect(await totals()).toEqual({tokens: 1000, consumed: 0})
    expect((await ask(1000)).admitted).toBe(true)
  })

  it('S13 come back when a process starts to reserve tokens, without a refusal', async () => {
    await reserve()
    await gateway.pass(2)
    gateway.isRunning = false
    await other.acquire({...request({tpd: 1}), reserve: true})
    await gateway.pass(38)
    expect(await totals()).toEqual({tokens: 999, consumed: 1})
  })

  it('S13 come back only once, whoever returns them', async () => {
    await reserve()
    await gateway.pass(2)
    const [reservation] = (await open()) as [Reservation]
    const returns = [1, 2, 3].map(() => returnReservation(scene.tenant, reservation))
    const returned = (await Promise.all(returns)).flatMap(each => each ?? [])
    const addresses = [{entity: 'user-1', resource: 'gpt-4', shard: 0}]
    expect(returned).toEqual([{addresses, tokens: reservation.tokens}])
    expect(await returnReservation(scene.tenant, reservation)).toBeUndefined()
    expect(await totals()).toEqual({tokens: 1000, consumed: 0})
  })

  it('S13 do not come back once their lease has ended', async () => {
    const leases = [await reserve(100), await reserve(100), await reserve(100)] as const
    await gateway.pass(2)
    await leases[0].commit()
    await leases[1].adjust({tpd: -40})
    await leases[2].rollback()
    expect([(await open()).length, await totals()]).toEqual([0, {tokens: 840, consumed: 160}])
    await die()
    await gateway.pass(60)
    expect(await totals()).toEqual({tokens: 840, consumed: 160})
  })

  it('S13 do not come back if their attempt to be stored arrives after the end', async () => {
    await reserve()
    await gateway.pass(2)
    const [{holder, id, tokens}] = (await open()) as [Reservation]
    expect(await endReservation(scene.tenant, {holder, id})).toEqual([])
    await storeReservation(scene.tenant, {holder, id}, tokens)
    expect(await open()).toEqual([])
    await die()
    expect(await totals()).toEqual({tokens: 500, consumed: 500})
  })

  it.each([
    {end: 'a commit', work: (lease: Lease) => lease.commit(), left: 500},
    {end: 'a refund', work: (lease: Lease) => lease.adjust({tpd: -400}), left: 900},
    {
      end: 'two refunds',
      work: (lease: Lease) => Promise.all([lease.adjust({tpd: -300}), lease.adjust({tpd: -100})]),
      left: 900,
    },
    {end: 'a rollback', work: (lease: Lease) => lease.rollback(), left: 1000},
    {
      end: 'a charge and a commit',
      work: async (lease: Lease) => {
        await lease.adjust({tpd: 100})
        await lease.commit()
      },
      left: 400,
    },
  ])('S13 are charged again by $end of a process that goes on after others returned them', async ({work, left}) => {
    const lease = await reserve()
    await gateway.pass(2)
    await die()
    expect(await totals()).toEqual({tokens: 1000, consumed: 0})
    gateway.isRunning = true
    await work(lease)
    expect(await totals()).toEqual({tokens: left, consumed: 1000 - left})
    expect(lease.consumed.tpd ?? 0).toBe(1000 - left)
  })

  it('S13 do not come back into the next period', async () => {
    await reserve()
    await gateway.pass(2)
    gateway.isRunning = false
    scene.nowMs += 86_400_000
    expect((await ask(900)).admitted).toBe(true)
    expect((await ask(900)).admitted).toBe(false)
    await gateway.pass(45)
    expect(await open()).toEqual([])
    expect((await totals()).tokens).toBe(100)
  })

  it('S13 do not come back to a bucket that was created again', async () => {
    await reserve()
    await gateway.pass(2)
    const Key = {PK: {S: `${scene.namespace}/BUCKET#user-1#gpt-4#0`}, SK: {S: '#STATE'}}
    await table.transport.send('DeleteItem', {TableName: table.name, Key})
    gateway.isRunning = false
    await other.acquire(request({tpd: 1}))
    expect((await ask(1000)).admitted).toBe(false)
    await gateway.pass(45)
    expect([await open(), await totals()]).toEqual([[], {tokens: 999, consumed: 1}])
  })

  it('S8 S13 come back to shards that have room for them', async () => {
    await reserve(800)
    await gateway.pass(2)
    await splitInto(scene, 4)
    await other.acquire(request({tpd: 30}))
    gateway.isRunning = false
    expect((await ask(600)).admitted).toBe(false)
    await gateway.pass(45)
    expect(await totals(4)).toEqual({tokens: 970, consumed: 30})
    const shards = await scene.shards('user-1', 'gpt-4', 4)
    for (const {state} of shards) expect(Number(state.limits.get('tpd')?.tokensMilli)).toBeLessThanOrEqual(250_000)
  })

  it('S10 S13 come back to the parent too', async () => {
    await scene.entity('team')
    await scene.entity('user-2', 'team')
    await reserve(500, 'user-2')
    await gateway.pass(2)
    gateway.isRunning = false
    expect((await ask(600, 'user-2')).admitted).toBe(false)
    await gateway.pass(45)
    expect([await totals(1, 'user-2'), await totals(1, 'team')]).toEqual([
      {tokens: 1000, consumed: 0},
      {tokens: 1000, consumed: 0},
    ])
  })

  it('S13 come back if others declared the process dead while it held nothing', async () => {
    const idle = await reserve(1)
    await gateway.pass(2)
    await idle.rollback()
    const [id = ''] = await new HolderRecords(scene.tenant).ids()
    expect(await declareDead(scene.tenant, id, await readHolder(scene.tenant, id))).toBe(true)
    await gateway.pass(30)
    await reserve()
    await gateway.pass(4)
    await die()
    expect(await totals()).toEqual({tokens: 1000, consumed: 0})
  })

  it('S13 come back if they could not be stored at first', async () => {
    await reserve()
    gateway.cutOff = '/HOLDER#'
    await gateway.pass(10)
    gateway.cutOff = undefined
    await gateway.pass(3)
    await die()
    expect(await totals()).toEqual({tokens: 1000, consumed: 0})
  })

  it('S13 come back if they were stored after their limiter was closed', async () => {
    const first = await reserve(100)
    await gateway.pass(2)
    await first.commit()
    await reserve()
    await gateway.limiter.close()
    await gateway.pass(12)
    await die()
    expect(await totals()).toEqual({tokens: 900, consumed: 100})
  })

  it('leave a process alone that holds nothing and does not beat', async () => {
    await reserve(100)
    await gateway.pass(2)
    const idle = scene.limiter()
    const lease = await idle.acquire({...request({tpd: 1}), reserve: true})
    await gateway.pass(2)
    await lease.commit()
    await die()
    const records = await new HolderRecords(scene.tenant).list()
    expect(records.records.map(({isDead}) => isDead).sort()).toEqual([false, true])
  })

  it('S13 of more processes than are compared at once come back after one refusal', async () => {
    await reserveFor(scene, '0first', {tpd: 300})
    await reserveFor(scene, 'zlast', {tpd: 200})
    for (let at = 0; at < 230; at++) {
      const holder = {namespace: scene.namespace, id: `h${at}`, host: 'gw', pid: at, startedAt: ''}
      await sendBeat(scene.tenant, {holder, before: undefined, next: 'once'})
    }
    const warnings: Error[] = []
    const onWarning = (warning: Error) => warnings.push(warning)
    process.on('warning', onWarning)
    expect((await ask(600)).admitted).toBe(false)
    await gateway.pass(75)
    process.off('warning', onWarning)
    expect([await totals(), warnings]).toEqual([{tokens: 1000, consumed: 0}, []])
  })

  it.each([
    {when: 'later', passing: [2], reserve: true, left: 1000},
    {when: 'in the first second', passing: [], reserve: true, left: 1000},
    {when: 'of a part', passing: [2], reserve: {tpd: 300}, left: 800},
  ])('S13 come back after a refund, $when', async ({passing, reserve, left}) => {
    const lease = await gateway.limiter.acquire({...request({rpm: 1, tpd: 500}), reserve})
    for (const seconds of passing) await gateway.pass(seconds)
    await lease.adjust({tpd: -100})
    await gateway.pass(2)
    await die()
    expect(await totals()).toEqual({tokens: left, consumed: 1000 - left})
    expect(await open()).toEqual([])
  })

  it('S12 keep no slots of other resources when their end fails', async () => {
    await scene.configure({level: 'resource', resource: 'search'}, 'parallel=2/inflight')
    const resources = {search: {parallel: 1}}
    const lease = await gateway.limiter.acquire({...request({rpm: 1, tpd: 500}), resources, reserve: true})
    await gateway.pass(2)
    gateway.cutOff = '#RESERVED#'
    gateway.failure = new Denied('UpdateItem', new Error('no permission'))
    const ended = lease.commit()
    await Promise.all([expect(ended).rejects.toBeInstanceOf(Denied), gateway.pass(2)])
    expect((await slotsIn(scene, 'user-1', 'search'))?.limits.get('parallel')?.free).toBe(2)
  })

  it('S13 stay reserved when a rate is refunded', async () => {
    const lease = await reserve()
    await gateway.pass(2)
    const before = await open()
    await lease.adjust({rpm: -1})
    expect([before.length, await open()]).toEqual([1, before])
  })

  describe('of a lease that ends during an outage of a minute', () => {
    const endInOutage = async (): Promise<void> => {
      const lease = await reserve()
      await gateway.pass(2)
      gateway.cutOff = ''
      // Resolves with the first failed attempt, which needs time to pass.
      void lease.commit()
    }

    it('S13 do not come back when the process ends later', async () => {
      await endInOutage()
      await gateway.pass(60)
      gateway.cutOff = undefined
      await gateway.pass(6)
      expect(await open()).toEqual([])
      await die()
      expect(await totals()).toEqual({tokens: 500, consumed: 500})
    })

    it('S13 are charged again if others returned them', async () => {
      await endInOutage()
      expect((await ask(600)).admitted).toBe(false)
      await gateway.pass(60)
      expect(await totals()).toEqual({tokens: 1000, consumed: 0})
      gateway.cutOff = undefined
      await gateway.pass(6)
      expect(await totals()).toEqual({tokens: 500, consumed: 500})
    })
  })

  it('are stored only for leases that stay open for a second', async () => {
    const lease = await reserve()
    await lease.commit()
    await gateway.limiter.acquire(request({tpd: 1}))
    await gateway.pass(3)
    expect(await open()).toEqual([])
    await reserve(100)
    await gateway.pass(2)
    expect(await open()).toMatchObject([
      {tokens: [{entity: 'user-1', resource: 'gpt-4', limit: 'tpd', milli: 100_000n}]},
    ])
  })

  it('hold all quota tokens in withLease, and those that the request names', async () => {
    const done = gateway.limiter.withLease(request({rpm: 1, tpd: 100}), async () => {
      await gateway.pass(2)
      return (await open()).map(({tokens}) => tokens.map(({milli}) => milli))
    })
    expect(await done).toEqual([[100_000n]])
    await gateway.limiter.acquire({...request({rpm: 1, tpd: 100}), reserve: {tpd: 40, rpm: 1}})
    await gateway.pass(2)
    expect((await open()).map(({tokens}) => tokens.map(({milli}) => milli))).toEqual([[40_000n]])
  })

  it('cannot be anything else than true, false or amounts', async () => {
    for (const reserve of ['yes', 1, null, {tpd: -1}])
      await expect(gateway.limiter.acquire({...request({tpd: 1}), reserve: reserve as never})).rejects.toThrow(
        /must be/,
      )
    expect((await scene.shards('user-1', 'gpt-4')).length).toBe(0)
  })
})
