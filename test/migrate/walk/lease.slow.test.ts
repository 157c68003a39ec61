import {expect, it} from 'vitest'
import {Aborted, Throttled} from '../../../src/lib/dynamo/errors.js'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import {readMigration, takeMigrationLease} from '../../../src/lib/migrate/walk/lease.js'
import {migrationRecordKey} from '../../../src/lib/schema/migration-record.js'
import {describeOnEngine, PATIENT_MS} from '../../helpers/table.js'
import {itemsOf} from '../fixtures/old-table.js'
import {useOldTable} from '../old-table-scene.js'

/** Sends requests for the migration record to `meet` instead of the table. */
function onRecord(inner: Transport, meet: Transport['send']): Transport {
  return {
    send: (operation, input, options) =>
      JSON.stringify(input).includes(migrationRecordKey.SK)
        ? meet(operation, input, options)
        : inner.send(operation, input, options),
  }
}

/** An engine that accepts requests and never responds. */
const silence: Transport['send'] = (operation, _, options) =>
  new Promise((_resolve, reject) => {
    const signal = options?.signal
    if (signal?.aborted) reject(new Aborted(operation, true, signal.reason))
    signal?.addEventListener('abort', () => reject(new Aborted(operation, true, signal.reason)))
  })

describeOnEngine('the lease of a migration', () => {
  const scene = useOldTable(3, population => itemsOf(3, population))

  it('is held by one run at a time; another one gets the name of its owner', async () => {
    const lease = await takeMigrationLease(scene.table, 'indexes', {owner: 'alice@one', leaseMs: 60_000})
    await expect(scene.migrate()).rejects.toMatchObject({
      code: 'migrate.running',
      kind: 'conflict',
      message: expect.stringContaining('alice@one'),
    })
    await lease.release()
    expect((await scene.migrate({until: 'namespaces'})).finished).toBe(false)
  })

  it('is taken over after it has expired, and its former owner stops', async () => {
    const dead = await takeMigrationLease(scene.table, 'indexes', {owner: 'alice@one', leaseMs: 60_000})
    scene.nowMs += 60_001
    const next = await takeMigrationLease(scene.table, 'indexes', {owner: 'bob@two', leaseMs: 60_000})
    await expect(dead.save({step: 'data'})).rejects.toMatchObject({code: 'migrate.lease-lost', kind: 'conflict'})
    expect(dead.lost.aborted).toBe(true)
    await dead.release()
    expect(await readMigration(scene.table)).toMatchObject({owner: 'bob@two', step: 'configuration'})
    await next.release()
  })

  it('goes to one of two runs that start at once, and the other is refused', async () => {
    const outcomes = await Promise.allSettled([scene.migrate({owner: 'one'}), scene.migrate({owner: 'two'})])
    const refused = outcomes.filter(({status}) => status === 'rejected')
    expect(refused).toHaveLength(1)
    expect(refused[0]).toMatchObject({reason: {code: 'migrate.running'}})
    expect((await scene.verify()).clean).toBe(true)
  })

  it('is released at once by an interrupted run, and the next run resumes', async () => {
    scene.nowMs += 1
    const stop = new AbortController()
    let steps = 0
    const onProgress = () => {
      if (++steps === 2) stop.abort()
    }
    await expect(scene.migrate({signal: stop.signal, onProgress})).rejects.toMatchObject({code: 'dynamo.aborted'})
    const record = await readMigration(scene.table)
    expect(record).toMatchObject({leaseUntilMs: 0, finishedAt: undefined, failure: undefined})
    expect(record?.step).not.toBe('indexes')
    expect(await scene.migrate()).toMatchObject({resumed: true, finished: true})
  })

  it('is renewed during a long step', async () => {
    const lease = await takeMigrationLease(scene.table, 'indexes', {owner: 'alice@one', leaseMs: 30})
    const before = lease.record.leaseUntilMs
    scene.nowMs += 10
    await expect.poll(() => lease.record.leaseUntilMs).toBeGreaterThan(before)
    await lease.release()
  })

  it('survives eight throttled requests in a row', async () => {
    let throttles = 0
    let inARow = 0
    scene.transport = onRecord(scene.own, async (operation, input, options) => {
      if (inARow++ < 8) {
        throttles++
        throw new Throttled(operation)
      }
      inARow = 0
      return scene.own.send(operation, input, options)
    })
    expect(await scene.migrate()).toMatchObject({finished: true})
    scene.transport = scene.own
    expect(throttles).toBeGreaterThan(80)
  })

  it('is left to expire when the table does not respond', {timeout: PATIENT_MS}, async () => {
    const stop = new AbortController()
    let isSilent = false
    scene.transport = onRecord(scene.own, (...request) => (isSilent ? silence : scene.own.send)(...request))
    const onProgress = () => {
      isSilent = true
    }
    // It is interrupted while it saves its position.
    const run = scene.migrate({signal: stop.signal, onProgress})
    await expect.poll(() => isSilent, {timeout: PATIENT_MS}).toBe(true)
    stop.abort()
    await expect(run).rejects.toMatchObject({code: 'dynamo.aborted'})
    scene.transport = scene.own
    expect((await readMigration(scene.table))?.leaseUntilMs).toBeGreaterThan(scene.nowMs)
    scene.nowMs += 60_001
    expect(await scene.migrate()).toMatchObject({finished: true, resumed: true})
  })
})
