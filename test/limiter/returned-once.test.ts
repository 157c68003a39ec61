import {beforeEach, expect, it} from 'vitest'
import {Denied, TransactionConflict, Unavailable, ValidationFailed} from '../../src/lib/dynamo/errors.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, request, splitInto} from './visit.js'

const FIRST_SHARD = 'BUCKET#user-1#gpt-4#0'

/** All limiters with this source of randomness share a slot for their marks. */
const sameSlot = (stem: number) => (count: number) => new Uint8Array(count).fill(count === 1 ? 0 : stem)

describeOnBoth('settlements', {timeout: 60_000}, table => {
  let scene: Scene
  let faults: FaultTransport
  beforeEach(async () => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    scene.transport = faults
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'input=1000/day', 'output=1000/day')
  })

  const consumed = async () => ({
    input: (await scene.totals('user-1', 'gpt-4', 'input')).consumed,
    output: (await scene.totals('user-1', 'gpt-4', 'output')).consumed,
  })
  const tokens = async () => (await scene.totals('user-1', 'gpt-4', 'input')).tokens
  const dropBucket = () =>
    table.transport.send('DeleteItem', {
      TableName: table.name,
      Key: wireKey(keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0)),
    })

  /** Runs something just before write number `at` from now on. */
  function before(at: number, intrude: () => Promise<unknown>): void {
    let writes = 0
    scene.transport = {
      send: async (operation, input, options) => {
        if (operation === 'UpdateItem' && ++writes === at) await intrude()
        return faults.send(operation, input, options)
      },
    }
  }

  it.each(['lost before apply', 'lost after apply'] as const)(
    'S6 charge at least once and refund at most once if the write is %s and its mark overwritten',
    async kind => {
      const lossy = scene.limiter({randomBytes: sameSlot(1)})
      const rival = scene.limiter({randomBytes: sameSlot(2), transport: table.transport})
      const lease = await lossy.acquire(request({input: 100, output: 100}))
      faults.start({kind, at: 1})
      before(2, () => rival.acquire(request({input: 1, output: 1})))
      await lease.adjust({input: 300, output: -40})
      expect(faults.hits).toBe(1)
      const after = await consumed()
      expect(after.input).toBeGreaterThanOrEqual(401)
      expect(after.output).toBeGreaterThanOrEqual(61)
      await lease.rollback()
      // The rival's lease is still held.
      expect((await consumed()).input).toBeGreaterThanOrEqual(1)
      expect((await consumed()).output).toBeGreaterThanOrEqual(1)
    },
  )

  it('S6 do not lose a charge that is batched with a larger refund', async () => {
    const lossy = scene.limiter({randomBytes: sameSlot(1)})
    const rival = scene.limiter({randomBytes: sameSlot(2), transport: table.transport})
    const [held, charged] = [await lossy.acquire(request({input: 100})), await lossy.acquire(request({input: 1}))]
    await lossy.settled()
    faults.start({kind: 'lost before apply', at: 2})
    // The first write occupies the queue, so that the other two share the next one, which gets lost.
    before(3, () => rival.acquire(request({input: 1})))
    await Promise.all([charged.adjust({input: 1}), held.rollback(), charged.adjust({input: 50})])
    expect((await consumed()).input).toBeGreaterThanOrEqual(1 + 1 + 50 + 1)
  })

  it.each([
    ['an expired token', new Denied('UpdateItem')],
    ['a validation error', new ValidationFailed('UpdateItem')],
    ['conflicts', new TransactionConflict('UpdateItem')],
  ])('S6 do not repeat a refund after a lost answer if the retry meets %s', async (_, error) => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({input: 100}))
    await limiter.acquire(request({input: 10}))
    let writes = 0
    const transport: Transport = {
      send: async (operation, input, options) => {
        if (operation !== 'UpdateItem' || ++writes > 6) return table.transport.send(operation, input, options)
        if (writes > 1) throw error
        await table.transport.send(operation, input, options)
        throw new Unavailable(operation, true)
      },
    }
    scene.transport = transport
    await failure(lease.release({input: 60}))
    expect((await consumed()).input).toBe(50)
    scene.transport = table.transport
    await lease.rollback()
    await limiter.settled()
    expect((await consumed()).input).toBe(10)
    await limiter.close()
  })

  it.each([
    ['an expired token', new Denied('UpdateItem')],
    ['conflicts', new TransactionConflict('UpdateItem')],
  ])('S6 do not repeat the refund of a whole lease that meets %s', async (_, error) => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({input: 100}))
    await limiter.acquire(request({input: 10}))
    let writes = 0
    scene.transport = {
      send: async (operation, input, options) => {
        if (operation !== 'UpdateItem' || ++writes > 6) return table.transport.send(operation, input, options)
        if (writes > 1) throw error
        await table.transport.send(operation, input, options)
        throw new Unavailable(operation, true)
      },
    }
    await lease.rollback()
    expect((await consumed()).input).toBe(10)
  })

  it('S6 ignore a first try that arrives after its retry and a later write', async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({input: 100}))
    let late: (() => Promise<unknown>) | undefined
    scene.transport = {
      send: async (operation, input, options) => {
        if (operation !== 'UpdateItem' || late) return table.transport.send(operation, input, options)
        late = () => table.transport.send(operation, input).catch(() => {})
        throw new Unavailable(operation, true)
      },
    }
    await lease.release({input: 60})
    await limiter.acquire(request({input: 5}))
    await late?.()
    expect((await consumed()).input).toBe(45)
  })

  it('S5 refund after a lost first try, even after an unanswered gather of the same process', async () => {
    const limiter = scene.limiter({random: () => 0})
    const lease = await limiter.acquire(request({input: 100}))
    await splitInto(scene, 2)
    await limiter.acquire(request({input: 1}))
    faults.start({kind: 'lost after apply', operation: 'TransactWriteItems', at: 1, times: 20})
    expect(await failure(limiter.acquire(request({input: 800})))).toMatchObject({code: 'limiter.unavailable'})
    faults.start({kind: 'lost before apply', operation: 'UpdateItem', at: 1})
    await lease.rollback()
    expect(faults.hits).toBe(1)
    expect((await scene.totals('user-1', 'gpt-4', 'input', 2)).consumed).toBe(801)
  })

  it('S5 refund after a lost first try, even after a gather whose change of limits never arrived', async () => {
    const lastFirst = scene.limiter({random: () => 0.99})
    const lease = await lastFirst.acquire(request({input: 100}))
    await splitInto(scene, 4)
    await lastFirst.acquire(request({input: 1}))
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'input=900/day', 'output=1000/day')
    scene.nowMs += 60_000
    // The lease's shard is not asked separately, only read with the others.
    faults.start({kind: 'lost before apply', at: `UpdateItem ${FIRST_SHARD} (1)`, on: FIRST_SHARD, times: 20})
    const refused = await failure(lastFirst.acquire(request({input: 900})))
    expect(refused).toMatchObject({code: 'limit.exceeded'})
    expect(faults.hits).toBeGreaterThan(1)
    faults.start({kind: 'lost before apply', operation: 'UpdateItem', at: 1})
    await lease.rollback()
    expect(faults.hits).toBe(1)
    expect((await scene.totals('user-1', 'gpt-4', 'input', 4)).consumed).toBe(1)
  })

  it('refund with one call, and at most one more if the mark slot is shared', async () => {
    const [first, second] = [1, 2].map(stem => scene.limiter({randomBytes: sameSlot(stem)}))
    const lease = await first?.acquire(request({input: 100}))
    faults.start()
    await lease?.release({input: 10})
    expect(faults.calls).toHaveLength(1)
    await second?.acquire(request({input: 1}))
    faults.start()
    await lease?.release({input: 10})
    expect(faults.calls).toHaveLength(2)
    expect((await consumed()).input).toBe(81)
  })

  it.each(['release', 'rollback'] as const)(
    'S2 do not apply %s to a bucket that was deleted and recreated',
    async what => {
      const lease = await scene.limiter().acquire(request({input: 100}))
      await dropBucket()
      await scene.limiter().acquire(request({input: 30}))
      await (what === 'rollback' ? lease.rollback() : lease.release({input: 50}))
      expect([await tokens(), (await consumed()).input]).toEqual([970, 30])
    },
  )

  it('S2 do not refund to a bucket that was reset, while charges still count', async () => {
    const limiter = scene.limiter()
    const lease = await limiter.acquire(request({input: 100}))
    await new NamespaceRepository(scene.tenant, undefined).resetBucket({entity: 'user-1', resource: 'gpt-4'})
    await scene.limiter().acquire(request({input: 30}))
    await lease.adjust({input: -50, output: 7})
    expect(await tokens()).toBe(970)
    expect((await scene.totals('user-1', 'gpt-4', 'output')).tokens).toBe(993)
    await lease.rollback()
    expect(await tokens()).toBe(970)
  })
})
