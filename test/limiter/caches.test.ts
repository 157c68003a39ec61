import {beforeEach, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {Unavailable} from '../../src/lib/dynamo/errors.js'
import type {Operation, OperationInput, Transport} from '../../src/lib/dynamo/transport.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {readRefusals} from '../../src/lib/schema/refusal-counts.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, isAdmitted, request} from './visit.js'

const RESOURCE = 'gpt-4'
const ofResource = {level: 'resource', resource: RESOURCE} as const

describeOnBoth('the caches of a limiter', {}, table => {
  let scene: Scene

  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure(ofResource, 'rpm=5/hour')
  })

  /** Holds back the calls of one operation until `release` is called. */
  function hold(operation: Operation): {readonly release: () => void; readonly isWaiting: () => boolean} {
    const {transport} = scene
    let isWaiting = false
    let open = () => {}
    const released = new Promise<void>(resolve => {
      open = resolve
    })
    const send: Transport['send'] = async (sent, input, options) => {
      const answer = await transport.send(sent, input, options)
      if (sent !== operation) return answer
      isWaiting = true
      await released
      return answer
    }
    scene.transport = {send}
    const release = () => {
      scene.transport = transport
      open()
    }
    return {release, isWaiting: () => isWaiting}
  }

  it('are empty before the first request', () => {
    const unused = {entries: 0, hits: 0, misses: 0}
    expect(scene.limiter().cacheStats()).toEqual({
      configs: unused,
      entities: unused,
      buckets: {entries: 0, refusals: 0},
    })
  })

  it('count entries, hits, misses and refusals without a call', async () => {
    await using limiter = scene.limiter()
    await limiter.acquire(request({rpm: 2}, 'a'))
    await limiter.acquire(request({rpm: 2}, 'b'))
    // A new bucket needs limits that were read after it was found missing.
    expect(limiter.cacheStats()).toEqual({
      configs: {entries: 6, hits: 0, misses: 8},
      entities: {entries: 2, hits: 0, misses: 2},
      buckets: {entries: 2, refusals: 0},
    })
    scene.calls.length = 0
    await limiter.resolveLimits({entity: 'a', resource: RESOURCE})
    expect(limiter.cacheStats().configs).toEqual({entries: 6, hits: 4, misses: 8})
    for (let i = 0; i < 3; i++) expect(await isAdmitted(limiter.acquire(request({rpm: 4}, 'a')))).toBe(false)
    expect(scene.calls).toEqual([])
    expect(limiter.cacheStats().buckets).toEqual({entries: 2, refusals: 3})
  })

  it('S9 follow limits and parents that another client changed, from the call of invalidate on', async () => {
    await using limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}, 'a'))
    await limiter.acquire(request({rpm: 1}, 'a'))
    await scene.configure(ofResource, 'rpm=3/hour')
    await scene.entity('a', 'team')
    limiter.invalidate()
    expect(limiter.cacheStats()).toMatchObject({
      configs: {entries: 0},
      entities: {entries: 0},
      buckets: {entries: 0},
    })
    const lease = await limiter.acquire(request({rpm: 1}, 'a'))
    expect(lease.limits.rpm?.capacity).toBe(3)
    expect(lease.parent).toBe('team')
    // Without another call of invalidate, everything is cached again.
    scene.calls.length = 0
    await limiter.acquire(request({rpm: 1}, 'a'))
    expect(scene.calls).toEqual(['UpdateItem', 'UpdateItem'])
  })

  it.each([
    ['limits', () => scene.configure(ofResource, 'rpm=3/hour'), {capacity: 3, parent: undefined}],
    ['a parent', () => scene.entity('a', 'team'), {capacity: 5, parent: 'team'}],
  ])('S9 keep nothing from a read of %s that began before invalidate', async (_, change, expected) => {
    await using limiter = scene.limiter()
    await scene.entity('a')
    const [configs, entities] = [hold('BatchGetItem'), hold('GetItem')]
    const first = limiter.acquire(request({rpm: 1}, 'a'))
    await expect.poll(() => configs.isWaiting() && entities.isWaiting()).toBe(true)
    await change()
    limiter.invalidate()
    entities.release()
    configs.release()
    await first
    const {limits, parent} = await limiter.acquire(request({rpm: 1}, 'a'))
    expect({capacity: limits.rpm?.capacity, parent}).toEqual(expected)
  })

  it('S10 charge nothing to a parent that was known before invalidate', async () => {
    await using limiter = scene.limiter()
    await scene.entity('a', 'team')
    await limiter.acquire(request({rpm: 1}, 'a'))
    await scene.entity('a')
    limiter.invalidate()
    const {transport} = scene
    const written: string[] = []
    const send: Transport['send'] = (operation, input, options) => {
      if (operation === 'UpdateItem') written.push(JSON.stringify((input as OperationInput<'UpdateItem'>).Key))
      return transport.send(operation, input, options)
    }
    scene.transport = {send}
    const lease = await limiter.acquire(request({rpm: 1}, 'a'))
    expect(lease.parent).toBeUndefined()
    expect(written.filter(key => key.includes('team'))).toEqual([])
  })

  it('L2 refuse nothing by a state from before invalidate, also if its answer arrives later', async () => {
    await using limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}, 'a'))
    const writes = hold('UpdateItem')
    const last = limiter.acquire(request({rpm: 4}, 'a'))
    await expect.poll(writes.isWaiting).toBe(true)
    const {transport, name: stack} = table
    const repository = new Repository({stack, transport, clock: () => scene.nowMs}).namespaceById(scene.namespace)
    await repository.resetBucket({entity: 'a', resource: RESOURCE})
    limiter.invalidate()
    writes.release()
    await last
    expect(await isAdmitted(limiter.acquire(request({rpm: 5}, 'a')))).toBe(true)
  })

  it('S2 S6 lose no pending settlement and no refusal to invalidate', async () => {
    await using limiter = scene.limiter({settle: 'soon'})
    const lease = await limiter.acquire(request({rpm: 5}, 'a'))
    expect(await isAdmitted(limiter.acquire(request({rpm: 1}, 'a')))).toBe(false)
    await lease.release({rpm: 2})
    limiter.invalidate()
    expect(await isAdmitted(limiter.acquire(request({rpm: 2}, 'a')))).toBe(true)
    await lease.release({rpm: 1})
    limiter.invalidate()
    await limiter.close()
    expect(await scene.totals('a', RESOURCE, 'rpm')).toEqual({tokens: 1, consumed: 4})
    const Key = wireKey(keys.bucket(scene.namespace, 'a', RESOURCE, 0))
    const {Item} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
    expect(readRefusals(Item ?? {}).requests).toBe(1)
    expect(limiter.uncountedRefusals).toBe(0)
  })

  it('S11 follow a namespace that was deleted and registered again', async () => {
    const {name: stack, transport} = table
    const {namespaces} = new Repository({stack, transport})
    const name = `again-${scene.namespace}`
    const {namespace: before} = await namespaces.register(name)
    await using limiter = scene.limiter({namespace: name, namespaceId: undefined as never, strict: true})
    expect(await failure(limiter.acquire(request({rpm: 1})))).toMatchObject({code: 'limits.missing'})
    await namespaces.delete(name)
    const {namespace: after} = await namespaces.register(name)
    expect(after.id).not.toBe(before.id)
    const tenant = new Repository({stack, transport}).namespaceById(after.id)
    await tenant.setLimits(ofResource, parseLimits(['rpm=5/min']))
    limiter.invalidate()
    expect(await isAdmitted(limiter.acquire(request({rpm: 1})))).toBe(true)
  })
})

describeOnBoth('a ping', {}, table => {
  let scene: Scene

  beforeEach(() => {
    scene = new Scene(table)
  })

  it('L8 takes one read and writes nothing', async () => {
    await using limiter = scene.limiter()
    const result = await limiter.ping()
    expect(result).toEqual({available: true, latencyMs: expect.any(Number)})
    expect(result.latencyMs).toBeGreaterThan(0)
    expect(scene.calls).toEqual(['GetItem'])
  })

  it('L5 reports an outage with its error, without a retry', async () => {
    await using limiter = scene.limiter()
    const outage = new Unavailable('GetItem', true, new Error('no network'))
    let calls = 0
    scene.transport = {
      send: () => {
        calls++
        return Promise.reject(outage)
      },
    }
    const result = await limiter.ping()
    expect(result).toEqual({available: false, latencyMs: expect.any(Number), error: outage})
    expect(calls).toBe(1)
  })

  it('L5 passes its time limit and signal on', async () => {
    await using limiter = scene.limiter({timeoutMs: 1234})
    const {transport} = scene
    const seen: unknown[] = []
    scene.transport = {
      send: (operation, input, options) => {
        seen.push(options)
        return transport.send(operation, input, options)
      },
    }
    const {signal} = new AbortController()
    await limiter.ping()
    await limiter.ping({timeoutMs: 5000, signal})
    expect(seen).toEqual([{timeoutMs: 1234}, {timeoutMs: 5000, signal}])
    expect(await failure(limiter.ping({timeoutMs: -1}))).toMatchObject({code: 'option.invalid'})
  })

  it('throws errors that are not outages: an abort, a missing table, a closed limiter', async () => {
    await using limiter = scene.limiter()
    expect(await failure(limiter.ping({signal: AbortSignal.abort()}))).toMatchObject({code: 'dynamo.aborted'})
    await using elsewhere = scene.limiter({stack: 'no-such-table'})
    expect(await failure(elsewhere.ping())).toMatchObject({code: 'table.missing'})
    await limiter.close()
    expect(await failure(limiter.ping())).toMatchObject({code: 'limiter.closed'})
  })
})
