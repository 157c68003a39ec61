import {afterEach, beforeEach, expect, it, vi} from 'vitest'
import {ExpressionBuilder} from '../../../src/lib/dynamo/expression.js'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import type {Lease} from '../../../src/lib/limiter/lease.js'
import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {n} from '../../../src/lib/schema/attribute-value.js'
import {attributes} from '../../../src/lib/schema/attributes.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {request} from '../visit.js'
import {slotsIn} from './slots.js'

describeOnBoth('slots of a process', {timeout: 60_000}, table => {
  let scene: Scene
  let [gateway, other]: RateLimiter[] = []
  /** While false, the calls of `gateway` are never answered, as after kill -9 or SIGSTOP. */
  let isRunning = true
  /** Calls without an answer. */
  let underway = 0
  let bucketWrites = 0
  beforeEach(async () => {
    scene = new Scene(table)
    isRunning = true
    const inner = scene.transport
    scene.transport = {
      send: (...call) => {
        underway++
        if (call[0] === 'UpdateItem' && JSON.stringify(call[1]).includes('/BUCKET#')) bucketWrites++
        return inner.send(...call).finally(() => underway--)
      },
    }
    const {transport} = scene
    const stopping: Transport = {
      send: (operation, input, options) =>
        isRunning ? transport.send(operation, input, options) : new Promise(() => {}),
    }
    gateway = scene.limiter({transport: stopping})
    other = scene.limiter()
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/min', 'parallel=2/inflight')
    vi.useFakeTimers({toFake: ['setTimeout', 'clearTimeout', 'performance']})
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  /** All clocks advance together. */
  async function pass(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) {
      scene.nowMs += 1000
      await vi.advanceTimersByTimeAsync(1000)
      // Calls to an engine take real time.
      for (let idle = 0; idle < 3; idle = underway > 0 ? 0 : idle + 1)
        await new Promise(resolve => setImmediate(resolve))
    }
  }

  const ask = () => (other as RateLimiter).tryAcquire(request({rpm: 1}))
  const hold = async (): Promise<Lease[]> => [
    await (gateway as RateLimiter).acquire(request({rpm: 1})),
    await (gateway as RateLimiter).acquire(request({rpm: 1})),
  ]
  const free = async (entity = 'user-1') => (await slotsIn(scene, entity, 'gpt-4'))?.limits.get('parallel')?.free

  it('S12 L7 keep their buckets from expiring, at every level, with one write when half of the time is left', async () => {
    await scene.entity('team')
    await scene.entity('user-1', 'team')
    const levels = ['user-1', 'team']
    // A charge of a full bucket renews its expiry.
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1000/day', 'parallel=2/inflight')
    const expiries = async () =>
      (await Promise.all(levels.map(entity => scene.shards(entity, 'gpt-4')))).map(
        ([bucket]) => (bucket?.ttlSeconds ?? Number.NaN) - scene.nowMs / 1000,
      )
    const expireIn = async (seconds: number, shown: () => Promise<unknown>) => {
      for (const entity of levels) {
        const Key = wireKey(keys.bucket(scene.namespace, entity, 'gpt-4', 0))
        const until = n(Math.floor(scene.nowMs / 1000) + seconds)
        const update = new ExpressionBuilder().set(attributes.bucket.expiresAt, until).update()
        await table.transport.send('UpdateItem', {TableName: table.name, Key, ...update})
      }
      await shown()
      bucketWrites = 0
    }
    // Its response shows the expiry.
    const used = () => (gateway as RateLimiter).withLease(request({rpm: 1}), () => {})
    const [lease] = await hold().then(([first, second]) => second?.commit().then(() => [first]) ?? [])
    // More than half is left: only beats.
    await expireIn(4 * 86_400, used)
    await pass(25)
    expect(bucketWrites).toBe(0)
    await expireIn(3 * 86_400, used)
    await pass(45)
    expect(bucketWrites).toBe(levels.length)
    for (const seconds of await expiries()) expect(seconds).toBeGreaterThan(7 * 86_400 - 60)
    // Not after the slots are back.
    await expireIn(3 * 86_400, async () => lease?.commit())
    await pass(25)
    expect(bucketWrites).toBe(0)
  })

  it('L9 come back within 45 seconds of the first refusal after the process died', async () => {
    await hold()
    isRunning = false
    expect(await ask()).toMatchObject({admitted: false, reason: 'in-flight'})
    await pass(34)
    expect([await free(), (await ask()).admitted]).toEqual([0, false])
    await pass(11)
    expect(await free()).toBe(2)
    expect((await ask()).admitted).toBe(true)
  })

  it('L9 come back if the process knows the first refusal without a call', async () => {
    await (gateway as RateLimiter).acquire(request({rpm: 1}))
    await ask()
    isRunning = false
    expect((await ask()).admitted).toBe(false)
    await pass(45)
    expect(await free()).toBe(1)
  })

  it('L9 come back as soon if a request was refused before the process died', async () => {
    await hold()
    await ask()
    await pass(12)
    isRunning = false
    await ask()
    await pass(45)
    expect(await free()).toBe(2)
  })

  it('L9 come back too if a request is refused in another bucket while the first ones come back', async () => {
    await hold()
    const {transport} = scene
    let refused: Promise<{readonly admitted: boolean}> | undefined
    const late: RateLimiter = scene.limiter({
      transport: {
        send: async (...call) => {
          const answer = await transport.send(...call)
          const isOfReservations = call[0] === 'Query' && JSON.stringify(call[1]).includes('#RESERVED#')
          if (!isOfReservations) return answer
          refused ??= late.tryAcquire(request({rpm: 1}, 'user-2'))
          await refused
          return answer
        },
      },
    })
    await (gateway as RateLimiter).acquire(request({rpm: 1, parallel: 2}, 'user-2'))
    isRunning = false
    await late.tryAcquire(request({rpm: 1}))
    await pass(45)
    expect([(await refused)?.admitted, await free(), await free('user-2')]).toEqual([false, 2, 2])
  })

  it('S12 stay while leases are open after their limiter was closed', async () => {
    const leases = await hold()
    await (gateway as RateLimiter).close()
    await ask()
    await pass(60)
    expect([await free(), leases[0]?.signal.aborted]).toEqual([0, false])
    for (const lease of leases) await lease.commit()
    expect(await free()).toBe(2)
  })

  it('S12 stay while the process beats, however long its requests take', async () => {
    const leases = await hold()
    for (let minute = 0; minute < 3; minute++) {
      expect((await ask()).admitted).toBe(false)
      await pass(60)
    }
    expect([await free(), leases[0]?.signal.aborted]).toEqual([0, false])
    await leases[0]?.commit()
    expect(await free()).toBe(1)
  })

  it('S12 stay while the process is stopped for 15 seconds, even if it had not beaten for some time', async () => {
    await (await (gateway as RateLimiter).acquire(request({rpm: 1}))).commit()
    await pass(20)
    const [lease] = await hold()
    await ask()
    isRunning = false
    await pass(15)
    expect([await free(), lease?.signal.aborted]).toEqual([0, false])
  })

  it('S12 abort the signal of a lease if only another of its resources has in-flight limits', async () => {
    await scene.configure({level: 'resource', resource: 'search'}, 'rpm=1000/min')
    const both = {entity: 'user-1', resource: 'search', consume: {rpm: 1}, resources: {'gpt-4': {rpm: 1}}}
    const lease = await (gateway as RateLimiter).acquire(both)
    const {signal} = lease
    await pass(12)
    expect(signal.aborted).toBe(false)
    isRunning = false
    await pass(35)
    expect([signal.aborted, lease.signal]).toEqual([true, signal])
  })

  it('S12 are not returned twice by a process that continues after others took them', async () => {
    const leases = await hold()
    isRunning = false
    await ask()
    await pass(45)
    expect(leases.map(({signal}) => signal.aborted)).toEqual([true, true])
    const taken = [await ask(), await ask()]
    expect(taken.map(({admitted}) => admitted)).toEqual([true, true])
    isRunning = true
    for (const lease of leases) await lease.commit()
    expect(await free()).toBe(0)
    expect(await (gateway as RateLimiter).tryAcquire(request({rpm: 1}))).toMatchObject({reason: 'in-flight'})
    for (const decision of taken) if (decision.admitted) await decision.lease.commit()
    await pass(2)
    expect((await (gateway as RateLimiter).tryAcquire(request({rpm: 1}))).admitted).toBe(true)
  })
})
