import {beforeEach, expect, it} from 'vitest'
import type {RefusedDecision} from '../../src/lib/limiter/decision.js'
import {ResourceDisabled} from '../../src/lib/limiter/refusal/errors.js'
import {tidyBoosts} from '../../src/lib/repository/limits/limit-sync.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {bool, type Item} from '../../src/lib/schema/attribute-value.js'
import {configKey} from '../../src/lib/schema/config-record.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, isAdmitted, request, splitInto} from './visit.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const
const ENTITY = {level: 'entity', entity: 'user-1', resource: 'gpt-4'} as const
const DEFAULT = {level: 'entity', entity: 'user-1', resource: '_default_'} as const

describeOnBoth('the switch of a resource or entity', {timeout: 60_000}, table => {
  let scene: Scene
  let repository: NamespaceRepository
  beforeEach(async () => {
    scene = new Scene(table)
    repository = new NamespaceRepository(scene.tenant, undefined)
    await scene.configure(RESOURCE, 'rpm=100/min')
  })

  const key = (shard = 0) => wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', shard))
  const stored = async (shard = 0): Promise<Item | undefined> =>
    (await table.transport.send('GetItem', {TableName: table.name, Key: key(shard), ConsistentRead: true})).Item
  /** Like another client: changes only this flag. */
  const stamp = (Key: Item) =>
    table.transport.send('UpdateItem', {
      TableName: table.name,
      Key,
      UpdateExpression: 'SET disabled = :yes',
      ExpressionAttributeValues: {':yes': bool(true)},
    })
  const isDisabled = async (attempt: Promise<unknown>) => (await failure(attempt)) instanceof ResourceDisabled

  it('refuses in every process once the command returns, with any cache, without a charge', async () => {
    const limiters = Array.from({length: 5}, () => scene.limiter({onUnavailable: 'allow'}))
    for (const limiter of limiters) for (let at = 0; at < 3; at++) await limiter.acquire(request({rpm: 1}))
    expect((await repository.setAccess(RESOURCE, 'disabled')).buckets).toEqual({checked: 1, updated: 1, failed: 0})
    // Refusals may be counted meanwhile, with the mark of that write.
    const charged = (all: Item = {}) =>
      Object.fromEntries(Object.entries(all).filter(([name]) => !/^(x|xl|wn_.*)$/.test(name)))
    const after = charged(await stored())
    for (const limiter of [...limiters, scene.limiter()]) {
      for (let at = 0; at < 3; at++) expect(await isDisabled(limiter.acquire(request({rpm: 1})))).toBe(true)
    }
    scene.nowMs += 120_000
    for (const limiter of limiters) expect(await isDisabled(limiter.acquire(request({rpm: 1})))).toBe(true)
    expect(charged(await stored())).toEqual(after)
  })

  it("adds no call: it is part of the request's write", async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    await limiter.acquire(request({rpm: 1}))
    scene.calls.length = 0
    await limiter.acquire(request({rpm: 1}))
    expect(scene.calls).toEqual(['UpdateItem'])
  })

  it('is a decision of its own, with the body of a 403', async () => {
    await repository.setAccess(RESOURCE, 'disabled')
    const decision = await scene.limiter().tryAcquire({...request({rpm: 1}), waitMs: 60_000})
    expect(decision).toMatchObject({admitted: false, reason: 'disabled', retryAfterMs: null, waitedMs: 0})
    const {error} = decision as RefusedDecision
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      type: 'about:blank',
      title: 'Forbidden',
      status: 403,
      detail: 'Access is disabled.',
    })
    expect((error as ResourceDisabled).toReferenceJSON()).toMatchObject({
      error: 'resource_disabled',
      entity_id: 'user-1',
      resource: 'gpt-4',
      level: 'resource',
    })
    expect(await isDisabled(scene.limiter().available({entity: 'user-1', resource: 'gpt-4'}))).toBe(true)
  })

  it('reports a disabled resource from reads, with any cache', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    const bucket = {entity: 'user-1', resource: 'gpt-4'}
    const looks = [
      () => limiter.check(request({rpm: 1})),
      () => limiter.available(bucket),
      () => limiter.timeUntilAvailable(request({rpm: 1})),
    ]
    const refused = () =>
      Promise.all(
        looks.map(async look =>
          look().then(
            () => false,
            error => error instanceof ResourceDisabled,
          ),
        ),
      )
    expect(await refused()).toEqual([false, false, false])
    await repository.setAccess(RESOURCE, 'disabled')
    expect(await refused()).toEqual([true, true, true])
    await repository.setAccess(RESOURCE, undefined)
    expect(await refused()).toEqual([false, false, false])
  })

  it('applies to buckets that do not exist yet', async () => {
    await repository.setAccess(RESOURCE, 'disabled')
    expect(await isDisabled(scene.limiter().acquire(request({rpm: 1})))).toBe(true)
    expect(await stored()).toBeUndefined()
  })

  it('admits again once enabled or cleared, in every process, with the earlier balance', async () => {
    for (const access of ['enabled', undefined] as const) {
      const limiter = scene.limiter()
      await limiter.acquire(request({rpm: 10}))
      await limiter.acquire(request({rpm: 10}))
      await repository.setAccess(RESOURCE, 'disabled')
      expect(await isDisabled(limiter.acquire(request({rpm: 1})))).toBe(true)
      await repository.setAccess(RESOURCE, access)
      // A seen refusal is cached for a second (`denyCacheMs`).
      scene.nowMs += 1001
      expect(await isAdmitted(limiter.acquire(request({rpm: 10})))).toBe(true)
      expect(await isAdmitted(scene.limiter().acquire(request({rpm: 10})))).toBe(true)
    }
    expect((await scene.totals('user-1', 'gpt-4', 'rpm')).consumed).toBe(80)
  })

  it('is decided by the most specific level with a switch', async () => {
    const limiter = scene.limiter()
    const other = () => limiter.acquire(request({rpm: 1}, 'user-2'))
    await limiter.acquire(request({rpm: 1}))
    await other()
    await repository.setAccess(RESOURCE, 'disabled')
    await repository.setAccess(DEFAULT, 'enabled')
    expect(await isAdmitted(limiter.acquire(request({rpm: 1})))).toBe(true)
    expect(await isDisabled(other())).toBe(true)
    await repository.setAccess(ENTITY, 'disabled')
    expect(await isDisabled(limiter.acquire(request({rpm: 1})))).toBe(true)
    // The resource's switch updates the buckets again, and keeps the more specific one.
    await repository.setAccess(RESOURCE, undefined)
    scene.nowMs += 1001
    expect(await isDisabled(limiter.acquire(request({rpm: 1})))).toBe(true)
    expect(await isAdmitted(other())).toBe(true)
    await repository.setAccess(ENTITY, undefined)
    scene.nowMs += 1001
    expect(await isAdmitted(limiter.acquire(request({rpm: 1})))).toBe(true)
  })

  it('applies to every shard, including later ones', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    await splitInto(scene, 2)
    expect((await repository.setAccess(ENTITY, 'disabled')).buckets.updated).toBe(2)
    await splitInto(scene, 4)
    for (const shard of [0, 1, 2, 3]) expect((await stored(shard))?.disabled).toEqual(bool(true))
    expect(await isDisabled(limiter.acquire(request({rpm: 80})))).toBe(true)
  })

  it.each([0, 1])('refuses a request over several shards once shard %i is stamped', async shard => {
    await scene.limiter().acquire(request({rpm: 1}))
    await splitInto(scene, 2)
    const limiter = scene.limiter({
      transport: {
        send: async (operation, input, options) => {
          // Another client stamps one shard after another; its configuration agrees.
          if (operation === 'TransactWriteItems') {
            const config = wireKey(keys.resourceConfig(scene.namespace, 'gpt-4'))
            await stamp(config)
            await stamp(key(shard))
          }
          return table.transport.send(operation, input, options)
        },
      },
    })
    const lease = await limiter.acquire(request({rpm: 1}))
    expect(await isDisabled(limiter.acquire(request({rpm: 80})))).toBe(true)
    expect((await scene.totals('user-1', 'gpt-4', 'rpm', 2)).consumed).toBe(2)
    // Earlier charges are refunded anyway.
    await lease.rollback()
    expect((await scene.totals('user-1', 'gpt-4', 'rpm', 2)).consumed).toBe(1)
  })

  it('refuses a lease that takes more from several shards once one is stamped', async () => {
    const limiter = scene.limiter({
      transport: {
        send: async (operation, input, options) => {
          if (operation === 'TransactWriteItems') {
            await stamp(wireKey(keys.resourceConfig(scene.namespace, 'gpt-4')))
            await stamp(key(1))
          }
          return table.transport.send(operation, input, options)
        },
      },
    })
    const lease = await limiter.acquire(request({rpm: 1}))
    await splitInto(scene, 2)
    expect(await isDisabled(lease.consume({rpm: 80}))).toBe(true)
    expect((await scene.totals('user-1', 'gpt-4', 'rpm', 2)).consumed).toBe(1)
  })

  it("G3 honours another client's stamp, and its configuration if the stamp is missing", async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    const config = wireKey(keys.resourceConfig(scene.namespace, 'gpt-4'))
    const {Item} = await table.transport.send('GetItem', {TableName: table.name, Key: config})
    await table.transport.send('PutItem', {TableName: table.name, Item: {...Item, disabled: bool(true)}})
    // The second decision of a process compares with the configuration.
    scene.nowMs += 120_000
    expect(await isDisabled(limiter.acquire(request({rpm: 1})))).toBe(true)
    expect((await stored())?.disabled).toEqual(bool(true))
    expect(await isDisabled(scene.limiter().acquire(request({rpm: 1})))).toBe(true)
  })

  it('is recorded in the audit trail', async () => {
    await repository.setAccess(ENTITY, 'disabled')
    scene.nowMs += 1000
    await repository.setAccess(ENTITY, undefined)
    const {records} = await repository.audit.list({entity: 'user-1'})
    expect(records.map(({action, details}) => [action, details])).toEqual([
      ['limits_set', {disabled: null, before: {disabled: true}}],
      ['limits_set', {disabled: true, before: {disabled: null}}],
    ])
  })

  it('is not removed by a request planned before it was set', async () => {
    await scene.limiter().acquire(request({rpm: 1}))
    await repository.setAccess(RESOURCE, 'disabled')
    await repository.setAccess(RESOURCE, undefined)
    let isFirst = true
    const limiter = scene.limiter({
      transport: {
        send: async (operation, input, options) => {
          if (operation === 'UpdateItem' && isFirst) {
            isFirst = false
            await repository.setAccess(RESOURCE, 'disabled')
          }
          return table.transport.send(operation, input, options)
        },
      },
    })
    expect(await isDisabled(limiter.acquire(request({rpm: 1})))).toBe(true)
    expect((await stored())?.disabled).toEqual(bool(true))
  })

  it('keeps a disabled entity blocked when it is deleted, in every process and with any cache', async () => {
    const {entities} = repository
    await entities.create({id: 'team'})
    await entities.create({id: 'user-1', parent: 'team', cascade: true})
    await scene.configure(DEFAULT, 'rpm=50/min')
    const [busy, idle] = [scene.limiter(), scene.limiter()]
    for (let at = 0; at < 3; at++) await busy.acquire(request({rpm: 1}))
    // Knows the configuration of the entity, but no bucket.
    await idle.available({entity: 'user-1', resource: 'gpt-4'})
    await repository.setAccess(DEFAULT, 'disabled')
    expect(await entities.delete('user-1')).toMatchObject({byKind: {entity: 1}, blocks: [DEFAULT]})
    for (const limiter of [busy, idle, scene.limiter()])
      for (let at = 0; at < 2; at++) expect(await isDisabled(limiter.acquire(request({rpm: 1})))).toBe(true)
    expect(await entities.get('user-1')).toBeUndefined()
    expect(await repository.configs.get(DEFAULT)).toMatchObject({limits: [], access: 'disabled'})
    // Clients of zae-limiter that cached the configuration before the block see the mark until their caches expire.
    const {disabled, ttl} = (await stored()) ?? {}
    expect([disabled, Number(ttl && 'N' in ttl && ttl.N) - Math.floor(scene.nowMs / 1000)]).toEqual([bool(true), 600])
    await table.transport.send('DeleteItem', {TableName: table.name, Key: key()})
    for (const limiter of [busy, idle, scene.limiter()])
      expect(await isDisabled(limiter.acquire(request({rpm: 1})))).toBe(true)
    expect(await stored()).toBeUndefined()
    expect(await failure(entities.delete('user-1'))).toMatchObject({code: 'entity.deleted', kind: 'notFound'})
    await repository.setAccess(DEFAULT, undefined)
    expect(await repository.configs.ofEntity('user-1')).toEqual([])
    expect(await isAdmitted(scene.limiter().acquire(request({rpm: 1})))).toBe(true)
  })

  it('keeps a block of one resource, and removes other switches, when the entity is deleted', async () => {
    await scene.configure({level: 'resource', resource: 'video'}, 'rpm=100/min')
    await repository.entities.create({id: 'user-1'})
    const limiter = scene.limiter()
    const video = {entity: 'user-1', resource: 'video', consume: {rpm: 1}}
    await limiter.acquire(request({rpm: 1}))
    await limiter.acquire(video)
    await repository.setAccess(ENTITY, 'disabled')
    await repository.setAccess({...ENTITY, resource: 'video'}, 'enabled')
    await repository.setCascade(ENTITY, false)
    expect(await repository.entities.delete('user-1')).toMatchObject({
      byKind: {entity: 1, bucket: 1, 'entity-config': 1},
      blocks: [ENTITY],
    })
    expect(await isDisabled(limiter.acquire(request({rpm: 1})))).toBe(true)
    expect(await isAdmitted(limiter.acquire(video))).toBe(true)
    const [block, ...others] = await repository.configs.ofEntity('user-1')
    expect(others).toEqual([])
    expect(block).toMatchObject({scope: ENTITY, access: 'disabled', deletedAt: expect.any(String)})
    expect(block?.cascade).toBeUndefined()
    await repository.setAccess({level: 'resource', resource: 'video'}, 'disabled')
    expect(await isDisabled(limiter.acquire(video))).toBe(true)
  })

  it('keeps a block that another client sets while the entity is deleted', async () => {
    await repository.entities.create({id: 'user-1'})
    await repository.setAccess(DEFAULT, 'enabled')
    let isSet = false
    const send: typeof table.transport.send = async (operation, ...rest) => {
      if (!isSet && operation === 'TransactWriteItems') {
        isSet = true
        await stamp(wireKey(configKey(scene.namespace, DEFAULT)))
      }
      return table.transport.send(operation, ...rest)
    }
    const racing = new NamespaceRepository({...scene.tenant, transport: {...table.transport, send}}, undefined)
    expect((await racing.entities.delete('user-1')).blocks).toEqual([DEFAULT])
    expect(await isDisabled(scene.limiter().acquire(request({rpm: 1})))).toBe(true)
  })

  it('expires in every process at the same instant, marks included, whatever is cached', async () => {
    const limiters = [scene.limiter(), scene.limiter({configCacheMs: 600_000})]
    for (const limiter of limiters) await limiter.acquire(request({rpm: 1}))
    const endMs = Math.ceil((scene.nowMs + 7_200_000) / 60_000) * 60_000
    await repository.setAccess(ENTITY, 'disabled', {until: new Date(endMs - 30_000), reason: 'chargeback'})
    expect((await stored())?.disabled).toEqual(bool(true))
    for (const atMs of [scene.nowMs, endMs - 1]) {
      scene.nowMs = atMs
      for (const limiter of limiters) expect(await isDisabled(limiter.acquire(request({rpm: 1})))).toBe(true)
    }
    scene.nowMs = endMs
    for (const limiter of [...limiters, scene.limiter()])
      expect(await isAdmitted(limiter.acquire(request({rpm: 1})))).toBe(true)
    expect(await stored()).not.toHaveProperty('disabled')
    expect(await repository.configs.get(ENTITY)).toBeUndefined()
    // Stays stored until no clock can be before the end.
    const config = async () =>
      (
        await table.transport.send('GetItem', {
          TableName: table.name,
          Key: wireKey(configKey(scene.namespace, ENTITY)),
          ConsistentRead: true,
        })
      ).Item
    expect(await tidyBoosts(scene.tenant)).toBe(0)
    expect(await config()).toMatchObject({disabled: bool(true), disabled_reason: {S: 'chargeback'}})
    scene.nowMs = endMs + 300_000
    expect(await tidyBoosts(scene.tenant, {principal: 'aggregator'})).toBe(1)
    expect(await config()).toBeUndefined()
    expect(await tidyBoosts(scene.tenant)).toBe(0)
  })

  it('becomes permanent if it is set without an end, and ends early', async () => {
    const until = new Date(scene.nowMs + 3_600_000)
    await repository.setAccess(ENTITY, 'disabled', {until})
    await repository.setLimits(ENTITY, ['rpm=50/min'])
    expect(await repository.configs.get(ENTITY)).toMatchObject({access: 'disabled', accessUntilMs: expect.any(Number)})
    await repository.setAccess(ENTITY, 'disabled')
    scene.nowMs += 7_200_000
    expect(await isDisabled(scene.limiter().acquire(request({rpm: 1})))).toBe(true)
    expect(await tidyBoosts(scene.tenant)).toBe(0)
    await repository.setAccess(ENTITY, 'disabled', {until: new Date(scene.nowMs + 3_600_000)})
    await repository.setAccess(ENTITY, undefined, {from: 'disabled'})
    expect(await isAdmitted(scene.limiter().acquire(request({rpm: 1})))).toBe(true)
    expect(await failure(repository.setAccess(ENTITY, undefined, {until}))).toMatchObject({code: 'switch.removed'})
    expect(await failure(repository.setAccess(ENTITY, 'disabled', {until}))).toMatchObject({code: 'until.past'})
  })

  it('removes an expired switch with its limits kept, and keeps the block of a deleted entity until its end', async () => {
    await repository.entities.create({id: 'user-1'})
    await repository.setLimits(ENTITY, ['rpm=50/min'])
    const endMs = Math.ceil((scene.nowMs + 3_600_000) / 60_000) * 60_000
    await repository.setAccess(ENTITY, 'disabled', {until: new Date(endMs)})
    scene.nowMs = endMs + 1000
    // A change within minutes of the end keeps the expired switch for the clean-up.
    await repository.setLimits(ENTITY, ['tpm=5/min'])
    scene.nowMs = endMs + 300_000
    expect(await tidyBoosts(scene.tenant)).toBe(1)
    expect(await repository.configs.get(ENTITY)).toMatchObject({limits: [{name: 'rpm'}, {name: 'tpm'}]})
    expect((await repository.configs.get(ENTITY))?.access).toBeUndefined()
    const laterMs = Math.ceil((scene.nowMs + 3_600_000) / 60_000) * 60_000
    await repository.setAccess(DEFAULT, 'disabled', {until: new Date(laterMs)})
    await repository.entities.delete('user-1')
    expect(await isDisabled(scene.limiter().acquire(request({rpm: 1})))).toBe(true)
    scene.nowMs = laterMs
    expect(await isAdmitted(scene.limiter().acquire(request({rpm: 1})))).toBe(true)
    scene.nowMs = laterMs + 300_000
    expect(await tidyBoosts(scene.tenant)).toBe(1)
    expect(await repository.configs.ofEntity('user-1')).toEqual([])
  })
})
