import {expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {bucketsFor, bucketsOf} from '../../../src/lib/insight/lookup/bucket-search.js'
import type {WatchScope} from '../../../src/lib/live/model/model.js'
import {BucketPoller} from '../../../src/lib/live/poll/poller.js'
import {Buckets} from '../../../src/lib/repository/buckets/buckets.js'
import {viewBucket} from '../../../src/lib/repository/buckets/view.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, putBucket, type TestTenant} from '../../repository/namespace-table.js'
import {putUsers} from '../support.js'

const limits = parseLimits(['rpm=100', 'tpm=10k'])
const NAMESPACE: WatchScope = {kind: 'namespace'}
const never = new AbortController().signal

describeOnBoth('the poller', {}, table => {
  const putMany = (tenant: TestTenant, count: number) => putUsers(tenant, count, limits, user => `r${user % 2}`)
  const poll = (poller: BucketPoller, ...focus: string[]) => poller.poll(new Set(focus), never)

  it('reads every bucket of the scope with all its shards, and nothing else', async () => {
    const tenant = newTenant(table)
    await putBucket(tenant, {entity: 'ada', resource: 'gpt-4', limits, shardCount: 4, consumed: 10})
    await putBucket(tenant, {entity: 'ada', resource: 'search', limits})
    await putBucket(tenant, {entity: 'ben', resource: 'gpt-4', limits, consumed: 101})
    await putBucket(newTenant(table), {entity: 'stranger', resource: 'gpt-4', limits})
    const ids = async (scope: WatchScope) =>
      [...(await poll(new BucketPoller(tenant, scope))).readings.keys()].toSorted()
    expect(await ids(NAMESPACE)).toEqual(['ada#gpt-4', 'ada#search', 'ben#gpt-4'])
    expect(await ids({kind: 'resource', resource: 'gpt-4'})).toEqual(['ada#gpt-4', 'ben#gpt-4'])
    expect(await ids({kind: 'entity', entity: 'ada'})).toEqual(['ada#gpt-4', 'ada#search'])
    expect(await ids({kind: 'entity', entity: 'no-match'})).toEqual([])

    const {readings, known, lastPoll} = await poll(new BucketPoller(tenant, NAMESPACE))
    const repository = new Buckets(tenant)
    for (const {bucket} of readings.values()) {
      const stored = await repository.find(bucket.entity, bucket.resource)
      expect(viewBucket(bucket, tenant.nowMs + 1234)).toEqual(stored && viewBucket(stored, tenant.nowMs + 1234))
    }
    expect(known).toEqual({count: 3, isComplete: true, unreadable: 0})
    expect(lastPoll).toMatchObject({number: 1, atMs: tenant.nowMs, durationMs: 0, calls: 2, bucketsRead: 3})
  })

  it('shows a boosted bucket under its regular limits once the boost has expired', async () => {
    const tenant = newTenant(table)
    tenant.nowMs = Date.parse('2026-11-16T14:36:00Z')
    const resource = {level: 'resource', resource: 'gpt-4'} as const
    const namespace = new NamespaceRepository(tenant, undefined)
    await namespace.setLimits(resource, limits)
    const until = new Date(tenant.nowMs + 3_600_000)
    const own = {level: 'entity', entity: 'ada', resource: 'gpt-4'} as const
    for (const entity of ['ada', 'ben']) await putBucket(tenant, {entity, resource: 'gpt-4', limits})
    await namespace.setLimits(own, parseLimits(['tpm=40k']), {until})
    await namespace.configs.set(resource, parseLimits(['rpm=7', 'tpm=9k']))
    const poller = new BucketPoller(tenant, NAMESPACE)
    const shown = async (id: string) => {
      await poller.loadFacts(never)
      const reading = (await poll(poller)).readings.get(id)
      return reading && viewBucket(reading.bucket, tenant.nowMs).limits.map(({name, capacity}) => `${name}=${capacity}`)
    }
    expect(await shown('ada#gpt-4')).toEqual(['rpm=100', 'tpm=40000'])
    tenant.nowMs = until.getTime()
    expect(await shown('ada#gpt-4')).toEqual(['rpm=7', 'tpm=9000'])
    // Others are shown as they are stored.
    expect(await shown('ben#gpt-4')).toEqual(['rpm=100', 'tpm=10000'])
    const [view] = await bucketsOf(namespace, 'ada', 'gpt-4', tenant.nowMs)
    expect(view?.limits.map(({capacity}) => capacity)).toEqual([7, 9000])
    // Nothing was written since.
    expect(view?.shards[0]?.refillAgeMs).toBe(3_600_000)
    const {records} = await bucketsFor(namespace, 'gpt-4', {}, tenant.nowMs)
    expect(records.map(({limits: all}) => all.map(({capacity}) => capacity))).toEqual([
      [7, 9000],
      [100, 10_000],
    ])
  })

  it('knows the currency of limits', async () => {
    const tenant = newTenant(table)
    const poller = new BucketPoller(tenant, NAMESPACE)
    await poller.loadFacts(never)
    expect(poller.currencies).toEqual(new Map())
    const namespace = new NamespaceRepository(tenant, undefined)
    await namespace.configs.set({level: 'system'}, parseLimits(['usd=$5/day']))
    await poller.loadFacts(never)
    expect(poller.currencies).toEqual(new Map())
    tenant.nowMs += 30_000
    await poller.loadFacts(never)
    expect(poller.currencies).toEqual(new Map([['usd', 'USD']]))
  })

  it('reports the read units of the engine', async () => {
    const tenant = newTenant(table)
    await putMany(tenant, 30)
    const before = table.capacity.snapshot()
    const {lastPoll} = await poll(new BucketPoller(tenant, NAMESPACE))
    const {read, calls} = table.capacity.since(before)
    expect(lastPoll).toMatchObject({readUnits: read, calls})
    expect(read).toBeGreaterThan(0)
  })

  it('stays under 50 read units per poll with 1,000 buckets; visible ones are read each time, all others in turn', async () => {
    const tenant = newTenant(table)
    await putMany(tenant, 1000)
    const poller = new BucketPoller(tenant, NAMESPACE)
    const seen = new Set<string>()
    const units: number[] = []
    let result = await poll(poller)
    for (let polls = 1; polls < 60 && (seen.size < 1000 || !result.known.isComplete); polls++) {
      tenant.nowMs += 2000
      result = await poll(poller, 'user-7#r1', 'user-8#r0')
      units.push(result.lastPoll.readUnits)
      for (const {id, readAtMs} of result.readings.values()) if (readAtMs === tenant.nowMs) seen.add(id)
      if (result.readings.has('user-7#r1') && polls > 30) {
        expect(result.readings.get('user-7#r1')?.readAtMs).toBe(tenant.nowMs)
      }
      expect(result.lastPoll.bucketsRead).toBeLessThan(result.known.count)
    }
    expect(seen.size).toBe(1000)
    expect(result.known).toEqual({count: 1000, isComplete: true, unreadable: 0})
    expect(Math.max(...units)).toBeLessThanOrEqual(50)
  })

  it('learns the cost of large items: from the second poll on it stays under 50 read units', async () => {
    const tenant = newTenant(table)
    const many = Array.from({length: 40}, (_, at) => `a-limit-with-a-long-name-${at}=1000000`)
    await putUsers(tenant, 120, parseLimits(many))
    const poller = new BucketPoller(tenant, NAMESPACE)
    const perBucket: number[] = []
    for (let polls = 1; polls <= 4; polls++) {
      const {lastPoll} = await poll(poller)
      perBucket.push(lastPoll.readUnits / lastPoll.bucketsRead)
      if (polls > 1) expect(lastPoll.readUnits).toBeLessThanOrEqual(50)
      tenant.nowMs += 2000
    }
    // Otherwise this test proves nothing.
    expect(Math.min(...perBucket)).toBeGreaterThan(0.75)
  })

  it('has a rate of every active bucket one poll after its first reading, also when polls sample', async () => {
    const tenant = newTenant(table)
    await putMany(tenant, 400)
    const busy = ['user-3#r1', 'user-200#r0', 'user-399#r1']
    const poller = new BucketPoller(tenant, NAMESPACE)
    const firstRead = new Map<string, number>()
    const rated = new Map<string, number>()
    for (let polls = 1; polls <= 12; polls++) {
      for (const id of busy) {
        const [entity = '', resource = ''] = id.split('#')
        await putBucket(tenant, {entity, resource, limits, consumed: polls})
      }
      const {readings} = await poll(poller)
      for (const id of busy) {
        const reading = readings.get(id)
        if (reading && !firstRead.has(id)) firstRead.set(id, polls)
        if (reading && reading.ratePerSecond.size > 0 && !rated.has(id)) rated.set(id, polls)
      }
      tenant.nowMs += 2000
    }
    expect(firstRead.size).toBe(3)
    for (const id of busy) expect(rated.get(id)).toBe((firstRead.get(id) ?? 0) + 1)
  })

  it('counts items without a state separately, until they have one', async () => {
    const tenant = newTenant(table)
    await putBucket(tenant, {entity: 'ada', resource: 'r', limits})
    await putBucket(tenant, {entity: 'ben', resource: 'r', limits})
    const {PK, SK} = keys.bucket(tenant.namespace, 'ben', 'r', 0)
    const Key = {PK: {S: PK}, SK: {S: SK}}
    await tenant.transport.send('UpdateItem', {TableName: tenant.name, Key, UpdateExpression: 'REMOVE rf'})
    const poller = new BucketPoller(tenant, NAMESPACE)
    for (let polls = 1; polls <= 2; polls++) {
      const {readings, known, lastPoll} = await poll(poller)
      expect([...readings.keys()]).toEqual(['ada#r'])
      expect(known).toEqual({count: 1, isComplete: true, unreadable: 1})
      expect(lastPoll.bucketsRead).toBe(1)
    }
    await putBucket(tenant, {entity: 'ben', resource: 'r', limits})
    expect((await poll(poller)).known).toEqual({count: 2, isComplete: true, unreadable: 0})
    await tenant.transport.send('UpdateItem', {TableName: tenant.name, Key, UpdateExpression: 'REMOVE rf'})
    expect((await poll(poller)).known).toEqual({count: 1, isComplete: true, unreadable: 1})
    await tenant.transport.send('DeleteItem', {TableName: tenant.name, Key})
    expect((await poll(poller)).known).toEqual({count: 1, isComplete: true, unreadable: 0})
  })

  it('finds created and deleted buckets, and added shards', async () => {
    const tenant = newTenant(table)
    await putBucket(tenant, {entity: 'old', resource: 'r', limits})
    await putBucket(tenant, {entity: 'hot', resource: 'r', limits})
    const poller = new BucketPoller(tenant, NAMESPACE)
    await poll(poller)
    await putBucket(tenant, {entity: 'new', resource: 'r', limits})
    await putBucket(tenant, {entity: 'hot', resource: 'r', limits, shardCount: 2})
    const {PK, SK} = keys.bucket(tenant.namespace, 'old', 'r', 0)
    await tenant.transport.send('DeleteItem', {TableName: tenant.name, Key: {PK: {S: PK}, SK: {S: SK}}})
    tenant.nowMs += 2000
    const {readings} = await poll(poller)
    expect([...readings.values()].map(({id, isGone}) => `${id} ${isGone}`).toSorted()).toEqual([
      'hot#r false',
      'new#r false',
      'old#r true',
    ])
    expect(readings.get('hot#r')?.bucket).toMatchObject({shardCount: 2, shards: [{}, {}]})
    tenant.nowMs += 2000
    expect([...(await poll(poller)).readings.keys()].toSorted()).toEqual(['hot#r', 'new#r'])
  })

  it('reads all shards that shard 0 counts, even if the index lacks them', async () => {
    const tenant = newTenant(table)
    await putBucket(tenant, {entity: 'hot', resource: 'r', limits, shardCount: 8})
    tenant.transport.after = (operation, output) => {
      if (operation !== 'Query') return
      const answer = output as {Items: {PK: {S: string}}[]}
      answer.Items = answer.Items.filter(({PK}) => PK.S.endsWith('#0'))
    }
    const {readings} = await poll(new BucketPoller(tenant, NAMESPACE))
    expect(readings.get('hot#r')?.bucket.shards).toHaveLength(8)
  })

  it('computes rates from the consumption between two polls', async () => {
    const tenant = newTenant(table)
    await putBucket(tenant, {entity: 'ada', resource: 'r', limits, shardCount: 2, consumed: 10})
    const poller = new BucketPoller(tenant, NAMESPACE)
    await poll(poller)
    await putBucket(tenant, {entity: 'ada', resource: 'r', limits, shardCount: 2, consumed: 25})
    tenant.nowMs += 3000
    const {readings} = await poll(poller)
    expect(Object.fromEntries(readings.get('ada#r')?.ratePerSecond ?? [])).toEqual({rpm: 10, tpm: 10})
  })

  it('L8 only reads, and no read is strongly consistent', async () => {
    const tenant = newTenant(table)
    await putBucket(tenant, {entity: 'ada', resource: 'r', limits})
    tenant.transport.calls.length = 0
    const inputs: string[] = []
    tenant.transport.before = (_, input) => void inputs.push(JSON.stringify(input))
    await poll(new BucketPoller(tenant, NAMESPACE))
    expect(tenant.transport.calls).toEqual(['Query', 'BatchGetItem'])
    expect(inputs.filter(input => input.includes('"ConsistentRead":true'))).toEqual([])
  })

  it('reads nothing in an empty namespace', async () => {
    expect(await poll(new BucketPoller(newTenant(table), NAMESPACE))).toMatchObject({
      readings: new Map(),
      known: {count: 0, isComplete: true, unreadable: 0},
      lastPoll: {bucketsRead: 0, calls: 1},
    })
  })
})
