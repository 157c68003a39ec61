import {expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {watchDocument} from '../../../src/lib/live/document.js'
import {pollLine} from '../../../src/lib/live/lines.js'
import type {Reading} from '../../../src/lib/live/model/model.js'
import {chargedTo, rowAt} from '../../../src/lib/live/model/status.js'
import {resourcesAt, totalsAt} from '../../../src/lib/live/model/totals.js'
import {loadDetail} from '../../../src/lib/live/poll/detail.js'
import {BucketPoller} from '../../../src/lib/live/poll/poller.js'
import {type BucketLevels, viewBucket} from '../../../src/lib/repository/buckets/view.js'
import {NamespaceRepository, Repository} from '../../../src/lib/repository/repository.js'
import {runEntity} from '../../../src/lib/schema/run-record.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {PATIENT_MS} from '../../helpers/table.js'
import {newTenant, putBucket} from '../../repository/namespace-table.js'

/** The one request of each bucket, with its adjustment. */
const REQUESTS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'ada#gpt-4': {tpm: 12_000},
  'team#gpt-4': {tpm: 12_000},
  'ben#gpt-4': {rpm: 60},
  'ben#search': {rpm: 2},
}

describeOnBoth('L6 the data of a watch after real traffic', {}, table => {
  const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0)

  it('equals that of the repository at the same instants', async () => {
    const tenant = newTenant(table)
    const {transport} = table
    const repository = new Repository({stack: table.name, transport, clock: tenant.clock})
    const names = repository.namespaceById(tenant.namespace)
    await names.setLimits({level: 'system'}, parseLimits(['rpm=60/min', 'tpm=6000/min:10k']))
    await names.entities.create({id: 'team'})
    await names.entities.create({id: 'ada', parent: 'team', cascade: true})
    await putBucket(tenant, {
      entity: 'hot',
      resource: 'search',
      limits: parseLimits(['rpm=60']),
      shardCount: 4,
      consumed: 14,
    })
    const settings = {clock: tenant.clock, timeoutMs: PATIENT_MS}
    const limiter = new RateLimiter({stack: table.name, namespaceId: tenant.namespace, transport, ...settings})
    const poller = new BucketPoller({...tenant, transport}, {kind: 'namespace'})
    const poll = () => poller.poll(new Set(), new AbortController().signal)

    const lease = await limiter.acquire({entity: 'ada', resource: 'gpt-4', consume: {rpm: 1, tpm: 9000}})
    await limiter.acquire({entity: 'ben', resource: 'gpt-4', consume: {rpm: 60, tpm: 1}})
    await poll()
    tenant.nowMs += 2000
    await lease.adjust({tpm: 3000})
    await limiter.acquire({entity: 'ben', resource: 'search', consume: {rpm: 2}})
    const {readings, known, lastPoll} = await poll()

    for (const nowMs of [tenant.nowMs, tenant.nowMs + 700, tenant.nowMs + 31_000, tenant.nowMs + 3_600_000]) {
      const views: BucketLevels[] = []
      for await (const bucket of names.buckets.ofNamespace()) views.push(viewBucket(bucket, nowMs))
      expect(views).toHaveLength(5)
      for (const view of views) {
        const reading = readings.get(`${view.entity}#${view.resource}`)
        if (!reading) throw new Error(`nothing of ${view.entity}`)
        expect(rowAt(reading, nowMs).view).toEqual(view)
      }
      const refuses = ({entity, resource, shards, limits}: BucketLevels) =>
        limits.some(({name}) => {
          const levels = shards.flatMap(shard => shard.limits.filter(limit => limit.name === name))
          const asked = REQUESTS[`${entity}#${resource}`]?.[name] ?? 1
          return sum(levels.map(({level}) => Math.max(0, level))) < asked
        })
      const totals = totalsAt(readings.values(), nowMs)
      expect(totals).toMatchObject({
        buckets: 5,
        shards: 8,
        over: views.filter(refuses).length,
        inDebt: views.filter(({limits}) => limits.some(({debt}) => debt > 0)).length,
      })
      for (const {resource, limits, entities} of resourcesAt(readings.values(), nowMs)) {
        const own = views.filter(view => view.resource === resource)
        expect(entities).toBe(own.length)
        for (const {name, level, capacity, debt} of limits) {
          const same = own.flatMap(view => view.limits.filter(limit => limit.name === name))
          expect(level).toBeCloseTo(sum(same.map(limit => limit.level)), 3)
          expect(capacity).toBeCloseTo(sum(same.map(limit => limit.capacity)), 3)
          expect(debt).toBeCloseTo(sum(same.map(limit => limit.debt)), 3)
        }
      }
      const selection = {sort: 'left', reversed: false, filter: ''} as const
      const document = watchDocument(
        {readings, known, units: new Map(), lastPoll, problem: undefined},
        nowMs,
        selection,
        undefined,
      )
      for (const {entity, resource, limits} of document.buckets) {
        const view = views.find(each => each.entity === entity && each.resource === resource)
        const rates = readings.get(`${entity}#${resource}`)?.ratePerSecond
        const rated = view?.limits.map(limit => ({
          ...limit,
          ratePerSecond: rates?.get(limit.name) ?? null,
          typical: REQUESTS[`${entity}#${resource}`]?.[limit.name] ?? 1,
        }))
        expect(limits).toEqual(rated)
      }
      expect(pollLine(document)).toContain(`5 buckets, ${totals.over} over, ${totals.near} near`)
    }
    expect(totalsAt(readings.values(), tenant.nowMs)).toMatchObject({over: 3, near: 1, inDebt: 2})
    // The adjustment within the two seconds, of the child and of its parent.
    expect(readings.get('ada#gpt-4')?.ratePerSecond.get('tpm')).toBe(1500)
    expect(readings.get('team#gpt-4')?.ratePerSecond.get('tpm')).toBe(1500)
    // In total it was consumed once.
    expect(totalsAt(readings.values(), tenant.nowMs).ratePerSecond.get('tpm')).toBe(1500)
    expect(resourcesAt(readings.values(), tenant.nowMs)[0]?.ratePerSecond.get('tpm')).toBe(1500)
    await limiter.close()
  })
})

describeOnBoth('L6 S14 rates of delegated tokens', {}, table => {
  it('count them once, where runs spend them, and returned ones not at all', async () => {
    const scene = new Scene(table)
    await scene.configure({level: 'system'}, 'tpd=10k/day@UTC', 'tpm=10k/min')
    await scene.entity('team')
    await scene.entity('ada', 'team')
    await scene.entity('eve')
    const namespace = new NamespaceRepository(scene.tenant, undefined)
    await namespace.setAccess({level: 'entity', entity: 'eve', resource: 'llm'}, 'bypass')
    const limiter = scene.limiter()
    const poller = new BucketPoller(scene.tenant, {kind: 'namespace'})
    const ratesOf = async () => {
      await limiter.settled()
      scene.nowMs += 2000
      const {readings} = await poller.poll(new Set(), new AbortController().signal)
      const found = [...readings.values()].map(({bucket, ratePerSecond}) => [bucket.entity, ratePerSecond.get('tpd')])
      return {...Object.fromEntries(found), total: totalsAt(readings.values(), scene.nowMs).ratePerSecond.get('tpd')}
    }
    const delegate = (entity: string, tpd: number) =>
      limiter.delegate({entity, resource: 'llm', amounts: {tpd, tpm: 10}, for: '1h'})
    const [run, other] = [await delegate('ada', 1000), await delegate('eve', 500)]
    const [one, two] = [runEntity(run.id), runEntity(other.id)]
    await ratesOf()
    // A delegation, a sub-run, a request of the entity, and what the runs spend.
    const last = await delegate('ada', 2000)
    const sub = await run.delegate({amounts: {tpd: 300}})
    await limiter.acquire({entity: 'ada', resource: 'llm', consume: {tpd: 40}})
    await run.acquire({consume: {tpd: 20}})
    await other.acquire({consume: {tpd: 6}})
    const idle = {ada: 0, team: 0, eve: 0, [one]: 0, [two]: 0}
    expect(await ratesOf()).toMatchObject({...idle, ada: 20, team: 20, [one]: 10, [two]: 3, total: 33})
    await sub.acquire({consume: {tpd: 8}})
    expect(await ratesOf()).toMatchObject({...idle, [runEntity(sub.id)]: 4, total: 4})
    for (const each of [run, other, last]) await each.end()
    expect(await ratesOf()).toMatchObject({...idle, total: 0})
  })
})

describeOnBoth('L6 S10 a hierarchy of three levels', {}, table => {
  const never = new AbortController().signal

  it.each([
    {levels: 'all', above: ['team', 'org'], rates: {key: 5, team: 10, org: 15}},
    {levels: 'parent', above: ['team'], rates: {key: 5, team: 10, org: 10}},
  ] as const)('counts each request once, and shows the charged ancestors (levels $levels)', async expected => {
    const {levels, above, rates} = expected
    const scene = new Scene(table)
    await scene.levels(levels)
    await scene.configure({level: 'system'}, 'rpm=1k/min', 'tpm=100k/min')
    // It lacks a limit that the others have.
    await scene.configure({level: 'entity', entity: 'team', resource: 'llm'}, 'rpm=1k/min')
    await scene.entity('org')
    await scene.entity('team', 'org')
    await scene.entity('key', 'team')
    const limiter = scene.limiter()
    const poller = new BucketPoller(scene.tenant, {kind: 'namespace'})
    await poller.loadFacts(never)
    const use = async (rpm: number) => {
      for (const entity of ['key', 'team', 'org'])
        await limiter.acquire({entity, resource: 'llm', consume: {rpm, tpm: rpm}})
      scene.nowMs += 2000
      return (await poller.poll(new Set(), never)).readings
    }
    await use(10)
    const readings = await use(10)
    const find = (id: string) => readings.get(id)
    const rpm = Object.fromEntries(
      [...readings.values()].map(({bucket, ratePerSecond}) => [bucket.entity, ratePerSecond.get('rpm')]),
    )
    expect(rpm).toEqual(rates)
    expect(Object.fromEntries(totalsAt(readings.values(), scene.nowMs, find).ratePerSecond)).toEqual({rpm: 15, tpm: 15})
    const key = find('key#llm')
    if (!key) throw new Error('no reading')
    expect(chargedTo(key, find).map(({entity}) => entity)).toEqual(above)
    const {parents} = await loadDetail({table: scene.tenant, known: find}, key, never)
    expect(parents.map(({id}) => id)).toEqual(above.map(entity => `${entity}#llm`))
    // The top level refuses.
    await scene.configure({level: 'entity', entity: 'org', resource: 'llm'}, 'rpm=15/min')
    scene.nowMs += 120_000
    await limiter.acquire({entity: 'org', resource: 'llm', consume: {rpm: 15}})
    const {readings: later} = await poller.poll(new Set(), never)
    const row = rowAt(later.get('key#llm') as Reading, scene.nowMs, id => later.get(id))
    const refused = {status: 'over', refusedBy: 'parent', refusingParents: ['org']}
    expect(row).toMatchObject(levels === 'all' ? refused : {status: 'ok', refusingParents: []})
  })
})
