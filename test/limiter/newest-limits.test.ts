import {beforeEach, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {Unavailable} from '../../src/lib/dynamo/errors.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {Entities} from '../../src/lib/repository/entities/entities.js'
import {Configs} from '../../src/lib/repository/limits/configs.js'
import {Audit} from '../../src/lib/repository/table/audit.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {syncLimits} from '../repository/limits/sync-limits.js'
import {failure, isAdmitted, request} from './visit.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const

/** S9: limits read earlier never replace limits read later, with any cache. */
describeOnBoth('S9 the newest limits of a bucket', {timeout: 60_000}, table => {
  let scene: Scene
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure(RESOURCE, 'rpm=6000/min')
  })

  /** Like an operator: stores the limits, then updates live buckets. */
  async function setLimits(...limits: string[]): Promise<void> {
    const {tenant} = scene
    await new Configs(tenant, {audit: new Audit(tenant)}).set(RESOURCE, parseLimits(limits), {replace: true})
    await syncLimits(tenant, RESOURCE)
  }

  const capacity = async (entity = 'user-1') =>
    Number((await scene.shards(entity, 'gpt-4'))[0]?.state.limits.get('rpm')?.capacityMilli) / 1000

  /** Runs something just before a limiter's write is sent. */
  function beforeWrite(number: number, intrude: () => Promise<unknown>): Transport {
    let writes = 0
    return {
      send: async (operation, input, options) => {
        if (operation === 'UpdateItem' && ++writes === number) await intrude()
        return table.transport.send(operation, input, options)
      },
    }
  }

  it('stay lowered, despite the cache of a process that asks for more', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    scene.nowMs += 1000
    await setLimits('rpm=60/min')
    expect(await failure(limiter.acquire(request({rpm: 100})))).toMatchObject({code: 'request.too-large'})
    expect(await capacity()).toBe(60)
    expect(await failure(scene.limiter().acquire(request({rpm: 61})))).toMatchObject({code: 'request.too-large'})
  })

  it('stay lowered after a refill', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 6000}))
    scene.nowMs += 100
    await setLimits('rpm=60/min')
    scene.nowMs += 2000
    expect(await isAdmitted(limiter.acquire(request({rpm: 1})))).toBe(true)
    expect(await capacity()).toBe(60)
  })

  it('stay raised', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 6000}))
    await setLimits('rpm=60000/min')
    scene.nowMs += 2000
    await limiter.acquire(request({rpm: 100}))
    expect(await capacity()).toBe(60_000)
  })

  it('are used to create a bucket, not the cached ones', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    scene.nowMs += 1000
    await setLimits('rpm=60/min')
    await limiter.acquire(request({rpm: 1}, 'user-2'))
    expect(await capacity('user-2')).toBe(60)
  })

  it('prevent a write prepared before the change, even in the same millisecond', async () => {
    await scene.limiter().acquire(request({rpm: 1}))
    await scene.configure(RESOURCE, 'rpm=8000/min')
    // The first write shows the bucket, the limits are read, the second write would store them.
    const transport = beforeWrite(2, () => setLimits('rpm=60/min'))
    const limiter = scene.limiter({transport})
    expect(await isAdmitted(limiter.acquire(request({rpm: 7000})))).toBe(false)
    await limiter.close()
    expect(await capacity()).toBe(60)
  })

  it('are compared with cached ones at a first decision', async () => {
    await scene.limiter().acquire(request({rpm: 1}))
    // Like another client: without a revision and without updating live buckets.
    await scene.configure(RESOURCE, 'rpm=60/min')
    const limiter = scene.limiter()
    await limiter.resolveLimits({entity: 'user-1', resource: 'gpt-4'})
    scene.nowMs += 1
    await limiter.acquire(request({rpm: 1}))
    expect(await capacity()).toBe(60)
    expect(await isAdmitted(limiter.acquire(request({rpm: 60})))).toBe(false)
  })

  it('are checked when due after a lost answer, before an acquire consumes', async () => {
    let isLosing = false
    const transport: Transport = {
      send: (operation, input, options) =>
        isLosing && operation === 'UpdateItem'
          ? Promise.reject(new Unavailable(operation, true))
          : table.transport.send(operation, input, options),
    }
    const limiter = scene.limiter({transport})
    await limiter.acquire(request({rpm: 3000}))
    await limiter.acquire(request({rpm: 1}))
    isLosing = true
    expect(await failure(limiter.acquire(request({rpm: 1})))).toMatchObject({code: 'limiter.unavailable'})
    isLosing = false
    await scene.configure(RESOURCE, 'rpm=60/min')
    scene.nowMs += 60_000
    // The stored limits do not count: the bucket is updated first.
    expect(await failure(limiter.acquire(request({rpm: 61})))).toMatchObject({code: 'request.too-large'})
    await limiter.close()
    expect(await capacity()).toBe(60)
  })

  it('keep a removed parent removed, despite caches', async () => {
    const entities = new Entities(scene.tenant, {audit: new Audit(scene.tenant)})
    await scene.entity('user-1', 'team-1')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 6000}))
    await entities.update('user-1', {parent: null, cascade: false})
    scene.nowMs += 2000
    await limiter.acquire(request({rpm: 1}))
    expect((await scene.shards('user-1', 'gpt-4'))[0]).toMatchObject({cascade: false, parent: undefined})
  })
})
