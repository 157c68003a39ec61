import {beforeEach, expect, it} from 'vitest'
import {STAMP_MS} from '../../src/lib/core/limits/limit-kind.js'
import {Unavailable} from '../../src/lib/dynamo/errors.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {splitBucket} from '../../src/lib/repository/buckets/split.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {bool, type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, isAdmitted, request} from './visit.js'

const ENTITY = {level: 'entity', entity: 'user-1', resource: 'gpt-4'} as const

describeOnBoth('a bypass that is switched while requests are in flight', {timeout: 60_000}, table => {
  let scene: Scene
  let repository: NamespaceRepository
  beforeEach(async () => {
    scene = new Scene(table)
    repository = new NamespaceRepository(scene.tenant, undefined)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/day')
  })

  const key = (shard = 0) => wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', shard))
  const config = () => wireKey(keys.entityConfig(scene.namespace, 'user-1', 'gpt-4'))
  const stored = async (Key = key()): Promise<Item | undefined> =>
    (await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})).Item
  /** Sets or removes (`undefined`) attributes like another client: without a revision. */
  async function write(attributes: Readonly<Record<string, Item[string] | undefined>>, Key = key()): Promise<void> {
    const item: Record<string, Item[string] | undefined> = {...(await stored(Key)), ...Key, ...attributes}
    const Item = Object.fromEntries(Object.entries(item).filter(([, value]) => value)) as Item
    await table.transport.send('PutItem', {TableName: table.name, Item})
  }
  /** The switch of another client, which updates the bucket. */
  async function python(isBypassed: boolean): Promise<void> {
    await write(
      {disabled: isBypassed ? s('bypass') : undefined, resource: s('gpt-4'), entity_id: s('user-1')},
      config(),
    )
    await write({bypass: isBypassed ? n(scene.nowMs + 50_000) : undefined})
  }
  const rpm = (shards = 1) => scene.totals('user-1', 'gpt-4', 'rpm', shards)
  const take = (limiter: RateLimiter, tokens: number) => limiter.acquire(request({rpm: tokens}))

  /** A limiter that runs something just before its next write, once. */
  function interrupted() {
    let next: (() => Promise<unknown>) | undefined
    let skipped = 0
    const transport: Transport = {
      send: async (operation, input, options) => {
        const event = operation === 'UpdateItem' && skipped-- <= 0 ? next : undefined
        if (event) next = undefined
        await event?.()
        return table.transport.send(operation, input, options)
      },
    }
    const before = (event: () => Promise<unknown>, {skip = 0} = {}) => {
      next = event
      skipped = skip
    }
    return {limiter: scene.limiter({transport}), before}
  }

  it.each(['zael', 'python'] as const)('takes tokens after %s has ended it, even for a write in flight', async by => {
    const {limiter, before} = interrupted()
    await repository.setAccess(ENTITY, 'bypass')
    for (let at = 0; at < 2; at++) expect((await take(limiter, 4)).bypassed).toBe(true)
    before(() => (by === 'zael' ? repository.setAccess(ENTITY, undefined) : python(false)))
    expect((await take(limiter, 4)).bypassed).toBe(false)
    expect(await rpm()).toEqual({tokens: 6, consumed: 12})
    before(() => (by === 'zael' ? repository.setAccess(ENTITY, 'bypass') : python(true)))
    expect((await take(limiter, 4)).bypassed).toBe(true)
    expect(await rpm()).toEqual({tokens: 6, consumed: 16})
  })

  it.each(['zael', 'python'] as const)(
    'is not renewed after %s has ended it, by a process with an old configuration',
    async by => {
      const {limiter, before} = interrupted()
      await repository.setAccess(ENTITY, 'bypass')
      await take(limiter, 4)
      scene.nowMs += 50_000
      before(() => (by === 'zael' ? repository.setAccess(ENTITY, undefined) : python(false)))
      expect((await take(limiter, 4)).bypassed).toBe(false)
      expect((await stored())?.bypass).toBeUndefined()
      expect(await rpm()).toEqual({tokens: 6, consumed: 8})
    },
  )

  it('is not removed by a process that read of its end after it is set again', async () => {
    const {limiter, before} = interrupted()
    for (let at = 0; at < 2; at++) await take(limiter, 1)
    // An expired one is stamped again; a valid one stays.
    for (const [leftMs, stampedMs] of [
      [-1, STAMP_MS],
      [10_000, 10_000],
    ] as const) {
      await write({bypass: n(scene.nowMs + leftMs)})
      // The first write shows the stamp, the second one removes it.
      before(() => python(true), {skip: 1})
      expect((await take(limiter, 4)).bypassed).toBe(true)
      expect((await stored())?.bypass).toEqual(n(scene.nowMs + stampedMs))
      await python(false)
    }
    expect((await rpm()).consumed).toBe(10)
  })

  it('is not stamped on a new shard after it ended for the old one', async () => {
    await take(scene.limiter(), 1)
    await python(true)
    let isFirst = true
    const transport: Transport = {
      send: async (operation, input, options) => {
        if (operation === 'TransactWriteItems' && isFirst) {
          isFirst = false
          await python(false)
        }
        return table.transport.send(operation, input, options)
      },
    }
    expect(await splitBucket({...scene.tenant, transport}, 'user-1', 'gpt-4', 1)).toBe(2)
    expect([(await stored())?.bypass, (await stored(key(1)))?.bypass]).toEqual([undefined, undefined])
    expect(await rpm(2)).toEqual({tokens: 9, consumed: 1})
  })

  it('does not override a disabled bucket', async () => {
    const limiter = scene.limiter()
    await repository.setAccess(ENTITY, 'bypass')
    for (let at = 0; at < 2; at++) await take(limiter, 4)
    await write({disabled: bool(true)}, config())
    await write({disabled: bool(true)})
    expect(await failure(take(limiter, 4))).toMatchObject({code: 'resource.disabled'})
    expect(await rpm()).toEqual({tokens: 10, consumed: 8})
  })

  it('counts nothing for a limit that another client removed', async () => {
    const limiter = scene.limiter()
    await repository.setAccess(ENTITY, 'bypass')
    for (let at = 0; at < 2; at++) await take(limiter, 4)
    await write({
      b_rpm_tk: undefined,
      b_rpm_cp: undefined,
      b_rpm_ra: undefined,
      b_rpm_rp: undefined,
      b_rpm_tc: undefined,
    })
    expect((await take(limiter, 4)).bypassed).toBe(true)
    expect(Object.keys((await stored()) ?? {}).filter(name => name.startsWith('b_rpm'))).toEqual([])
    // Once the process has compared the bucket with the configuration.
    scene.nowMs += 60_000
    expect((await take(limiter, 4)).bypassed).toBe(true)
    expect(await stored()).toMatchObject({b_rpm_tk: n(10_000), b_rpm_cp: n(10_000), b_rpm_tc: n(4000)})
  })

  it('counts and refunds a request once when its response is lost', async () => {
    let isLost = false
    const transport: Transport = {
      send: async (operation, input, options) => {
        const answer = await table.transport.send(operation, input, options)
        if (operation !== 'UpdateItem' || !isLost) return answer
        isLost = false
        throw new Unavailable('UpdateItem', true, new Error('socket hang up'))
      },
    }
    const limiter = scene.limiter({transport})
    await repository.setAccess(ENTITY, 'bypass')
    await take(limiter, 4)
    isLost = true
    const lease = await take(limiter, 4)
    expect([lease.bypassed, (await rpm()).consumed]).toEqual([true, 8])
    isLost = true
    await lease.rollback()
    expect(await rpm()).toEqual({tokens: 10, consumed: 4})
  })

  it('refuses nobody while many limiters use it, and ends exactly', async () => {
    const limiters = Array.from({length: 6}, () => scene.limiter())
    await repository.setAccess(ENTITY, 'bypass')
    const all = limiters.flatMap(limiter => Array.from({length: 5}, () => take(limiter, 3)))
    expect((await Promise.all(all)).every(lease => lease.bypassed)).toBe(true)
    scene.nowMs += 60_000
    const late = limiters.flatMap(limiter => Array.from({length: 5}, () => take(limiter, 3)))
    expect((await Promise.all(late)).every(lease => lease.bypassed)).toBe(true)
    await repository.setAccess(ENTITY, undefined)
    const enforced = await Promise.all(limiters.map(limiter => isAdmitted(take(limiter, 3))))
    expect(enforced.filter(Boolean)).toHaveLength(3)
    expect(await rpm()).toEqual({tokens: 1, consumed: 2 * 6 * 5 * 3 + 9})
  })
})
