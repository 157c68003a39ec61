import {beforeEach, expect, it} from 'vitest'
import {ConditionFailed} from '../../src/lib/dynamo/errors.js'
import {isRead, type Operation, type Transport} from '../../src/lib/dynamo/transport.js'
import type {Lease} from '../../src/lib/limiter/lease.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {readNumber} from '../../src/lib/schema/attribute-value.js'
import {attributes} from '../../src/lib/schema/attributes.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, request, splitInto} from './visit.js'

/** Which of the two responses the caller gets. */
const ANSWERS = ['first', 'second'] as const

const SCOPE = {level: 'resource', resource: 'gpt-4'} as const

describeOnBoth('a proxy that delivers every write twice', {timeout: 60_000}, table => {
  let scene: Scene
  let limiter: RateLimiter
  let lease: Lease
  let answer: (typeof ANSWERS)[number] | undefined
  let writes: Operation[]

  beforeEach(async () => {
    scene = new Scene(table)
    answer = undefined
    writes = []
    scene.transport = {send: deliver}
    limiter = scene.limiter({settle: 'soon'})
    await scene.configure(SCOPE, 'rpd=1000/day@UTC')
    lease = await limiter.acquire(request({rpd: 500}))
    await limiter.acquire(request({rpd: 1}))
  })

  const deliver: Transport['send'] = async (operation, input, options) => {
    const first = table.transport.send(operation, input, options)
    if (isRead(operation) || answer === undefined) return first
    writes.push(operation)
    await first.catch(() => {})
    const second = table.transport.send(operation, input, options)
    await second.catch(() => {})
    return answer === 'first' ? first : second
  }

  /** From here on, every request is delivered once; call the returned function to deliver twice again. */
  function keepDeliveries(): (() => Promise<unknown>)[] {
    const again: (() => Promise<unknown>)[] = []
    const send: Transport['send'] = (operation, input, options) => {
      again.push(() => table.transport.send(operation, input, options))
      return table.transport.send(operation, input, options)
    }
    scene.transport = {send}
    return again
  }

  const totals = () => scene.totals('user-1', 'gpt-4', 'rpd')
  async function counted(): Promise<number | undefined> {
    const Key = wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0))
    const {Item} = await table.transport.send('GetItem', {TableName: table.name, Key})
    return readNumber(Item ?? {}, attributes.bucket.requests)
  }

  it.each(ANSWERS)('S2 refunds once if batched with a request (the %s answer counts)', async heard => {
    answer = heard
    await lease.release({rpd: 400})
    await limiter.acquire(request({rpd: 1}))
    await limiter.settled()
    expect(writes).toEqual(['UpdateItem'])
    expect(await totals()).toEqual({tokens: 898, consumed: 102})
    expect(await counted()).toBe(3)
  })

  it('S2 refunds once if the second delivery comes after further writes', async () => {
    const again = keepDeliveries()
    await lease.release({rpd: 400})
    await limiter.acquire(request({rpd: 1}))
    await limiter.acquire(request({rpd: 2}))
    expect(await failure(again[0]?.() ?? Promise.resolve())).toBeInstanceOf(ConditionFailed)
    expect(await totals()).toEqual({tokens: 896, consumed: 104})
  })

  it.each(ANSWERS)('S2 refunds once if written alone (the %s answer counts)', async heard => {
    answer = heard
    await lease.release({rpd: 400})
    await limiter.settled()
    expect(await totals()).toEqual({tokens: 899, consumed: 101})
    await lease.rollback()
    await limiter.settled()
    expect(await totals()).toEqual({tokens: 999, consumed: 1})
    expect(await counted()).toBe(1)
  })

  it.each(ANSWERS)('S2 uncounts a bypassed request once (the %s answer counts)', async heard => {
    await new NamespaceRepository(scene.tenant, undefined).setAccess(SCOPE, 'bypass')
    const passed = scene.limiter()
    const counted = await passed.acquire(request({rpd: 300}))
    expect(await totals()).toEqual({tokens: 499, consumed: 801})
    answer = heard
    await counted.rollback()
    expect(await totals()).toEqual({tokens: 499, consumed: 501})
  })

  it.each(ANSWERS)('S5 charges the request that creates a bucket once (the %s answer counts)', async heard => {
    answer = heard
    await limiter.acquire({...request({rpd: 10}), entity: 'user-2'})
    expect(await scene.totals('user-2', 'gpt-4', 'rpd')).toEqual({tokens: 990, consumed: 10})
  })

  it.each(ANSWERS)('S5 charges a request over several shards once (the %s answer counts)', async heard => {
    await splitInto(scene, 2)
    answer = heard
    const whole = await scene.limiter().acquire(request({rpd: 400}))
    expect(writes).toContain('TransactWriteItems')
    expect(await scene.totals('user-1', 'gpt-4', 'rpd', 2)).toEqual({tokens: 99, consumed: 901})
    await whole.rollback()
    expect(await scene.totals('user-1', 'gpt-4', 'rpd', 2)).toEqual({tokens: 499, consumed: 501})
  })

  it.each(ANSWERS)('S6 tops up and resets once (the %s answer counts)', async heard => {
    answer = heard
    const tenant = {...scene.tenant, transport: {send: deliver}}
    const repository = new NamespaceRepository(tenant, undefined)
    await repository.topUpBucket({entity: 'user-1', resource: 'gpt-4'}, {rpd: 200}, {idempotencyKey: 'order-1'})
    expect(await totals()).toEqual({tokens: 699, consumed: 501})
    await repository.resetBucket({entity: 'user-1', resource: 'gpt-4'})
    expect((await totals()).tokens).toBe(1000)
  })

  it.each(ANSWERS)('S4 charges nothing to a request that is refused (the %s answer counts)', async heard => {
    answer = heard
    await failure(limiter.acquire(request({rpd: 600})))
    expect(await totals()).toEqual({tokens: 499, consumed: 501})
  })

  it('S5 admits the request that took the last tokens, though the answer reports them gone', async () => {
    answer = 'second'
    await limiter.acquire(request({rpd: 499}))
    expect(await totals()).toEqual({tokens: 0, consumed: 1000})
  })

  it.each(ANSWERS)('S6 charges requests and later settlements once (the %s answer counts)', async heard => {
    answer = heard
    await limiter.acquire(request({rpd: 10}))
    expect(await totals()).toEqual({tokens: 489, consumed: 511})
    await lease.adjust({rpd: 5})
    await limiter.settled()
    expect(await totals()).toEqual({tokens: 484, consumed: 516})
    expect(await counted()).toBe(3)
  })

  it('S6 charges once if the second delivery comes after further writes, even after the 36th', async () => {
    const again = keepDeliveries()
    for (let at = 0; at < 40; at++) await limiter.acquire(request({rpd: 1}))
    for (const each of again) expect(await failure(each())).toBeInstanceOf(ConditionFailed)
    expect(await totals()).toEqual({tokens: 459, consumed: 541})
  })

  it('S6 charges once if a request takes from several shards between the deliveries', async () => {
    await splitInto(scene, 2)
    let pick = 0
    const one = scene.limiter({random: () => pick})
    for (pick of [0, 0.5]) await one.acquire(request({rpd: 1}))
    let deliverAgain = () => {}
    const held = new Promise<void>(resolve => {
      deliverAgain = resolve
    })
    const arrived = new Promise<void>(resolve => {
      const send: Transport['send'] = async (operation, input, options) => {
        const first = await table.transport.send(operation, input, options)
        if (operation !== 'UpdateItem') return first
        resolve()
        await held
        return table.transport.send(operation, input, options)
      }
      scene.transport = {send}
    })
    const small = one.acquire(request({rpd: 1}))
    await arrived
    await one.acquire(request({rpd: 400}))
    deliverAgain()
    await small
    expect(await scene.limiter().available({entity: 'user-1', resource: 'gpt-4'})).toEqual({rpd: 96})
  })

  it('S2 refunds once beside a process of the same slot, where a charge may count twice', async () => {
    const sameSlot = (stem: number) => (count: number) => new Uint8Array(count).fill(count === 1 ? 0 : stem)
    limiter = scene.limiter({settle: 'soon', randomBytes: sameSlot(1)})
    const rival = scene.limiter({randomBytes: sameSlot(2), transport: table.transport})
    lease = await limiter.acquire(request({rpd: 200}))
    await limiter.acquire(request({rpd: 1}))
    const again = keepDeliveries()
    await lease.release({rpd: 150})
    await limiter.acquire(request({rpd: 1}))
    expect(again).toHaveLength(1)
    await rival.acquire(request({rpd: 1}))
    const before = await totals()
    expect(await failure(again[0]?.() ?? Promise.resolve())).toBeInstanceOf(ConditionFailed)
    expect(await totals()).toEqual(before)
  })
})
