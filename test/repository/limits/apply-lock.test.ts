import {expect, it} from 'vitest'
import {Unavailable} from '../../../src/lib/dynamo/errors.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {keys, parseItemKey} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, stored} from '../namespace-table.js'

describeOnBoth('the lock of an apply', {}, table => {
  const scene = () => {
    const tenant = newTenant(table)
    const {applyLock} = new NamespaceRepository(tenant, 'tester')
    const item = () => stored(tenant, keys.applyLock(tenant.namespace))
    return {tenant, applyLock, item}
  }

  it('names its holder to a second run, and is gone after the release', async () => {
    const {tenant, applyLock, item} = scene()
    const lock = await applyLock.take({owner: 'ada@one'})
    const since = new Date(tenant.nowMs).toISOString().slice(0, 19)
    await expect(applyLock.take({owner: 'bob@two'})).rejects.toMatchObject({
      kind: 'conflict',
      code: 'manifest.locked',
      message: `ada@one has been applying a manifest to this namespace since ${since}Z.`,
      hint: expect.stringContaining('expires in 30 s'),
      details: {holder: 'ada@one', expires: new Date(tenant.nowMs + 30_000).toISOString()},
    })
    expect(await item()).toMatchObject({
      GSI4PK: {S: tenant.namespace},
      ttl: {N: String(tenant.nowMs / 1000 + 30 + 86_400)},
    })
    expect(parseItemKey((await item()) ?? {})).toEqual({record: 'apply-lock', namespace: tenant.namespace})
    await lock.abandon()
    expect(await item()).toBeUndefined()
  })

  it('goes to one of many runs that start at once', async () => {
    const {applyLock} = scene()
    const runs = await Promise.allSettled(Array.from({length: 8}, (_, at) => applyLock.take({owner: `run-${at}`})))
    const taken = runs.flatMap(run => (run.status === 'fulfilled' ? [run.value] : []))
    expect(taken).toHaveLength(1)
    await taken[0]?.abandon()
  })

  it('waits for the holder up to the given time', async () => {
    const {tenant, applyLock} = scene()
    const first = await applyLock.take({owner: 'ada@one'})
    const waits: string[] = []
    const second = await applyLock.take({
      owner: 'bob@two',
      waitMs: 60_000,
      onWait: ({owner}) => {
        waits.push(owner)
        if (waits.length === 3) void first.abandon()
      },
    })
    expect(waits.slice(0, 3)).toEqual(['ada@one', 'ada@one', 'ada@one'])
    const onWait = () => {
      tenant.nowMs += 5_000
    }
    await expect(applyLock.take({owner: 'eve@three', waitMs: 10_000, onWait})).rejects.toMatchObject({
      code: 'manifest.locked',
      details: {holder: 'bob@two'},
    })
    await second.abandon()
  })

  it('is taken over after a crash, and its former holder stops before its next write (L1)', async () => {
    const {tenant, applyLock, item} = scene()
    const paused = await applyLock.take({owner: 'ada@one'})
    tenant.nowMs += 29_999
    await expect(applyLock.take({owner: 'bob@two'})).rejects.toMatchObject({code: 'manifest.locked'})
    tenant.nowMs += 1
    const next = await applyLock.take({owner: 'bob@two'})
    await expect(paused.hold()).rejects.toMatchObject({
      kind: 'conflict',
      code: 'manifest.lock-lost',
      message: 'This run lost its lock: bob@two took it.',
    })
    // A lost lock stays lost, and its release does not touch the new one.
    await expect(paused.hold()).rejects.toMatchObject({code: 'manifest.lock-lost'})
    await paused.abandon()
    expect(await item()).toMatchObject({owner: {S: 'bob@two'}})
    await next.abandon()
  })

  it('is renewed by a holder that was paused, if nobody took it', async () => {
    const {tenant, applyLock} = scene()
    const lock = await applyLock.take({owner: 'ada@one'})
    tenant.transport.calls.length = 0
    await lock.hold()
    expect(tenant.transport.calls).toEqual([])
    tenant.nowMs += 100_000
    await lock.hold()
    expect(tenant.transport.calls).toEqual(['PutItem'])
    expect((await applyLock.get())?.leaseUntilMs).toBe(tenant.nowMs + 30_000)
    await lock.abandon()
  })

  it('does not count a renewal that failed', async () => {
    const {tenant, applyLock} = scene()
    const lock = await applyLock.take({owner: 'ada@one'})
    tenant.transport.before = operation => {
      if (operation === 'PutItem') throw new Unavailable(operation, false)
    }
    tenant.nowMs += 25_000
    await expect(lock.hold()).rejects.toMatchObject({code: 'dynamo.unavailable'})
    await expect(lock.hold()).rejects.toMatchObject({code: 'dynamo.unavailable'})
    tenant.transport.before = () => {}
    await lock.hold()
    await lock.abandon()
  })

  it('can be removed by another user, which stops the holder', async () => {
    const {applyLock} = scene()
    const lock = await applyLock.take({owner: 'ada@one', leaseMs: 30})
    const seen = lock.record
    await applyLock.remove(seen)
    await expect.poll(() => lock.lost.aborted).toBe(true)
    await expect(lock.hold()).rejects.toMatchObject({message: 'This run lost its lock: it expired or was removed.'})
    const next = await applyLock.take({owner: 'bob@two'})
    await expect(applyLock.remove(seen)).rejects.toMatchObject({code: 'manifest.locked', details: {holder: 'bob@two'}})
    await next.abandon()
  })
})
