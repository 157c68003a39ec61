import {describe, expect, it, vi} from 'vitest'
import {Aborted, Throttled, Unavailable} from '../../../src/lib/dynamo/errors.js'
import {ConfigCache, type FetchConfigs} from '../../../src/lib/repository/limits/cache.js'
import {Lru} from '../../../src/lib/repository/table/lru.js'
import type {Item, Key} from '../../../src/lib/schema/attribute-value.js'
import {encodeConfig} from '../../../src/lib/schema/config-record.js'
import {keyId, keys} from '../../../src/lib/schema/keys.js'

const limit = {name: 'rpm', capacity: 10, refillAmount: 10, refillPeriodSeconds: 60}
const resourceKey = (resource: string) => keys.resourceConfig('ns', resource)
const systemKey = keys.systemConfig('ns')

const resourceItem = (resource: string): Item =>
  encodeConfig({
    namespace: 'ns',
    scope: {level: 'resource', resource},
    limits: [limit],
    onUnavailable: undefined,
    auditRetentionDays: undefined,
  })

const systemItem = encodeConfig({
  namespace: 'ns',
  scope: {level: 'system'},
  limits: [],
  onUnavailable: 'allow',
  auditRetentionDays: undefined,
})

/** A table in memory that counts the reads and answers on command. */
function fakeTable(items: Map<string, Item>) {
  const reads: (readonly Key[])[] = []
  const held: (() => void)[] = []
  const table = {
    reads,
    hold: false,
    failure: undefined as Error | undefined,
    /** Lets the reads that wait answer, from the given one on. */
    release: (from = 0) => {
      for (const go of held.splice(from)) go()
    },
    fetch: (async wanted => {
      reads.push(wanted)
      const answer = new Map(items)
      const {failure} = table
      if (table.hold) await new Promise<void>(resolve => held.push(resolve))
      if (failure) throw failure
      return answer
    }) satisfies FetchConfigs,
  }
  return table
}

describe('the config cache', () => {
  const setUp = (options: {ttlMs?: number; maxEntries?: number} = {}) => {
    const clock = {ms: 1000}
    const items = new Map([[keyId(resourceKey('a')), resourceItem('a')]])
    const table = fakeTable(items)
    const cache = new ConfigCache({clock: () => clock.ms, ...options})
    const read = (resource: string, signal?: AbortSignal) => cache.read([resourceKey(resource)], table.fetch, {signal})
    const limitsOf = async (resource: string) => (await read(resource)).get(keyId(resourceKey(resource)))?.limits
    return {clock, items, table, cache, read, limitsOf}
  }

  it('remembers a record for 60 s and not a millisecond longer', async () => {
    const {clock, table, limitsOf} = setUp()
    expect(await limitsOf('a')).toEqual([limit])
    clock.ms += 59_999
    expect(await limitsOf('a')).toEqual([limit])
    expect(table.reads).toHaveLength(1)
    clock.ms += 1
    await limitsOf('a')
    expect(table.reads).toHaveLength(2)
  })

  it('does not let a clock that was set back keep a record alive', async () => {
    const {clock, table, limitsOf} = setUp()
    await limitsOf('a')
    clock.ms -= 1
    await limitsOf('a')
    expect(table.reads).toHaveLength(2)
  })

  it('remembers a missing record', async () => {
    const {items, clock, table, limitsOf} = setUp()
    expect(await limitsOf('b')).toBeUndefined()
    items.set(keyId(resourceKey('b')), resourceItem('b'))
    expect(await limitsOf('b')).toBeUndefined()
    expect(table.reads).toHaveLength(1)
    clock.ms += 60_000
    expect(await limitsOf('b')).toEqual([limit])
  })

  it('reads every time when the time to live is 0, without sharing', async () => {
    const {table, limitsOf} = setUp({ttlMs: 0})
    await Promise.all([limitsOf('a'), limitsOf('a')])
    await limitsOf('a')
    expect(table.reads).toHaveLength(3)
  })

  it('reads only the keys it does not know', async () => {
    const {cache, table, limitsOf} = setUp()
    await limitsOf('a')
    await cache.read([resourceKey('a'), resourceKey('b'), systemKey], table.fetch)
    expect(table.reads[1]).toEqual([resourceKey('b'), systemKey])
    expect(cache.statistics).toEqual({hits: 1, misses: 3, size: 3, evictions: 0})
  })

  it('evicts the least recently used record when it is full', async () => {
    const {cache, table, limitsOf} = setUp({maxEntries: 2})
    for (const resource of ['a', 'b', 'a', 'c']) await limitsOf(resource)
    expect(cache.statistics).toMatchObject({size: 2, evictions: 1})
    await limitsOf('a')
    expect(table.reads).toHaveLength(3)
    await limitsOf('b')
    expect(table.reads).toHaveLength(4)
  })

  it('shares one read among all callers that miss the same key, and only that key', async () => {
    const {cache, table, limitsOf} = setUp()
    table.hold = true
    const all = Array.from({length: 100}, () => limitsOf('a'))
    const both = cache.read([resourceKey('a'), resourceKey('b')], table.fetch)
    expect(table.reads).toEqual([[resourceKey('a')], [resourceKey('b')]])
    table.release()
    expect(new Set(await Promise.all(all))).toEqual(new Set([[limit]]))
    expect((await both).size).toBe(2)
    expect(cache.statistics).toMatchObject({hits: 100, misses: 2})
  })

  it('does not join a read that hangs: the next caller reads again, and the late response is not cached', async () => {
    const {items, table, limitsOf} = setUp()
    let elapsedMs = 0
    using _ = vi.spyOn(performance, 'now').mockImplementation(() => elapsedMs)
    table.hold = true
    const first = limitsOf('a')
    elapsedMs = 1_999
    const second = limitsOf('a')
    expect(table.reads).toHaveLength(1)
    elapsedMs = 2_000
    table.hold = false
    items.clear()
    expect(await limitsOf('a')).toBeUndefined()
    table.release()
    expect(await Promise.all([first, second])).toEqual([[limit], [limit]])
    expect(await limitsOf('a')).toBeUndefined()
    expect(table.reads).toHaveLength(2)
  })

  it('answers a hit while a read of another key hangs', async () => {
    const {table, limitsOf} = setUp()
    await limitsOf('a')
    table.hold = true
    const hanging = limitsOf('b')
    expect(await limitsOf('a')).toEqual([limit])
    table.release()
    await hanging
  })

  it('caches nothing of a failed read, and fails every waiting caller', async () => {
    const {cache, table, limitsOf} = setUp()
    table.failure = new Throttled('BatchGetItem')
    const results = await Promise.allSettled([limitsOf('b'), limitsOf('b')])
    expect(results.map(({status}) => status)).toEqual(['rejected', 'rejected'])
    expect(cache.statistics.size).toBe(0)
    table.failure = undefined
    expect(await limitsOf('b')).toBeUndefined()
    expect(table.reads).toHaveLength(2)
  })

  it('leaves no rejection unhandled when a caller waits for two reads and both fail', async () => {
    const {cache, table, limitsOf} = setUp()
    table.hold = true
    table.failure = new Throttled('BatchGetItem')
    const first = limitsOf('a')
    const second = cache.read([resourceKey('a'), resourceKey('b')], table.fetch)
    table.release()
    await expect(first).rejects.toBeInstanceOf(Throttled)
    await expect(second).rejects.toBeInstanceOf(Throttled)
  })

  it.each(['one key', 'everything'])('forgets %s, and the result of a read in progress', async what => {
    const {cache, items, table, limitsOf} = setUp()
    table.hold = true
    const early = limitsOf('a')
    items.delete(keyId(resourceKey('a')))
    cache.invalidate(what === 'one key' ? resourceKey('a') : undefined)
    const late = limitsOf('a')
    table.release(1)
    expect(await late).toBeUndefined()
    table.release()
    expect(await early).toEqual([limit])
    expect(await limitsOf('a')).toBeUndefined()
    expect(table.reads).toHaveLength(2)
  })

  it('lets one caller abort without aborting the read of the others', async () => {
    const {table, read, limitsOf} = setUp()
    table.hold = true
    const giveUp = new AbortController()
    const stopped = read('a', giveUp.signal)
    const patient = limitsOf('a')
    giveUp.abort()
    await expect(stopped).rejects.toBeInstanceOf(Aborted)
    await expect(read('b', giveUp.signal)).rejects.toBeInstanceOf(Aborted)
    table.release()
    expect(await patient).toEqual([limit])
    expect(table.reads).toHaveLength(1)
  })

  it('counts a deadline as an outage', async () => {
    const {table, read} = setUp()
    table.hold = true
    await expect(read('a', AbortSignal.timeout(5))).rejects.toBeInstanceOf(Unavailable)
    table.release()
  })

  it('keeps the last system record after it expired, until a read finds it deleted', async () => {
    const {cache, clock, items, table} = setUp()
    items.set(keyId(systemKey), systemItem)
    const readSystem = () => cache.read([systemKey], table.fetch)
    await readSystem()
    clock.ms += 1_000_000
    table.failure = new Throttled('BatchGetItem')
    await expect(readSystem()).rejects.toThrow()
    expect(cache.lastKnown(systemKey)?.onUnavailable).toBe('allow')
    table.failure = undefined
    items.delete(keyId(systemKey))
    await readSystem()
    expect(cache.lastKnown(systemKey)).toBeUndefined()
  })
})

describe('the bounded map', () => {
  it('moves an entry that is read or set again to the end of the queue', () => {
    const lru = new Lru<number>({maxEntries: 2, ttlMs: Infinity, clock: () => 0})
    lru.set('a', 1)
    lru.set('b', 2)
    lru.set('a', 3)
    lru.set('c', 4)
    expect([lru.get('a'), lru.get('b'), lru.get('c'), lru.size, lru.evictions]).toEqual([3, undefined, 4, 2, 1])
    lru.delete('a')
    expect(lru.get('a')).toBeUndefined()
    lru.clear()
    expect(lru.size).toBe(0)
  })
})
