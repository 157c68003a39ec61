import {beforeEach, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/syntax/limit-text.js'
import {Repository} from '../../src/lib/repository/repository.js'
import {keys} from '../../src/lib/schema/keys.js'
import {takeReadings} from '../../src/lib/watch/snapshot.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {newTenant, putBucket, type TestTenant} from '../repository/namespace-table.js'
import {putUsers} from './support.js'

const limits = parseLimits(['rpm=100'])

describeOnEngine('a snapshot', () => {
  const table = useTable()
  let tenant: TestTenant
  let faults: FaultTransport
  let pause: (ms: number, signal?: AbortSignal) => Promise<void>

  beforeEach(() => {
    tenant = newTenant(table)
    faults = new FaultTransport(tenant.transport)
    pause = tenant.backoff.sleep
    faults.start()
  })

  const putMany = (count: number) => putUsers(tenant, count, limits)
  const read = (signal = new AbortController().signal, againAfterMs?: number) => {
    const repository = new Repository({stack: tenant.name, transport: faults, clock: tenant.clock})
    const names = repository.namespaceById(tenant.namespace)
    const backoff = {...tenant.backoff, sleep: pause}
    return takeReadings(names, {...tenant, transport: faults, backoff}, {kind: 'namespace'}, {signal, againAfterMs})
  }

  it('has every bucket, however many polls that takes', async () => {
    await putMany(250)
    const before = table.capacity.snapshot()
    const result = await read()
    const {read: readUnits, calls} = table.capacity.since(before)
    expect(result.readings.size).toBe(250)
    expect(result.known).toEqual({count: 250, isComplete: true, unreadable: 0})
    expect(result.lastPoll).toMatchObject({bucketsRead: 250, readUnits, calls})
  })

  it('reads every bucket once, also those in use', async () => {
    await putMany(250)
    for (let user = 0; user < 120; user++)
      await putBucket(tenant, {entity: `user-${user}`, resource: 'r', limits, consumed: 50})
    const before = tenant.transport.calls.length
    const {lastPoll} = await read()
    expect(lastPoll.calls).toBe(tenant.transport.calls.length - before)
    // Half a unit for each of them, and the index.
    expect(lastPoll.readUnits).toBeLessThan(250 / 2 + 30)
  })

  it('reads every bucket twice where rates are wanted, an interval apart', async () => {
    await putMany(150)
    const startMs = tenant.nowMs
    let pauses = 0
    pause = async ms => {
      pauses++
      tenant.nowMs += ms
      await putBucket(tenant, {entity: 'user-7', resource: 'r', limits, consumed: 50})
    }
    const {readings, lastPoll} = await read(undefined, 2000)
    const rates = [...readings.values()].map(({ratePerSecond}) => ratePerSecond.get('rpm'))
    expect([pauses, tenant.nowMs - startMs]).toEqual([1, 2000])
    expect(rates.filter(rate => rate === 0)).toHaveLength(149)
    expect(rates.filter(rate => rate !== 0)).toEqual([25])
    expect(lastPoll.bucketsRead).toBe(150)
  })

  it('has no bucket that was deleted while it was taken', async () => {
    await putMany(150)
    const {PK, SK} = keys.bucket(tenant.namespace, 'user-0', 'r', 0)
    let isRead = false
    tenant.transport.after = async (operation, output) => {
      if (operation !== 'BatchGetItem' || isRead || !JSON.stringify(output).includes(PK)) return
      isRead = true
      await table.transport.send('DeleteItem', {TableName: tenant.name, Key: {PK: {S: PK}, SK: {S: SK}}})
      tenant.nowMs += 1000
    }
    const {readings, known} = await read()
    expect(isRead).toBe(true)
    expect(known.count).toBe(readings.size)
    expect([...readings.values()].filter(({isGone}) => isGone)).toEqual([])
  })

  it('retries requests like every other command, because no poll follows', async () => {
    await putBucket(tenant, {entity: 'ada', resource: 'r', limits})
    faults.start({kind: 'throttled', at: 1, times: 4})
    const {readings} = await read()
    expect(faults.hits).toBe(4)
    expect([...readings.keys()]).toEqual(['ada#r'])
  })

  it('ends when its signal aborts', async () => {
    await putBucket(tenant, {entity: 'ada', resource: 'r', limits})
    faults.start({kind: 'late answer', at: 1})
    const stop = new AbortController()
    const reading = read(stop.signal)
    stop.abort()
    await expect(reading).rejects.toMatchObject({code: 'dynamo.aborted'})
    faults.release()
  })
})
