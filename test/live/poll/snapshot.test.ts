import {afterEach, beforeEach, expect, it, vi} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {windowStart} from '../../../src/lib/core/window.js'
import {batchWrite} from '../../../src/lib/dynamo/batch.js'
import {recentStart} from '../../../src/lib/insight/usage/refused.js'
import {Catalogue} from '../../../src/lib/live/poll/catalogue.js'
import {ONCE_UNITS} from '../../../src/lib/live/poll/poll-plan.js'
import {takeReadings} from '../../../src/lib/live/poll/poller.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {FaultTransport} from '../../helpers/fault-transport.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, putBucket, type TestTenant} from '../../repository/namespace-table.js'
import {putUsers} from '../support.js'

const limits = parseLimits(['rpm=100'])
/** Currencies and boosts of the namespace, read once. */
const FACT_UNITS = 3

describeOnBoth('a snapshot', {}, table => {
  let tenant: TestTenant
  let faults: FaultTransport
  let pause: (ms: number, signal?: AbortSignal) => Promise<void>

  beforeEach(() => {
    tenant = newTenant(table)
    faults = new FaultTransport(tenant.transport)
    pause = tenant.backoff.sleep
    faults.start()
  })

  afterEach(() => vi.restoreAllMocks())

  const putMany = (count: number) => putUsers(tenant, count, limits)
  const read = (signal = new AbortController().signal, againAfterMs?: number, isWhole = true) => {
    const repository = new Repository({stack: tenant.name, transport: faults, clock: tenant.clock})
    const names = repository.namespaceById(tenant.namespace)
    const backoff = {...tenant.backoff, sleep: pause}
    const options = {signal, againAfterMs, isWhole}
    return takeReadings(names, {...tenant, transport: faults, backoff}, {kind: 'namespace'}, options)
  }

  it('has every bucket, however many requests that takes', async () => {
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

  it('counts a bucket once whose shards are on two pages of the index', async () => {
    await putMany(99)
    await putBucket(tenant, {entity: 'zed', resource: 'r', limits, shardCount: 4})
    const {readings, lastPoll} = await read()
    expect(readings.size).toBe(100)
    expect(lastPoll.bucketsRead).toBe(100)
    expect(readings.get('zed#r')?.bucket.shards).toHaveLength(4)
  })

  it('reads every bucket twice for rates, an interval apart', async () => {
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

  it('has all of some hundred buckets without asking for all', async () => {
    await putMany(250)
    const {readings, known, lastPoll} = await read(undefined, undefined, false)
    expect(readings.size).toBe(250)
    expect(known).toEqual({count: 250, isComplete: true, unreadable: 0})
    expect(lastPoll).toMatchObject({bucketsRead: 250, usedFirst: undefined})
  })

  it('has a bounded cost unless all buckets are requested, and reads buckets in use first', async () => {
    await putMany(2500)
    const start = windowStart('hourly', tenant.nowMs)
    const used = ['user-0', 'user-999', 'user-2499', 'expired']
    for (const entity of used) {
      const record = {namespace: tenant.namespace, entity, resource: 'r', window: 'hourly', start} as const
      const Item = encodeUsage({...record, totalEvents: 1, tokens: new Map(), ttlSeconds: undefined})
      await tenant.transport.send('PutItem', {TableName: tenant.name, Item})
    }
    const before = table.capacity.snapshot()
    const {readings, known, lastPoll} = await read(undefined, undefined, false)
    expect(table.capacity.since(before).read).toBeLessThanOrEqual(ONCE_UNITS + FACT_UNITS)
    expect(readings.size).toBeGreaterThan(1500)
    expect(readings.size).toBeLessThan(2500)
    expect(known.count).toBe(2500)
    expect(used.filter(entity => readings.has(`${entity}#r`))).toEqual(used.slice(0, 3))
    expect(lastPoll.usedFirst).toEqual({since: recentStart(tenant.nowMs), isComplete: true})
  })

  it('finds a refused bucket among more buckets in use than it reads otherwise', async () => {
    await putMany(2500)
    const start = windowStart('hourly', tenant.nowMs)
    const puts = Array.from({length: 2500}, (_, user) => {
      const record = {
        namespace: tenant.namespace,
        entity: `user-${user}`,
        resource: 'r',
        window: 'hourly',
        start,
      } as const
      return {put: encodeUsage({...record, totalEvents: 1, tokens: new Map(), ttlSeconds: undefined})}
    })
    await batchWrite(tenant.transport, tenant.name, puts, {backoff: tenant.backoff})
    const {readings, lastPoll} = await read(undefined, undefined, false)
    expect(readings.size).toBe(2500)
    expect(lastPoll.usedFirst?.isComplete).toBe(true)
  })

  it('reads the same buckets again for rates, and no others', async () => {
    await putMany(250)
    const wanted: string[] = []
    tenant.transport.after = (operation, output) => {
      if (operation === 'BatchGetItem') wanted.push(...(JSON.stringify(output).match(/user-\d+#/g) ?? []))
    }
    pause = async ms => {
      tenant.nowMs += ms
    }
    const {readings, lastPoll} = await read(undefined, 2000, false)
    expect([...readings.values()].every(({ratePerSecond}) => ratePerSecond.size > 0)).toBe(true)
    expect(readings.size).toBe(250)
    expect(new Set(wanted).size).toBe(readings.size)
    expect(lastPoll.bucketsRead).toBe(250)
  })

  it('considers each bucket a fixed number of times, however many there are', async () => {
    const candidates = vi.spyOn(Catalogue.prototype, 'candidates')
    const readings = vi.spyOn(Catalogue.prototype, 'readings')
    await putMany(250)
    await read()
    expect(candidates).not.toHaveBeenCalled()
    const considered = readings.mock.results.map(({value}) => value.size)
    expect(considered.reduce((sum, size) => sum + size, 0)).toBe(250)
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
