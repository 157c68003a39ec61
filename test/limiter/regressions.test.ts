import {beforeEach, expect, it} from 'vitest'
import {TransactionCancelled, TransactionConflict, ValidationFailed} from '../../src/lib/dynamo/errors.js'
import type {Operation, OperationInput} from '../../src/lib/dynamo/transport.js'
import {n} from '../../src/lib/schema/attribute-value.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {PythonPeer} from '../helpers/python-peer.js'
import {admittedUntilRefused, failure, refusal, request, splitInto} from './visit.js'

/** Fixed faults of the reference system, named by its commits and issues. */
describeOnBoth('A.6 fixed faults of the reference system', {}, table => {
  let scene: Scene
  let python: PythonPeer
  beforeEach(async () => {
    scene = new Scene(table)
    python = new PythonPeer(scene)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min')
  })

  /** Runs something before requests that `when` matches. */
  function before(
    when: (operation: Operation, input: OperationInput<'UpdateItem'>) => boolean,
    act: () => Promise<void>,
  ) {
    const {transport} = scene
    scene.transport = {
      send: async (operation, input, options) => {
        if (when(operation, input as OperationInput<'UpdateItem'>)) await act()
        return transport.send(operation, input, options)
      },
    }
  }
  const isRefill = (_: Operation, input: OperationInput<'UpdateItem'>) =>
    Object.values(input.ExpressionAttributeNames ?? {}).includes('rfr') && (input.ConditionExpression ?? '').length > 0

  const concernsTeam = ({Key}: OperationInput<'UpdateItem'>) => JSON.stringify(Key ?? {}).includes('team-1')

  it('ced59de #428: finds the read bucket on the slow path; no refusal has "retry after 0.0 s"', async () => {
    await scene.limiter().acquire(request({rpm: 100}))
    const error = await refusal(scene.limiter().acquire(request({rpm: 1})))
    expect(error.retryAfterMs).toBe(601)
    scene.nowMs += 601
    await scene.limiter().acquire(request({rpm: 1}))
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toMatchObject({consumed: 101})
  })

  it('eb345b3: does not overdraw when fast writes drain the bucket between read and refill', async () => {
    await scene.limiter().acquire(request({rpm: 60}))
    scene.nowMs += 30_000
    let drained = 0
    before(isRefill, async () => {
      if (drained++ === 0) expect(await python.speculative({rpm: 40})).toBe(true)
    })
    // 40 stored and 50 refilled are 90; 40 of them are gone when the write arrives.
    const error = await refusal(scene.limiter().acquire(request({rpm: 80})))
    expect(drained).toBeGreaterThan(0)
    expect(error.statuses).toMatchObject([{available: 50, requested: 80}])
    expect(await python.number('b_rpm_tk')).toBeGreaterThanOrEqual(0)
    expect(await admittedUntilRefused(scene.limiter(), {rpm: 1}, 200)).toBe(50)
  })

  it('659a04b: renews a bucket past its expiry before it charges it', async () => {
    await scene.limiter().acquire(request({rpm: 1}))
    await python.set({ttl: n(Math.floor(scene.nowMs / 1000))})
    scene.calls.length = 0
    await scene.limiter().acquire(request({rpm: 1}))
    expect(scene.calls.filter(call => call === 'UpdateItem')).toHaveLength(2)
    expect(await python.number('ttl')).toBe(Math.floor(scene.nowMs / 1000) + 7 * 86_400)
    expect(await scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 98, consumed: 2})
  })

  it('f8582a0 #332: retries after meeting a transaction, for one item and for several', async () => {
    await scene.limiter().acquire(request({}))
    await splitInto(scene, 4)
    const limiter = scene.limiter()
    await limiter.acquire(request({}))
    let conflicts = 0
    before(
      () => true,
      async () => {
        if (conflicts++ < 2) throw new TransactionConflict('UpdateItem')
      },
    )
    await limiter.acquire(request({rpm: 1}))
    let cancelled = 0
    before(
      operation => operation === 'TransactWriteItems',
      async () => {
        const reason = (code: string) => ({code, message: undefined, oldItem: undefined})
        if (cancelled++ < 2)
          throw new TransactionCancelled('TransactWriteItems', [reason('TransactionConflict'), reason('None')])
      },
    )
    await limiter.acquire(request({rpm: 90}))
    expect(cancelled).toBeGreaterThan(2)
    expect(await scene.totals('user-1', 'gpt-4', 'rpm', 4)).toEqual({tokens: 9, consumed: 91})
  })

  it('f295f69: refunds exactly the written amounts if an adjustment fails at the second item', async () => {
    await scene.entity('user-1', 'team-1')
    const limiter = scene.limiter()
    let isBroken = false
    before(
      (_, input) => isBroken && concernsTeam(input),
      async () => {
        throw new ValidationFailed('UpdateItem', new Error('broken'))
      },
    )
    const attempt = limiter.withLease(request({rpm: 20}), async lease => {
      isBroken = true
      try {
        await lease.adjust({rpm: 10})
      } finally {
        isBroken = false
      }
    })
    expect(await failure(attempt)).toMatchObject({code: 'dynamo.validation'})
    await limiter.settled()
    for (const entity of ['user-1', 'team-1']) {
      expect(await scene.totals(entity, 'gpt-4', 'rpm'), entity).toEqual({tokens: 100, consumed: 0})
    }
  })

  it('d6b5362: refunds the child if the parent cannot be charged', async () => {
    await scene.entity('user-1', 'team-1')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    before(
      (_, input) => concernsTeam(input),
      async () => {
        throw new ValidationFailed('UpdateItem', new Error('broken'))
      },
    )
    expect(await failure(limiter.acquire(request({rpm: 10})))).toMatchObject({code: 'dynamo.validation'})
    expect(await failure(scene.limiter().acquire(request({rpm: 10})))).toMatchObject({code: 'dynamo.validation'})
    await limiter.settled()
    await expect.poll(() => scene.totals('user-1', 'gpt-4', 'rpm')).toEqual({tokens: 99, consumed: 1})
  })

  it('b4f41a7: splits only by measured writes, not by a low wcu', async () => {
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    for (let second = 0; second < 5; second++) {
      await python.set({b_wcu_tk: n(100_000)})
      scene.nowMs += 1000
      await limiter.acquire(request({rpm: 1}))
    }
    await limiter.settled()
    expect(await python.number('shard_count')).toBe(1)
  })

  it('23404d8: creates shards in a split as whole items that Python can use at once', async () => {
    await scene.limiter().acquire(request({rpm: 10}))
    await splitInto(scene, 2)
    const [first, second] = [(await python.item(0)) ?? {}, (await python.item(1)) ?? {}]
    // Marks and request counts belong to the shard's own writes; the first of several never expires.
    const shared = Object.keys(first).filter(name => !name.startsWith('wn_') && name !== 'rq')
    expect(
      Object.keys(second)
        .filter(name => name !== 'ttl')
        .sort(),
    ).toEqual(shared.sort())
    for (const name of shared) expect(Object.keys(second[name] ?? {}), name).toEqual(Object.keys(first[name] ?? {}))
    expect(await python.speculative({rpm: 1}, 1)).toBe(true)
  })

  it('4d99935: counts the capacity of a sharded bucket once', async () => {
    await scene.limiter().acquire(request({}))
    await splitInto(scene, 4)
    const limiter = scene.limiter()
    expect(await limiter.available({entity: 'user-1', resource: 'gpt-4'})).toEqual({rpm: 100})
    const {statuses} = await limiter.check(request({rpm: 1}))
    expect(statuses).toMatchObject([{capacity: 100, refillAmount: 100, available: 100}])
  })

  it('#179: counts consumption instead of deriving it from balances', async () => {
    const limiter = scene.limiter()
    for (let minute = 0; minute < 5; minute++) {
      await limiter.acquire(request({rpm: 80}))
      scene.nowMs += 60_000
    }
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min')
    await scene.limiter().acquire(request({rpm: 1}))
    expect(await python.number('b_rpm_tc')).toBe(401_000)
  })

  it('#168: writes no attribute twice in one update, whatever happens at once', async () => {
    await scene.entity('user-1', 'team-1')
    const limiter = scene.limiter()
    await limiter.acquire(request({rpm: 1}))
    await python.set({b_wcu_tk: n(0)})
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=50/min', 'tpm=10/min')
    await scene.entity('user-1', 'team-2')
    await python.remove(['b_wcu_cp', 'b_wcu_ra'])
    scene.nowMs += 60_000
    await scene.limiter().acquire(request({rpm: 50, tpm: 10}))
    expect(await python.item()).toMatchObject({b_wcu_cp: {N: '1000000'}, b_rpm_tk: {N: '0'}, b_tpm_tk: {N: '0'}})
  })

  it('def53f7: prefers limits of an entity for all resources over those of the resource', async () => {
    await scene.configure({level: 'entity', entity: 'user-1', resource: '_default_'}, 'rpm=5/min')
    const limiter = scene.limiter()
    expect(await admittedUntilRefused(limiter, {rpm: 1}, 50)).toBe(5)
    const error = await refusal(limiter.acquire(request({rpm: 1})))
    expect(error.statuses).toMatchObject([{source: 'entity_default', capacity: 5}])
    expect(await admittedUntilRefused(limiter, {rpm: 1}, 50, 'user-2')).toBe(50)
  })
})
