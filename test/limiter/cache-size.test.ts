import {beforeEach, expect, it} from 'vitest'
import type {OperationInput} from '../../src/lib/dynamo/transport.js'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {readRefusals} from '../../src/lib/schema/refusal-counts.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {seededRandom} from './fixtures/seeded-random.js'
import {failure, isAdmitted, request} from './visit.js'

const RESOURCE = 'gpt-4'
const BUCKETS = 50
const ASKED = 12
const ALLOWED = 5

describeOnBoth('the size of the caches', {}, table => {
  let scene: Scene

  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: RESOURCE}, `rpm=${ALLOWED}/hour`)
  })

  const refusedIn = async (entity: string) => {
    const Key = wireKey(keys.bucket(scene.namespace, entity, RESOURCE, 0))
    const {Item} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
    return readRefusals(Item ?? {}).requests
  }

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '10'])('accepts whole numbers from 1, not %s', size => {
    expect(() => new RateLimiter({stack: 'prod', cacheSize: size as number})).toThrow(
      expect.objectContaining({code: 'option.invalid', details: {option: 'cacheSize'}}),
    )
  })

  it('S1 S4 S6 admits exactly over 50 buckets with one entry, counts every refusal, and has one write per item in flight', async () => {
    const underWay = new Map<string, number>()
    let most = 0
    const {transport} = scene
    scene.transport = {
      send: async (operation, input, options) => {
        if (operation !== 'UpdateItem') return transport.send(operation, input, options)
        const id = JSON.stringify((input as OperationInput<'UpdateItem'>).Key)
        const count = (underWay.get(id) ?? 0) + 1
        underWay.set(id, count)
        most = Math.max(most, count)
        try {
          return await transport.send(operation, input, options)
        } finally {
          underWay.set(id, count - 1)
        }
      },
    }
    const limiter = scene.limiter({cacheSize: 1})
    const random = seededRandom(7)
    const order = Array.from({length: BUCKETS * ASKED}, (_, at) => ({at, rank: random()}))
      .toSorted((a, b) => a.rank - b.rank)
      .map(({at}) => `user-${at % BUCKETS}`)
    const admitted = new Map<string, number>()
    const lane = async () => {
      for (let entity = order.pop(); entity !== undefined; entity = order.pop())
        if (await isAdmitted(limiter.acquire(request({rpm: 1}, entity))))
          admitted.set(entity, (admitted.get(entity) ?? 0) + 1)
    }
    await Promise.all(Array.from({length: 64}, lane))
    await limiter.close()
    const entities = Array.from({length: BUCKETS}, (_, at) => `user-${at}`)
    const found = await Promise.all(
      entities.map(async entity => ({
        admitted: admitted.get(entity),
        ...(await scene.totals(entity, RESOURCE, 'rpm')),
        refused: await refusedIn(entity),
      })),
    )
    const exact = {admitted: ALLOWED, tokens: 0, consumed: ALLOWED, refused: ASKED - ALLOWED}
    expect(found).toEqual(entities.map(() => exact))
    expect([limiter.uncountedRefusals, most]).toEqual([0, 1])
  })

  it('S6 keeps a bucket with pending settlements until they are written, with one entry', async () => {
    const limiter = scene.limiter({cacheSize: 1, settle: 'soon'})
    const entities = ['a', 'b', 'c']
    for (const entity of entities) {
      const lease = await limiter.acquire(request({rpm: ALLOWED}, entity))
      await lease.adjust({rpm: -2})
    }
    // A new queue would not know of the two pending refunds, and refuse.
    for (const entity of entities) await limiter.acquire(request({rpm: 2}, entity))
    await limiter.close()
    const totals = await Promise.all(entities.map(entity => scene.totals(entity, RESOURCE, 'rpm')))
    expect(totals).toEqual(entities.map(() => ({tokens: 0, consumed: ALLOWED})))
  })

  it.each([
    ['lost before apply', 'UpdateItem'],
    ['lost after apply', 'UpdateItem'],
    ['overtaken', 'UpdateItem'],
    ['lost before apply', 'GetItem'],
    ['throttled', 'GetItem'],
  ] as const)('S5 S6 refunds once to a bucket evicted from a cache of one entry: %s (%s)', async (kind, operation) => {
    const faults = new FaultTransport(table.transport)
    scene.transport = faults
    const limiter = scene.limiter({cacheSize: 1})
    const lease = await limiter.acquire(request({rpm: ALLOWED}, 'a'))
    // The process's slot now holds another mark than that of the charge.
    const other = await limiter.acquire(request({rpm: 0}, 'a'))
    await limiter.acquire(request({rpm: 1}, 'b'))
    await limiter.settled()
    faults.start({kind, at: 1, operation})
    await lease.release({rpm: 3})
    expect(faults.hits).toBe(1)
    faults.start()
    expect(await scene.totals('a', RESOURCE, 'rpm')).toEqual({tokens: 3, consumed: 2})
    await Promise.all([lease.rollback(), other.rollback()])
    expect(await scene.totals('a', RESOURCE, 'rpm')).toEqual({tokens: ALLOWED, consumed: 0})
  })

  it('D-40 bounds all caches, however many entities, parents, resources and refusals occur', async () => {
    await scene.entity('child', 'team')
    const limiter = scene.limiter({cacheSize: 10})
    const lane = async (at: number) => {
      const resource = at % 4 === 0 ? `model-${at}` : RESOURCE
      await scene.configure({level: 'resource', resource}, `rpm=${ALLOWED}/hour`)
      const asked = {entity: at === 0 ? 'child' : `user-${at}`, resource, consume: {rpm: ALLOWED}}
      expect(await isAdmitted(limiter.acquire(asked))).toBe(true)
      expect(await isAdmitted(limiter.acquire(asked))).toBe(false)
    }
    for (let at = 0; at < 120; at += 12) await Promise.all(Array.from({length: 12}, (_, next) => lane(at + next)))
    await limiter.settled()
    const {refusals, ...entries} = limiter.cacheEntries ?? {}
    expect(entries).toEqual({queues: 10, resources: 10, seen: 10, entities: 10, configs: 10})
    expect(refusals).toBeLessThanOrEqual(10)
    await limiter.close()
    expect([limiter.cacheEntries?.refusals, limiter.uncountedRefusals]).toEqual([0, 0])
  })

  it('decides how many entities are cached: evicted ones cost a call and get the same decision', async () => {
    const calls = async (cacheSize: number) => {
      const limiter = scene.limiter({cacheSize})
      const entities = ['a', 'b', 'c'].map(name => `${name}-${cacheSize}`)
      for (const entity of entities) await limiter.acquire(request({rpm: ALLOWED}, entity))
      scene.calls.length = 0
      for (const entity of entities)
        expect(await failure(limiter.acquire(request({rpm: 1}, entity)))).toMatchObject({code: 'limit.exceeded'})
      return scene.calls.filter(call => call === 'UpdateItem').length
    }
    // Refusals of more buckets than are cached are flushed at once, which are calls too.
    expect(await calls(1)).toBeGreaterThanOrEqual(3)
    expect(await calls(3)).toBe(0)
  })
})
