import {beforeEach, expect, it} from 'vitest'
import {ValidationFailed} from '../../src/lib/dynamo/errors.js'
import type {Operation} from '../../src/lib/dynamo/transport.js'
import {n, s} from '../../src/lib/schema/attribute-value.js'
import {keys, wireKey} from '../../src/lib/schema/keys.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, isAdmitted, request} from './visit.js'

const CHILD = 'BUCKET#user-1#gpt-4#0'
const PARENT = 'BUCKET#team-1#gpt-4#0'
const LASTING = 8

describeOnBoth('failures within an operation', {}, table => {
  let scene: Scene
  let faults: FaultTransport
  beforeEach(async () => {
    scene = new Scene(table)
    faults = new FaultTransport(table.transport)
    scene.transport = faults
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'tpm=100/s')
  })

  async function haveFamily(): Promise<void> {
    await scene.entity('user-1', 'team-1')
    await scene.configure({level: 'entity', entity: 'team-1', resource: 'gpt-4'}, 'tpm=1000/s')
  }

  const limiter = () => scene.limiter({random: () => 0})
  const bucketKey = () => keys.bucket(scene.namespace, 'user-1', 'gpt-4', 0)
  const dropBucket = () => table.transport.send('DeleteItem', {TableName: table.name, Key: wireKey(bucketKey())})
  const totals = (entity = 'user-1') => scene.totals(entity, 'gpt-4', 'tpm')

  /** Runs something just before call number `at` of an operation. */
  function before(operation: Operation, at: number, intrude: () => Promise<unknown>): void {
    let count = 0
    scene.transport = {
      send: async (sent, input, options) => {
        if (sent === operation && ++count === at) await intrude()
        return faults.send(sent, input, options)
      },
    }
  }

  it('D-27 refunds the parent if the child fails', async () => {
    await haveFamily()
    const both = limiter()
    await both.acquire(request({tpm: 1}))
    faults.start({kind: 'throttled', at: `UpdateItem ${CHILD} (1)`, on: CHILD, times: LASTING})
    expect(await failure(both.acquire(request({tpm: 50})))).toMatchObject({code: 'limiter.unavailable'})
    await both.settled()
    expect([await totals(), await totals('team-1')]).toEqual([
      {tokens: 99, consumed: 1},
      {tokens: 999, consumed: 1},
    ])
  })

  it('D-27 repeats an adjustment on the second item if it fails there, and restores both', async () => {
    await haveFamily()
    const both = limiter()
    const lease = await both.acquire(request({tpm: 20}))
    faults.start({kind: 'throttled', at: `UpdateItem ${PARENT} (1)`, on: PARENT, times: LASTING})
    await lease.adjust({tpm: 30})
    await both.settled()
    expect(faults.hits).toBe(LASTING)
    expect([(await totals()).consumed, (await totals('team-1')).consumed]).toEqual([50, 50])
    await lease.rollback()
    expect([(await totals()).consumed, (await totals('team-1')).consumed]).toEqual([0, 0])
  })

  it('D-27 admits if the child loses its refill race while the parent does not exist', async () => {
    await scene.limiter().acquire(request({tpm: 100}))
    await haveFamily()
    scene.nowMs += 500
    const rival = scene.limiter({transport: faults})
    before('UpdateItem', 2, () => rival.acquire(request({tpm: 10})))
    expect(await isAdmitted(scene.limiter().acquire(request({tpm: 10})))).toBe(true)
    expect(await totals()).toEqual({tokens: 30, consumed: 120})
    expect((await totals('team-1')).consumed).toBe(20)
  })

  it('D-28 recognises a write by its mark and counts it once if its answer is lost', async () => {
    const lossy = limiter()
    await lossy.acquire(request({tpm: 1}))
    faults.start({kind: 'lost after apply', at: 1})
    const lease = await lossy.acquire(request({tpm: 40}))
    expect(await totals()).toEqual({tokens: 59, consumed: 41})
    faults.start({kind: 'lost after apply', at: 1})
    await lease.release({tpm: 15})
    expect(await totals()).toEqual({tokens: 74, consumed: 26})
    faults.start({kind: 'lost after apply', at: 1})
    await lease.rollback()
    expect(await totals()).toEqual({tokens: 99, consumed: 1})
    expect(faults.hits).toBe(1)
  })

  it('D-28 refunds at most once if its answer stays lost, whatever follows', async () => {
    const lossy = limiter()
    const lease = await lossy.acquire(request({tpm: 40}))
    faults.start({kind: 'lost after apply', at: 1, times: LASTING})
    await lease.release({tpm: 30})
    faults.stop()
    await lease.rollback()
    await lossy.settled()
    expect(await totals()).toEqual({tokens: 100, consumed: 0})
  })

  it('D-28 does not repeat a refund whose mark another process overwrote', async () => {
    const sameSlot = (stem: number) => (count: number) => new Uint8Array(count).fill(count === 1 ? 0 : stem)
    const lossy = scene.limiter({randomBytes: sameSlot(1)})
    const rival = scene.limiter({randomBytes: sameSlot(2), transport: table.transport})
    const lease = await lossy.acquire(request({tpm: 40}))
    faults.start({kind: 'lost after apply', at: 1})
    before('UpdateItem', 2, () => rival.acquire(request({tpm: 1})))
    await lease.release({tpm: 15})
    expect(faults.hits).toBe(1)
    expect(await totals()).toEqual({tokens: 74, consumed: 26})
  })

  it('refuses no request by a state from before an uncertain write', async () => {
    const lossy = limiter()
    const lease = await lossy.acquire(request({tpm: 100}))
    faults.start({kind: 'lost after apply', at: 1, times: LASTING})
    await lease.release({tpm: 30})
    faults.stop()
    expect(await isAdmitted(lossy.acquire(request({tpm: 20})))).toBe(true)
  })

  it('D-32 admits the losers of a race to create a bucket, or a bucket and its parent', async () => {
    await haveFamily()
    const rivals = Array.from({length: 8}, () => scene.limiter().acquire(request({tpm: 10})))
    expect((await Promise.all(rivals)).map(lease => lease.consumed)).toEqual(Array(8).fill({tpm: 10}))
    expect(await totals()).toEqual({tokens: 20, consumed: 80})
    expect(await totals('team-1')).toEqual({tokens: 920, consumed: 80})
  })

  it('D-32 recreates a bucket that expired between read and write', async () => {
    await scene.limiter().acquire(request({tpm: 100}))
    scene.nowMs += 500
    before('UpdateItem', 2, dropBucket)
    expect(await isAdmitted(scene.limiter().acquire(request({tpm: 20})))).toBe(true)
    expect(await totals()).toEqual({tokens: 80, consumed: 20})
  })

  it.each(['adjust', 'release', 'rollback'] as const)(
    'D-33 writes nothing for %s after the bucket was deleted',
    async what => {
      const lease = await limiter().acquire(request({tpm: 40}))
      await dropBucket()
      if (what === 'rollback') await lease.rollback()
      else await lease[what]({tpm: 10})
      const Key = wireKey(bucketKey())
      const {Item} = await table.transport.send('GetItem', {TableName: table.name, Key, ConsistentRead: true})
      expect(Item).toBeUndefined()
    },
  )

  it.each([
    [-30, 70],
    [30, 100],
  ])('D-33 heals a ghost item with %i tokens, which then holds %i', async (left, holds) => {
    const {PK, SK} = bucketKey()
    const Item = {PK: s(PK), SK: s(SK), b_tpm_tk: n(left * 1000), b_tpm_tc: n(-left * 1000)}
    await table.transport.send('PutItem', {TableName: table.name, Item})
    expect(await isAdmitted(scene.limiter().acquire(request({tpm: holds})))).toBe(true)
    expect(await isAdmitted(scene.limiter().acquire(request({tpm: 1})))).toBe(false)
    expect(await scene.shards('user-1', 'gpt-4')).toHaveLength(1)
  })

  it('D-34 applies the policy allow to an outage at the last write of an acquire', async () => {
    faults.start({kind: '5xx', at: `UpdateItem ${CHILD} (2)`, times: LASTING})
    const lease = await limiter().acquire({...request({tpm: 40}), onUnavailable: 'allow'})
    expect([lease.isMetered, faults.hits > 0]).toEqual([false, true])
  })

  it('D-34 throws bugs even with the policy allow', async () => {
    const bug = new ValidationFailed('UpdateItem')
    before('UpdateItem', 2, async () => {
      throw bug
    })
    expect(await failure(scene.limiter({onUnavailable: 'allow'}).acquire(request({tpm: 40})))).toBe(bug)
  })

  it('D-35 refunds a cancelled caller', async () => {
    const controller = new AbortController()
    const work = limiter().withLease({...request({tpm: 40}), signal: controller.signal}, async () => {
      controller.abort()
      controller.signal.throwIfAborted()
    })
    expect(await failure(work)).toMatchObject({name: 'AbortError'})
    expect(await totals()).toEqual({tokens: 100, consumed: 0})
  })

  it('D-36 admits one of five leases of 90 out of 100', async () => {
    const processes = Array.from({length: 5}, () => scene.limiter())
    const leases = await Promise.all(processes.map(process => process.acquire(request({tpm: 1}))))
    const taken = await Promise.all(leases.map(lease => isAdmitted(lease.consume({tpm: 90}))))
    expect(taken.filter(Boolean)).toHaveLength(1)
    expect(await totals()).toEqual({tokens: 5, consumed: 95})
  })

  it('D-42 retries after it meets a transaction in flight', async () => {
    const conflicts = {kind: 'conflict', at: 1, operation: 'UpdateItem', times: 3} as const
    const busy = limiter()
    faults.start(conflicts)
    const lease = await busy.acquire(request({tpm: 10}))
    faults.start(conflicts)
    await busy.acquire(request({tpm: 10}))
    faults.start(conflicts)
    await lease.adjust({tpm: 5})
    scene.nowMs += 100
    faults.start(conflicts)
    await busy.acquire(request({tpm: 80}))
    faults.start(conflicts)
    await lease.rollback()
    expect(faults.hits).toBe(3)
    expect((await totals()).consumed).toBe(90)
  })
})
