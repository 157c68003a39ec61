import {beforeEach, describe, expect, it} from 'vitest'
import {Unavailable} from '../../src/lib/dynamo/errors.js'
import type {OperationInput} from '../../src/lib/dynamo/transport.js'
import type {Lease} from '../../src/lib/limiter/lease.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, isAdmitted, request, splitInto} from './visit.js'

/** All limiters with this source of randomness share a slot for their marks. */
const sameSlot = (stem: number) => (count: number) => new Uint8Array(count).fill(count === 1 ? 0 : stem)

describeOnBoth('S6 attempts that DynamoDB applies late', {timeout: 60_000}, table => {
  let scene: Scene
  let limiter: RateLimiter
  let late: (() => Promise<unknown>)[]
  beforeEach(async () => {
    scene = new Scene(table)
    late = []
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'input=1000/day', 'output=1000/day')
    limiter = scene.limiter()
  })

  const keyOf = (entity: string) => JSON.stringify(wireKey(keys.bucket(scene.namespace, entity, 'gpt-4', 0)))

  /** Holds back the next write to each of these buckets, without a response; they are applied on command. */
  function holdBack(count = 1, entities = ['user-1']): void {
    const left = new Map(entities.map(entity => [keyOf(entity), count]))
    scene.transport = {
      send: async (operation, input, options) => {
        const key = JSON.stringify((input as OperationInput<'UpdateItem'>).Key)
        const more = operation === 'UpdateItem' ? (left.get(key) ?? 0) : 0
        if (more === 0) return table.transport.send(operation, input, options)
        left.set(key, more - 1)
        late.push(() => table.transport.send(operation, input).catch(() => {}))
        throw new Unavailable(operation, true)
      },
    }
  }

  const consumed = async (entity = 'user-1', limit = 'input') => (await scene.totals(entity, 'gpt-4', limit)).consumed
  const arrive = async () => {
    for (const attempt of late) await attempt()
  }

  describe('after their retry and a later write', () => {
    it('charges an acquire on a known bucket once', async () => {
      await limiter.acquire(request({input: 100}))
      holdBack()
      await limiter.acquire(request({input: 30, output: 5}))
      await limiter.acquire(request({input: 1}))
      await arrive()
      expect([late.length, await consumed(), await consumed('user-1', 'output')]).toEqual([1, 131, 5])
    })

    it('charges an acquire on an unseen bucket once', async () => {
      await scene.limiter().acquire(request({input: 100}))
      await limiter.acquire(request({input: 1}, 'user-2'))
      holdBack()
      await limiter.acquire(request({input: 30}))
      await limiter.acquire(request({input: 1}))
      await arrive()
      expect([late.length, await consumed()]).toEqual([1, 131])
    })

    it('charges an acquire that refills the bucket once', async () => {
      await limiter.acquire(request({input: 900}))
      scene.nowMs += 43_200_000
      holdBack()
      await limiter.acquire(request({input: 300}))
      await limiter.acquire(request({input: 1}))
      await arrive()
      expect([late.length, await consumed()]).toEqual([1, 1201])
    })

    it('charges an acquire on a full bucket once', async () => {
      await limiter.acquire(request({input: 10}))
      scene.nowMs += 86_400_000
      holdBack()
      await limiter.acquire(request({input: 30}))
      await limiter.acquire(request({input: 1}))
      await arrive()
      expect([late.length, await consumed()]).toEqual([1, 41])
    })

    it('charges the first acquire once', async () => {
      holdBack(2)
      await limiter.acquire(request({input: 30}))
      await limiter.acquire(request({input: 1}))
      await arrive()
      expect([late.length, await consumed()]).toEqual([2, 31])
    })

    it.each([
      ['a charge', {input: 50}, 151, 0],
      ['a charge of several limits', {input: 50, output: 7}, 151, 7],
      ['a refund', {input: -60}, 41, 0],
      ['a charge and a refund', {input: -60, output: 7}, 41, 7],
    ])('writes %s of a settlement once', async (_, deltas, input, output) => {
      const lease = await limiter.acquire(request({input: 100}))
      holdBack()
      await lease.adjust(deltas)
      await limiter.acquire(request({input: 1}))
      await arrive()
      expect([late.length, await consumed(), await consumed('user-1', 'output')]).toEqual([1, input, output])
    })

    it('refunds a rollback once', async () => {
      const lease = await limiter.acquire(request({input: 100}))
      holdBack()
      await lease.rollback()
      await limiter.acquire(request({input: 1}))
      await arrive()
      expect([late.length, await consumed()]).toEqual([1, 1])
    })

    it('refunds once, even if the charge before it arrives late too', async () => {
      const lease = await limiter.acquire(request({input: 100}))
      holdBack()
      await limiter.acquire(request({input: 30}))
      holdBack()
      await lease.release({input: 60})
      await arrive()
      expect([late.length, await consumed()]).toEqual([2, 70])
    })

    it('charges and refunds a cascade once at both levels', async () => {
      await scene.entity('user-1', 'team-1')
      await limiter.acquire(request({input: 100}))
      holdBack(1, ['user-1', 'team-1'])
      const lease: Lease = await limiter.acquire(request({input: 30}))
      await limiter.acquire(request({input: 1}))
      await arrive()
      expect([late.length, await consumed(), await consumed('team-1')]).toEqual([2, 131, 131])
      holdBack(1, ['user-1', 'team-1'])
      await lease.rollback()
      await limiter.acquire(request({input: 1}))
      await arrive()
      expect([late.length, await consumed(), await consumed('team-1')]).toEqual([4, 102, 102])
    })

    it('fills the bucket once by a reset, even in the millisecond of a refill', async () => {
      const sharing = scene.limiter({randomBytes: sameSlot(1)})
      await sharing.acquire(request({input: 100}))
      holdBack()
      const tenant = {...scene.tenant, transport: scene.transport, randomBytes: sameSlot(0)}
      await new NamespaceRepository(tenant, undefined).resetBucket({entity: 'user-1', resource: 'gpt-4'})
      await sharing.acquire(request({input: 100}))
      await arrive()
      expect([late.length, (await scene.totals('user-1', 'gpt-4', 'input')).tokens]).toEqual([1, 900])
    })
  })

  it.each([
    ['whose clock is 5 s ahead', 5_000],
    ['whose clock is an hour ahead', 3_600_000],
  ])('S6 charges a first acquire of a process %s once, even if a reset moves the instant back', async (_, aheadMs) => {
    const right = scene.limiter({transport: table.transport})
    await right.acquire(request({input: 1}))
    const fast = scene.limiter({clock: () => scene.nowMs + aheadMs})
    await fast.acquire(request({input: 1}, 'user-2'))
    holdBack()
    await fast.acquire(request({input: 30}))
    for (let resets = 0; resets < 2; resets++) {
      await new NamespaceRepository(scene.tenant, undefined).resetBucket({entity: 'user-1', resource: 'gpt-4'})
      scene.nowMs += 1000
      await right.acquire(request({input: 40}))
    }
    await arrive()
    expect([late.length, await consumed()]).toEqual([1, 111])
  })

  it('charges several unanswered attempts of one acquire once, whatever comes between', async () => {
    await limiter.acquire(request({input: 100}))
    holdBack(9)
    expect(await failure(limiter.acquire(request({input: 30})))).toMatchObject({code: 'limiter.unavailable'})
    expect(late.length).toBeGreaterThan(2)
    scene.transport = table.transport
    for (const attempt of late.toReversed()) {
      await attempt()
      await limiter.acquire(request({input: 1}))
    }
    expect(await consumed()).toBe(130 + late.length)
  })

  it('does not count them all when the first arrives first', async () => {
    await limiter.acquire(request({input: 100}))
    holdBack(9)
    await failure(limiter.acquire(request({input: 30})))
    scene.transport = table.transport
    for (const attempt of late) {
      await attempt()
      await limiter.acquire(request({input: 1}))
    }
    expect(await consumed()).toBe(130 + late.length)
  })

  it('charges several attempts of one acquire on an unseen bucket once', async () => {
    await scene.limiter().acquire(request({input: 100}))
    await limiter.acquire(request({input: 1}, 'user-2'))
    holdBack(9)
    await failure(limiter.acquire(request({input: 30})))
    scene.transport = table.transport
    for (const attempt of late) {
      await attempt()
      await limiter.acquire(request({input: 1}))
    }
    expect([100 + late.length, 130 + late.length]).toContain(await consumed())
  })

  it('does not apply a retry after its first try, even if another process overwrote the mark', async () => {
    const lossy = scene.limiter({randomBytes: sameSlot(1)})
    const rival = scene.limiter({randomBytes: sameSlot(2), transport: table.transport})
    await lossy.acquire(request({input: 100}))
    holdBack(9)
    await failure(lossy.acquire(request({input: 30})))
    await late[0]?.()
    await rival.acquire(request({input: 1}))
    for (const attempt of late.slice(1)) await attempt()
    expect(await consumed()).toBe(131)
  })

  it.each(['seen', 'not seen'])(
    'S4 does not charge a refused request later, after a lost answer, its bucket %s',
    async known => {
      const rival = scene.limiter({transport: table.transport})
      const held = await rival.acquire(request({input: 600}))
      await limiter.acquire(request({input: 1}, known === 'seen' ? 'user-1' : 'user-2'))
      holdBack()
      const {send} = scene.transport
      scene.transport = {
        send: async (operation, input, options) => {
          if (late.length === 1) {
            scene.transport = table.transport
            await rival.acquire(request({input: 300}))
          }
          return send(operation, input, options)
        },
      }
      expect(await isAdmitted(limiter.acquire(request({input: 350})))).toBe(false)
      await held.rollback()
      const before = await consumed()
      await arrive()
      expect([late.length, await consumed()]).toEqual([1, before])
    },
  )

  describe('of a request that charges several shards', () => {
    let rival: RateLimiter
    let held: Lease
    beforeEach(async () => {
      rival = scene.limiter({transport: table.transport})
      await rival.acquire(request({input: 1}))
      await splitInto(scene, 2)
      held = await rival.acquire(request({input: 400}))
      // From now on it knows both shards.
      await limiter.acquire(request({input: 1}))
      await limiter.acquire(request({input: 1}))
    })

    const consumedOfBoth = async () => (await scene.totals('user-1', 'gpt-4', 'input', 2)).consumed

    /** Holds the next transaction back; `meanwhile` runs between it and its retry. */
    function holdBackTransaction(meanwhile: () => Promise<unknown>): void {
      let isHeld = false
      scene.transport = {
        send: async (operation, input, options) => {
          if (operation !== 'TransactWriteItems' || isHeld) return table.transport.send(operation, input, options)
          isHeld = true
          late.push(() => table.transport.send(operation, input).catch(() => {}))
          await meanwhile()
          throw new Unavailable(operation, true)
        },
      }
    }

    it('S4 does not charge it later, after a refusal', async () => {
      let taken: Lease | undefined
      holdBackTransaction(async () => {
        taken = await rival.acquire(request({input: 200}))
      })
      expect(await isAdmitted(limiter.acquire(request({input: 550})))).toBe(false)
      await taken?.rollback()
      await arrive()
      expect([late.length, await consumedOfBoth()]).toEqual([1, 403])
    })

    it('charges it once, after a second attempt was admitted', async () => {
      let taken: Lease | undefined
      holdBackTransaction(async () => {
        taken = await rival.acquire(request({input: 200}))
      })
      const {send} = scene.transport
      let reads = 0
      scene.transport = {
        send: async (operation, input, options) => {
          // There is enough again when the shards are read for the second attempt; the late attempt arrives after that.
          if (operation === 'BatchGetItem' && ++reads === 2) await held.rollback().then(() => taken?.rollback())
          const answer = await send(operation, input, options)
          if (operation === 'BatchGetItem' && reads === 2) await arrive()
          return answer
        },
      }
      await limiter.acquire(request({input: 550}))
      await arrive()
      expect([late.length, await consumedOfBoth()]).toEqual([1, 553])
    })

    it('admits it if the attempt arrives before it is ruled out', async () => {
      let taken: Lease | undefined
      holdBackTransaction(async () => {
        taken = await rival.acquire(request({input: 200}))
      })
      const {send} = scene.transport
      let isArrived = false
      scene.transport = {
        send: async (operation, input, options) => {
          const isFirstWrite = operation === 'UpdateItem' && late.length === 1 && !isArrived
          if (isFirstWrite) {
            isArrived = true
            await taken?.rollback()
            await arrive()
          }
          return send(operation, input, options)
        },
      }
      const lease = await limiter.acquire(request({input: 550}))
      expect([isArrived, await consumedOfBoth()]).toEqual([true, 953])
      await lease.rollback()
      expect(await consumedOfBoth()).toBe(403)
    })
  })

  it('makes one call per acquire, adjust and release without faults', async () => {
    // Marks in separate slots: two processes that share one sometimes need one more call for a refund.
    const [first, second] = [1, 2].map(slot => scene.limiter({randomBytes: count => new Uint8Array(count).fill(slot)}))
    if (!first || !second) throw new Error('no limiters')
    for (const each of [first, second, first, second]) await each.acquire(request({input: 1}))
    scene.calls.length = 0
    const lease = await first.acquire(request({input: 10}))
    await second.acquire(request({input: 10}))
    await lease.adjust({input: 5})
    await second.acquire(request({input: 10}))
    await lease.release({input: 5})
    expect(scene.calls).toEqual(Array(5).fill('UpdateItem'))
  })

  it('L7 makes one more call, once, in other processes after a lost answer', async () => {
    const other = scene.limiter()
    await limiter.acquire(request({input: 1}))
    await other.acquire(request({input: 1}))
    await other.acquire(request({input: 1}))
    const usual = scene.transport
    holdBack()
    await limiter.acquire(request({input: 1}))
    scene.transport = usual
    scene.calls.length = 0
    await other.acquire(request({input: 1}))
    expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem'])
    await other.acquire(request({input: 1}))
    expect(scene.calls).toHaveLength(3)
  })
})
