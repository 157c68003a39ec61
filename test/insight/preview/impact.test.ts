import {expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {impactOf} from '../../../src/lib/insight/preview/impact.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import type {ConfigScope} from '../../../src/lib/schema/config-record.js'
import {encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, put, type TestTenant} from '../../repository/namespace-table.js'

const HOUR_MS = 3_600_000
const [sinceMs, untilMs] = [Date.UTC(2026, 10, 2), Date.UTC(2026, 10, 3)]
const range = {window: 'hourly', sinceMs, untilMs, nowMs: untilMs} as const

describeOnBoth('the impact of a change', {}, table => {
  async function setUp() {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, 'ops')
    await own.configs.set({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=1000', 'tpm=1M']))
    await own.configs.set({level: 'entity', entity: 'own', resource: 'gpt-4'}, parseLimits(['rpm=9000']))
    await use(tenant, 'large', 'gpt-4', 5, {rpm: 9000})
    await use(tenant, 'small', 'gpt-4', 5, {rpm: 10})
    await use(tenant, 'own', 'gpt-4', 5, {rpm: 90_000})
    await use(tenant, 'large', 'search', 5, {rpm: 90_000})
    return {tenant, own}
  }

  const impact = async (own: NamespaceRepository, scope: ConfigScope, ...limits: string[]) => {
    const preview = await own.configs.preview(scope, parseLimits(limits))
    const {found, ...rest} = await impactOf(own, [preview], range)
    const rows = found.map(({entity, resource, limit, verdict}) => `${verdict} ${entity} ${resource} ${limit.name}`)
    return {...rest, found: rows}
  }

  it('covers exactly the entities to which the limits would apply', async () => {
    const {own, tenant} = await setUp()
    const reads = tenant.transport.calls.length
    expect(await impact(own, {level: 'resource', resource: 'gpt-4'}, 'rpm=100')).toEqual({
      found: ['refused large gpt-4 rpm'],
      entities: 2,
      others: 1,
      windows: 2,
      openMs: undefined,
      changed: ['rpm'],
      unrecorded: [],
      inFlight: [],
      isComplete: true,
    })
    expect(tenant.transport.calls.slice(reads).some(operation => /Put|Update|Delete|Write/.test(operation))).toBe(false)
    expect(await impact(own, {level: 'entity', entity: 'own', resource: 'gpt-4'}, 'rpm=100')).toMatchObject({
      found: ['refused own gpt-4 rpm'],
      entities: 1,
    })
    // The default of an entity applies to its other resources.
    expect(await impact(own, {level: 'entity', entity: 'own', resource: '_default_'}, 'rpm=100')).toMatchObject({
      found: [],
      entities: 0,
    })
    expect(await impact(own, {level: 'entity', entity: 'large', resource: '_default_'}, 'rpm=100')).toMatchObject({
      found: ['refused large search rpm', 'refused large gpt-4 rpm'],
    })
    expect(await impact(own, {level: 'system'}, 'rpm=100')).toMatchObject({found: [], entities: 0})
  })

  it('omits unchanged limits', async () => {
    const {own, tenant} = await setUp()
    await use(tenant, 'large', 'gpt-4', 6, {rpm: 900_000, tpm: 900_000_000})
    expect(await impact(own, {level: 'resource', resource: 'gpt-4'}, 'tpm=500k')).toMatchObject({
      found: ['refused large gpt-4 tpm'],
      entities: 2,
    })
    const copied = {level: 'entity', entity: 'large', resource: 'gpt-4'} as const
    expect(await impact(own, copied, 'rpm=100')).toMatchObject({found: ['refused large gpt-4 rpm'], entities: 1})
  })

  it('covers entities with a boost, which follow the other limits again after it expires', async () => {
    const {own, tenant} = await setUp()
    tenant.nowMs = Date.parse('2026-11-02T12:00:00Z')
    const until = new Date(tenant.nowMs + 3_600_000)
    const gpt4 = {level: 'resource', resource: 'gpt-4'} as const
    const large = {level: 'entity', entity: 'large', resource: 'gpt-4'} as const
    await own.configs.set(large, parseLimits(['rpm=5000']), {until})
    expect(await impact(own, gpt4, 'rpm=100')).toMatchObject({
      found: ['refused large gpt-4 rpm'],
      entities: 2,
      others: 1,
    })
    const {found} = await impactOf(own, [await own.configs.preview(gpt4, parseLimits(['rpm=100']))], range)
    expect(found[0]?.boostedUntilMs).toBe(until.getTime())
    // Boosted limits of the entity itself are not a copy.
    await own.configs.set({...large, entity: 'own'}, parseLimits(['rpm=99k']), {until})
    expect(await impact(own, gpt4, 'rpm=100')).toMatchObject({found: ['refused large gpt-4 rpm'], others: 1})
  })

  it('is found where only a boost would end', async () => {
    const {own, tenant} = await setUp()
    tenant.nowMs = Date.parse('2026-11-02T12:00:00Z')
    const gpt4 = {level: 'resource', resource: 'gpt-4'} as const
    await own.configs.set(gpt4, parseLimits(['rpm=100']))
    await own.configs.set(gpt4, parseLimits(['rpm=10k']), {until: new Date(tenant.nowMs + 3_600_000)})
    expect(await impact(own, gpt4, 'rpm=100')).toMatchObject({found: ['refused large gpt-4 rpm'], changed: ['rpm']})
    // A boost that continues is not a change.
    expect(await impact(own, gpt4, 'tpm=2M')).toMatchObject({found: [], changed: ['tpm'], unrecorded: ['tpm']})
  })

  it('names in-flight limits, which usage cannot be compared with, in either direction', async () => {
    const {own} = await setUp()
    const gpt4 = {level: 'resource', resource: 'gpt-4'} as const
    const none = {found: [], changed: [], unrecorded: []}
    expect(await impact(own, gpt4, 'parallel=20/inflight')).toMatchObject({...none, inFlight: ['parallel']})
    await own.configs.set(gpt4, parseLimits(['rpm=50/inflight', 'parallel=20/inflight']))
    expect(await impact(own, gpt4, 'parallel=20/inflight')).toMatchObject({...none, inFlight: []})
    // The same usage under a rate: concurrency does not tell what it would have admitted.
    expect(await impact(own, gpt4, 'rpm=6000/hour')).toMatchObject({
      found: ['possible large gpt-4 rpm'],
      changed: ['rpm'],
      inFlight: [],
    })
  })

  it('names entities without recorded usage', async () => {
    const {own} = await setUp()
    const gpt4 = {level: 'resource', resource: 'gpt-4'} as const
    expect(await impact(own, gpt4, 'usd=5')).toMatchObject({found: [], changed: ['usd'], unrecorded: ['usd']})
    expect(await impact(own, gpt4, 'rpm=1000')).toMatchObject({found: [], entities: 2, changed: [], unrecorded: []})
    const nowhere = {found: [], entities: 0, others: 0, windows: 0, changed: [], unrecorded: [], inFlight: []}
    const unknown = await impact(own, {level: 'resource', resource: 'gtp-4'}, 'rpm=1')
    expect(unknown).toEqual({...nowhere, openMs: undefined, isComplete: true})
  })

  it('reads each window a fixed number of times, however many there are', async () => {
    const {own} = await setUp()
    const looksPerWindow = async (count: number) => {
      let looks = 0
      const records = Array.from({length: count}, (_, at) => ({
        namespace: own.id,
        entity: 'large',
        resource: 'gpt-4',
        window: 'hourly',
        tokens: new Map([['rpm', 1]]),
        totalEvents: 1,
        get start() {
          looks++
          return new Date(range.sinceMs + at * 3_600_000).toISOString().replace('.000Z', 'Z')
        },
      }))
      const usage = {
        async *records() {
          yield* records
        },
      }
      const preview = await own.configs.preview({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=100']))
      const stubbed = {id: own.id, configs: own.configs, usage} as unknown as NamespaceRepository
      expect(await impactOf(stubbed, [preview], range)).toMatchObject({windows: count})
      return looks / count
    }
    expect(await looksPerWindow(400)).toBe(await looksPerWindow(20))
  })

  it('compares an open window with the allowance of the time that has passed', async () => {
    const {own} = await setUp()
    const gpt4 = {level: 'resource', resource: 'gpt-4'} as const
    const preview = await own.configs.preview(gpt4, parseLimits(['rpm=200']))
    const at = async (minutes: number) => {
      const {found, openMs} = await impactOf(own, [preview], {
        ...range,
        nowMs: sinceMs + 5 * HOUR_MS + minutes * 60_000,
      })
      return [
        openMs,
        found.map(({entity, verdict, peak}) => `${verdict} ${entity}: ${peak?.tokens} of ${peak?.allowed}`),
      ]
    }
    // 200 at once and 200 a minute. 9,000 requests: in ten minutes too many, in a whole hour not.
    expect(await at(10)).toEqual([sinceMs + 5 * HOUR_MS, ['refused large: 9000 of 2200']])
    expect(await at(50)).toEqual([sinceMs + 5 * HOUR_MS, ['possible large: 9000 of 10200']])
    expect(await at(60)).toEqual([undefined, ['possible large: 9000 of 12200']])
  })

  it('mentions an open window only where a rate is compared', async () => {
    const {own} = await setUp()
    const openFor = async (...texts: string[]) => {
      const preview = await own.configs.preview({level: 'resource', resource: 'gpt-4'}, parseLimits(texts))
      return (await impactOf(own, [preview], {...range, nowMs: sinceMs + 5.5 * HOUR_MS})).openMs
    }
    expect(await openFor('rpm=200/day@UTC')).toBeUndefined()
    expect(await openFor('rpm=200/min')).toBe(sinceMs + 5 * HOUR_MS)
  })

  it('is empty for a raised limit', async () => {
    const {own} = await setUp()
    expect((await impact(own, {level: 'resource', resource: 'gpt-4'}, 'rpm=100k')).found).toEqual([])
  })
})

async function use(tenant: TestTenant, entity: string, resource: string, hour: number, tokens: Record<string, number>) {
  const start = `2026-11-02T${String(hour).padStart(2, '0')}:00:00Z`
  const counted = {tokens: new Map(Object.entries(tokens)), totalEvents: 1}
  const record = {namespace: tenant.namespace, entity, resource, window: 'hourly', start, ...counted} as const
  await put(tenant, encodeUsage({...record, ttlSeconds: undefined}))
}
