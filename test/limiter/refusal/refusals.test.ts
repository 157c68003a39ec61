import {beforeEach, expect, it} from 'vitest'
import {Unavailable} from '../../../src/lib/dynamo/errors.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {itemBytes} from '../../../src/lib/schema/item-size.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import {readRefusals} from '../../../src/lib/schema/refusal-counts.js'
import {FaultTransport} from '../../helpers/fault-transport.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../../helpers/table.js'

const RESOURCE = 'gpt-4'
const of = (consume: Record<string, number>, entity = 'user-1') => ({entity, resource: RESOURCE, consume})

describeOnEngine('refusals in buckets', () => {
  const table = useTable()
  let scene: Scene
  let faults: FaultTransport

  beforeEach(async () => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    scene.transport = {
      send: (operation, input, options) => {
        scene.calls.push(operation)
        return faults.send(operation, input, options)
      },
    }
    await scene.configure({level: 'resource', resource: RESOURCE}, 'rpm=100/min', 'tpm=1000/min')
  })

  async function item(entity = 'user-1', shard = 0): Promise<Item | undefined> {
    const Key = wireKey(keys.bucket(scene.namespace, entity, RESOURCE, shard))
    return (await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})).Item
  }

  const counts = async (entity?: string, shard?: number) => readRefusals((await item(entity, shard)) ?? {})

  it('cost no call if known, and piggyback on the next write', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(of({rpm: 90, tpm: 900}))
    scene.calls.length = 0
    for (let count = 0; count < 50; count++)
      expect((await limiter.tryAcquire(of({rpm: 1, tpm: 500}))).admitted).toBe(false)
    expect((await limiter.tryAcquire(of({rpm: 20, tpm: 1}))).admitted).toBe(false)
    expect(scene.calls).toEqual([])
    const refusedAtMs = scene.nowMs
    scene.nowMs += 1
    await limiter.acquire(of({rpm: 1, tpm: 1}))
    expect(scene.calls).toEqual(['UpdateItem'])
    expect(await counts()).toEqual({
      requests: 51,
      byParent: 0,
      lastAtMs: refusedAtMs,
      limits: new Map([
        ['rpm', {requests: 1, tokens: 20n}],
        ['tpm', {requests: 50, tokens: 25_000n}],
      ]),
    })
    await limiter.close()
    expect(scene.calls).toEqual(['UpdateItem'])
  })

  it('are written at close, in one call that changes nothing else', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(of({rpm: 100}))
    const before = await item()
    scene.nowMs += 300
    for (let count = 0; count < 5; count++) await limiter.tryAcquire(of({rpm: 1}))
    scene.calls.length = 0
    await limiter.close()
    expect(scene.calls).toEqual(['UpdateItem'])
    const {x, x_rpm, xl, ...others} = (await item()) as Item
    expect({x, x_rpm, xl}).toEqual({x: {N: '5'}, x_rpm: {N: '5'}, xl: {N: String(scene.nowMs)}})
    const isMark = (name: string) => name.startsWith('wn_')
    const withoutMarks = (all: Item = {}) => Object.fromEntries(Object.entries(all).filter(([name]) => !isMark(name)))
    expect(withoutMarks(others)).toEqual(withoutMarks(before))
    expect(limiter.uncountedRefusals).toBe(0)
  })

  it('are all written at close, even for the maximum number of limits', async () => {
    const names = Array.from({length: 47}, (_, at) => `limit-${at}`)
    await scene.configure({level: 'resource', resource: RESOURCE}, ...names.map(name => `${name}=100/min`))
    const all = (tokens: number) => of(Object.fromEntries(names.map(name => [name, tokens])))
    const limiter = scene.limiter()
    await limiter.acquire(all(90))
    for (let count = 0; count < 3; count++) await limiter.tryAcquire(all(20))
    await limiter.close()
    const {requests, limits} = await counts()
    expect([requests, limits.size, new Set([...limits.values()].map(each => each.requests))]).toEqual([
      3,
      47,
      new Set([3]),
    ])
  })

  it('by a switch count at the disabled bucket, without a limit, and only if it exists', async () => {
    const repository = new NamespaceRepository(scene.tenant, undefined)
    const limiter = scene.limiter()
    await limiter.acquire(of({rpm: 1}))
    await repository.setAccess({level: 'resource', resource: RESOURCE}, 'disabled')
    for (let count = 0; count < 3; count++)
      expect(await limiter.tryAcquire(of({rpm: 1}))).toMatchObject({reason: 'disabled'})
    for (const name of ['new-1', 'new-2'])
      expect(await limiter.tryAcquire(of({rpm: 1}, name))).toMatchObject({reason: 'disabled'})
    expect(limiter.uncountedRefusals).toBe(3)
    scene.calls.length = 0
    await limiter.close()
    expect(scene.calls).toEqual(['UpdateItem'])
    expect(await counts()).toEqual({requests: 3, byParent: 0, blocked: 3, lastAtMs: scene.nowMs, limits: new Map()})
    expect(await item('new-1')).toBeUndefined()
  })

  it("by a parent's switch count at the parent, and are noted at the child", async () => {
    const repository = new NamespaceRepository(scene.tenant, undefined)
    await scene.entity('team')
    await scene.entity('member', 'team')
    const limiter = scene.limiter()
    await limiter.acquire(of({rpm: 1}, 'member'))
    await repository.setAccess({level: 'entity', entity: 'team', resource: RESOURCE}, 'disabled')
    for (let count = 0; count < 12; count++)
      expect(await limiter.tryAcquire(of({rpm: 1}, 'member'))).toMatchObject({reason: 'disabled'})
    await limiter.close()
    expect(await counts('team')).toMatchObject({requests: 12, byParent: 0, blocked: 12})
    expect(await counts('member')).toEqual({requests: 0, byParent: 12, lastAtMs: scene.nowMs, limits: new Map()})
  })

  it('are not sent with a write that only checks whether the bucket still refuses', async () => {
    const {transport} = scene
    const sent: string[] = []
    scene.transport = {
      send: (operation, input, options) => {
        sent.push(JSON.stringify(input))
        return transport.send(operation, input, options)
      },
    }
    const limiter = scene.limiter({denyCacheMs: 0})
    await limiter.acquire(of({rpm: 100}))
    for (let count = 0; count < 4; count++) expect((await limiter.tryAcquire(of({rpm: 1}))).admitted).toBe(false)
    expect(sent.filter(text => text.includes('"x_rpm"'))).toEqual([])
    // Admitted: the refusals wait for another write, here at close.
    scene.nowMs += 60_000
    await limiter.acquire(of({rpm: 1}))
    await limiter.close()
    expect((await counts()).requests).toBe(4)
  })

  it('do not recreate a deleted bucket', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(of({rpm: 100}))
    await limiter.tryAcquire(of({rpm: 1}))
    const Key = wireKey(keys.bucket(scene.namespace, 'user-1', RESOURCE, 0))
    await table.transport.send('DeleteItem', {TableName: table.name, Key})
    await limiter.close()
    expect(await item()).toBeUndefined()
    expect(limiter.uncountedRefusals).toBe(1)
  })

  it('piggyback on the first write of a recreated bucket', async () => {
    const limiter = scene.limiter({denyCacheMs: 0})
    await limiter.acquire(of({rpm: 100}))
    await limiter.tryAcquire(of({rpm: 1}))
    const Key = wireKey(keys.bucket(scene.namespace, 'user-1', RESOURCE, 0))
    await table.transport.send('DeleteItem', {TableName: table.name, Key})
    await limiter.acquire(of({rpm: 1}))
    expect((await counts()).requests).toBe(1)
  })

  it('count only at the end: a request that waits and is admitted was not refused', async () => {
    const sleep = async (ms: number) => {
      scene.nowMs += ms
    }
    const limiter = scene.limiter({sleep})
    await limiter.acquire(of({rpm: 100}))
    await limiter.acquire({...of({rpm: 1}), waitMs: 10_000})
    expect((await limiter.tryAcquire({...of({rpm: 100}), waitMs: 1})).admitted).toBe(false)
    await limiter.close()
    expect((await counts()).requests).toBe(1)
  })

  it('include what a lease could not take later', async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(of({rpm: 1, tpm: 600}))
    await expect(lease.consume({tpm: 500})).rejects.toMatchObject({code: 'limit.exceeded'})
    await limiter.close()
    expect(await counts()).toMatchObject({requests: 1, limits: new Map([['tpm', {requests: 1, tokens: 500n}]])})
  })

  it('by a parent count at the parent, and are noted at the child with its refund', async () => {
    await scene.entity('user-1', 'team')
    await scene.configure({level: 'entity', entity: 'team', resource: RESOURCE}, 'tpm=100/min')
    const limiter = scene.limiter({denyCacheMs: 0})
    await limiter.acquire(of({tpm: 60}))
    await limiter.tryAcquire(of({tpm: 60}))
    await limiter.close()
    expect(await counts('team')).toMatchObject({requests: 1, limits: new Map([['tpm', {requests: 1, tokens: 60n}]])})
    expect(await counts('user-1')).toMatchObject({requests: 0, byParent: 1, limits: new Map()})
  })

  it('stay on their shard in a split, and count once if all shards refuse', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(of({rpm: 100}))
    await limiter.tryAcquire(of({rpm: 1}))
    await limiter.close()
    await splitBucket(scene.tenant, 'user-1', RESOURCE, 1)
    expect([(await counts('user-1', 0)).requests, (await counts('user-1', 1)).requests]).toEqual([1, 0])
    expect(Object.keys((await item('user-1', 1)) ?? {}).filter(name => /^x/.test(name))).toEqual([])
    const again = scene.limiter()
    for (let count = 0; count < 4; count++) await again.tryAcquire(of({rpm: 1}))
    await again.close()
    expect((await counts('user-1', 0)).requests + (await counts('user-1', 1)).requests).toBe(5)
  })

  it.each([
    ['lost after apply', 'comes with a charge'],
    ['lost before apply', 'comes with a charge'],
    ['overtaken', 'comes with a charge'],
    ['lost after apply', 'is written for its own sake'],
    ['lost before apply', 'is written for its own sake'],
    ['overtaken', 'is written for its own sake'],
  ] as const)('are counted once when the call is %s and the count %s', async (kind, how) => {
    const limiter = scene.limiter()
    await limiter.acquire(of({rpm: 99}))
    for (let count = 0; count < 7; count++) await limiter.tryAcquire(of({rpm: 5}))
    faults.start({kind, at: 1, operation: 'UpdateItem'})
    if (how === 'comes with a charge') await limiter.acquire(of({rpm: 1}))
    await limiter.close()
    faults.stop()
    expect(await counts()).toMatchObject({requests: 7, limits: new Map([['rpm', {requests: 7, tokens: 35n}]])})
    expect(limiter.uncountedRefusals).toBe(0)
  })

  it('are lost, not doubled, if the outcome of their write stays unknown', async () => {
    const limiter = scene.limiter({timeoutMs: PATIENT_MS})
    await limiter.acquire(of({rpm: 99}))
    await limiter.tryAcquire(of({rpm: 5}))
    faults.start({kind: 'lost after apply', at: 1, operation: 'UpdateItem', times: 50})
    await expect(limiter.acquire({...of({rpm: 1}), timeoutMs: 200})).rejects.toMatchObject({
      code: 'limiter.unavailable',
    })
    // The write is abandoned a moment after its caller.
    await limiter.settled()
    faults.stop()
    await limiter.close()
    expect((await counts()).requests).toBe(1)
    expect(limiter.uncountedRefusals).toBe(1)
  })

  it('L6 are lost, not doubled, if another process overwrites the mark of their write to an unread bucket', async () => {
    const sameSlot = (stem: number) => (count: number) => new Uint8Array(count).fill(count === 1 ? 0 : stem)
    const [limiter, other] = [1, 2].map(stem => scene.limiter({randomBytes: sameSlot(stem)}))
    await other?.acquire(of({rpm: 90}))
    for (let count = 0; count < 3; count++) await limiter?.tryAcquire(of({rpm: 20}))
    const {transport} = scene
    const meddle = (write: (...call: Parameters<typeof transport.send>) => Promise<never>) => {
      const send = (...call: Parameters<typeof transport.send>) =>
        call[0] === 'UpdateItem' ? write(...call) : transport.send(...call)
      scene.transport = {send: send as typeof transport.send}
    }
    // After a write that fails, the bucket counts as unread.
    meddle(async operation => {
      throw new Unavailable(operation, false)
    })
    await expect(limiter?.acquire(of({rpm: 1}))).rejects.toMatchObject({code: 'limiter.unavailable'})
    meddle(async (...call) => {
      scene.transport = transport
      await transport.send(...call)
      await other?.acquire(of({rpm: 1}))
      throw new Unavailable(call[0], true)
    })
    await limiter?.acquire(of({rpm: 1}))
    await limiter?.close()
    expect((await counts()).requests).toBe(3)
    expect(limiter?.uncountedRefusals).toBe(3)
  })

  it('keep a bucket of five limits within a kilobyte, so that a write costs one unit', async () => {
    const names = ['rpm', 'tpm', 'rph', 'tph', 'tpd']
    await scene.configure({level: 'resource', resource: RESOURCE}, ...names.map(name => `${name}=200000/min`))
    const all = (tokens: number) => of(Object.fromEntries(names.map(name => [name, tokens])), 'customer-0042')
    const limiter = scene.limiter()
    await limiter.acquire(all(150_000))
    for (let count = 0; count < 1000; count++) await limiter.tryAcquire(all(123_456))
    let units = 0
    scene.transport = {
      send: async (operation, input, options) => {
        const asking = {...input, ReturnConsumedCapacity: 'INDEXES'} as typeof input
        const answer = await table.transport.send(operation, asking, options)
        const {ConsumedCapacity} = answer as {ConsumedCapacity?: {Table?: {CapacityUnits?: number}}}
        units += ConsumedCapacity?.Table?.CapacityUnits ?? 0
        return answer
      },
    }
    await limiter.acquire(all(1))
    expect((await counts('customer-0042')).requests).toBe(1000)
    expect(units).toBe(1)
    expect(itemBytes((await item('customer-0042')) as Item)).toBeLessThan(1024)
  })
})
