import {beforeEach, expect, it} from 'vitest'
import {calendarCheck} from '../../../src/lib/core/calendar/schedule.js'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {windowStart} from '../../../src/lib/core/window.js'
import {type ExportedUsage, exportUsage, wholeWindows} from '../../../src/lib/insight/usage/usage-export.js'
import {totalUsage} from '../../../src/lib/insight/usage/usage-report.js'
import {RateLimitExceeded} from '../../../src/lib/limiter/refusal/errors.js'
import {splitBucket} from '../../../src/lib/repository/buckets/split.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {encodeEntity} from '../../../src/lib/schema/entity-record.js'
import {encodeUsage} from '../../../src/lib/schema/usage-record.js'
import {loggingAggregator, tableOver} from '../../aggregator/fixtures/stream.js'
import {StreamTap} from '../../aggregator/fixtures/stream-tap.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {seededRandom} from '../../limiter/fixtures/seeded-random.js'
import {newTenant, put} from '../../repository/namespace-table.js'

const DAY_MS = 86_400_000
const OCTOBER = {sinceMs: Date.UTC(2026, 9, 1), untilMs: Date.UTC(2026, 10, 1)}

async function rowsOf(rows: AsyncIterable<ExportedUsage>): Promise<ExportedUsage[]> {
  const all: ExportedUsage[] = []
  for await (const row of rows) all.push(row)
  return all
}

/** True figures by `entity limit`, and by entity for requests. */
class Truth {
  readonly sums = new Map<string, Record<string, number>>()

  add(key: string, figures: Readonly<Record<string, number>>): void {
    const sum = this.sums.get(key) ?? {}
    this.sums.set(key, sum)
    for (const [name, count] of Object.entries(figures)) sum[name] = (sum[name] ?? 0) + count
  }
}

describeOnBoth('the export of usage', {}, table => {
  let scene: Scene
  let tap: StreamTap
  let own: NamespaceRepository

  beforeEach(async () => {
    scene = new Scene(table)
    scene.nowMs = Date.UTC(2026, 9, 30, 20)
    tap = new StreamTap(table.transport, () => scene.nowMs)
    scene.transport = tap
    own = new NamespaceRepository(scene.tenant, undefined)
  })

  it('L4 L6 equals what was admitted, settled, refunded and refused, with two shards and a parent', async () => {
    const limits = parseLimits(['rpm=40/hour', 'tpm=50k/hour', 'usd=$2/month@UTC'], calendarCheck)
    await own.configs.set({level: 'resource', resource: 'gpt-4'}, limits)
    await own.configs.set({level: 'entity', entity: 'team', resource: 'gpt-4'}, parseLimits(['tpm=12k/hour']))
    await own.entities.create({id: 'team'})
    await own.entities.create({id: 'a', parent: 'team', cascade: true})
    const aggregator = loggingAggregator({table: tableOver(table.transport, table.name, () => scene.nowMs)})
    const random = seededRandom(7)
    const truth = new Truth()
    const chargedFor = (entity: string) => (entity === 'a' ? ['a', 'team'] : [entity])
    const charge = (entity: string, amounts: Readonly<Record<string, number>>) => {
      for (const [limit, consumed] of Object.entries(amounts)) {
        for (const charged of chargedFor(entity)) truth.add(`${charged} ${limit}`, {consumed})
      }
    }
    let [refusedOnce, refusedByBoth] = [0, 0]
    let limiter = scene.limiter()
    // "stray" has no record of its own.
    for (let at = 0; at < 240; at++) {
      const entity = random() < 0.5 ? 'a' : 'stray'
      const consume = {rpm: 1, tpm: Math.floor(random() * 3000), usd: Math.floor(random() * 90_000)}
      try {
        const lease = await limiter.acquire({entity, resource: 'gpt-4', consume})
        charge(entity, consume)
        const fate = random()
        if (fate < 0.4) {
          const settled = {tpm: Math.floor(random() * 500) - 200, usd: 1234}
          const possible = {...settled, tpm: Math.max(settled.tpm, -consume.tpm)}
          await lease.adjust(possible)
          charge(entity, possible)
        }
        if (fate > 0.85) {
          charge(entity, Object.fromEntries(Object.entries(lease.consumed).map(([name, held = 0]) => [name, -held])))
          await lease.rollback()
        } else for (const charged of chargedFor(entity)) truth.add(charged, {requests: 1})
      } catch (error) {
        if (!(error instanceof RateLimitExceeded)) throw error
        const exceeded = error.statuses.filter(status => status.exceeded)
        const own = exceeded.filter(({level}) => level === 'entity')
        truth.add(entity, own.length > 0 ? {refused: 1} : {byParent: 1})
        if (own.length < exceeded.length) truth.add('team', {refused: 1})
        refusedOnce++
        if (own.length > 0 && own.length < exceeded.length) refusedByBoth++
        for (const {entity: of, name, requested} of exceeded) {
          truth.add(`${of} ${name}`, {refused: 1, refusedTokens: requested})
        }
      }
      if (at === 20) await splitBucket({...scene.tenant, transport: tap}, 'a', 'gpt-4', 1)
      scene.nowMs += Math.floor(random() * 60_000)
      if (at % 60 !== 59) continue
      // Pending counts of refusals belong to the day in which they are written.
      await limiter.close()
      await aggregator.handle({Records: tap.take()})
      limiter = scene.limiter()
      scene.nowMs += DAY_MS / 6
    }
    await limiter.close()
    await aggregator.handle({Records: tap.take()})
    expect(await scene.shards('a', 'gpt-4', 2)).toHaveLength(2)

    for (const window of ['hourly', 'daily', 'monthly'] as const) {
      const found = new Truth()
      const seen = new Set<string>()
      let usd = 0
      const rows = await rowsOf(exportUsage(own, {window, ...OCTOBER, untilMs: scene.nowMs + 1}, scene.nowMs))
      for (const {entity, limit, consumed, amount, refused, refusedTokens, refusedAmount, start, ...row} of rows) {
        found.add(`${entity} ${limit}`, {consumed, refused, refusedTokens})
        expect([row.unit, amount === null, refusedAmount === null]).toEqual(
          limit === 'usd' ? ['USD', false, false] : [null, true, true],
        )
        if (limit === 'usd') usd += Number(amount) * 1e6
        expect(row.parent).toBe(entity === 'a' ? 'team' : null)
        if (seen.has(`${entity} ${start}`)) continue
        seen.add(`${entity} ${start}`)
        const {requests, requestsRefused, requestsRefusedByParent: byParent} = row
        found.add(entity, {requests, refused: requestsRefused, byParent})
      }
      for (const [key, figures] of truth.sums) expect({key, ...found.sums.get(key)}).toMatchObject({key, ...figures})
      const money = ['a', 'team', 'stray'].map(entity => truth.sums.get(`${entity} usd`)?.consumed ?? 0)
      expect(Math.round(usd)).toBe(money.reduce((sum, each) => sum + each, 0))
    }
    // The team makes no requests, so the bound is exact.
    const hours = {window: 'hourly', ...OCTOBER, untilMs: scene.nowMs + 1} as const
    const {refused, refusedTwice} = await totalUsage(own, {resource: 'gpt-4', ...hours})
    expect({refusedTwice, once: refused.requests - refusedTwice}).toEqual({
      refusedTwice: refusedByBoth,
      once: refusedOnce,
    })
    expect(refusedByBoth).toBeGreaterThan(0)
    // The history has everything that can go wrong.
    expect(truth.sums.get('a')).toMatchObject({refused: expect.any(Number), byParent: expect.any(Number)})
    expect(truth.sums.get('stray usd')?.refused).toBeGreaterThan(0)
  })

  it('includes entities without a record or a bucket, and resources without limits, by entity and newest first', async () => {
    const tenant = newTenant(table)
    const repository = new NamespaceRepository(tenant, undefined)
    const {namespace} = tenant
    const usage = (entity: string, resource: string, day: number, tokens = 1) =>
      encodeUsage({
        ...{namespace, entity, resource, window: 'daily'},
        start: windowStart('daily', OCTOBER.sinceMs + day * DAY_MS),
        tokens: new Map([['rpm', tokens]]),
        totalEvents: tokens,
        ttlSeconds: undefined,
      })
    await put(tenant, usage('z', 'r', 0), usage('z', 'r', 1), usage('a', 's', 0), usage('a', 'r', 3))
    // Outside the range, empty, and of another namespace.
    await put(tenant, usage('a', 'r', -1), usage('a', 'r', 31), usage('a', 'r', 5, 0))
    await put(tenant, {...encodeUsageOf('elsewhere', 'a'), GSI4PK: {S: namespace}})
    await put(tenant, encodeEntity({...ENTITY, namespace, entity: 'idle'}))
    const rows = await rowsOf(exportUsage(repository, {window: 'daily', ...OCTOBER}, OCTOBER.untilMs + DAY_MS))
    expect(rows.map(({entity, resource, start}) => `${entity} ${resource} ${start.slice(0, 10)}`)).toEqual([
      'a r 2026-10-04',
      'a s 2026-10-01',
      'z r 2026-10-02',
      'z r 2026-10-01',
    ])
    expect(rows[0]).toEqual({
      ...{entity: 'a', parent: null, resource: 'r', window: 'daily', start: '2026-10-04T00:00:00Z', open: false},
      ...{
        requests: 1,
        requestsRefused: 0,
        requestsRefusedByParent: 0,
        requestsRefusedByProvider: 0,
        limit: 'rpm',
        unit: null,
      },
      ...{
        consumed: 1,
        amount: null,
        overdrawn: 0,
        refused: 0,
        refusedTokens: 0,
        refusedAmount: null,
        requestsBlocked: 0,
        kind: 'own',
      },
    })
  })

  it('L6 marks rows that include requests of other entities, so that the others can be added up', async () => {
    const tenant = newTenant(table)
    const repository = new NamespaceRepository(tenant, undefined)
    await repository.entities.create({id: 'team'})
    for (const id of ['zoe', 'bob']) await repository.entities.create({id, parent: 'team', cascade: true})
    // Charges "left" no more, and "apart" never.
    for (const id of ['left', 'apart', 'single']) await repository.entities.create({id})
    await repository.entities.create({id: 'ann', parent: 'apart', cascade: false})
    await repository.configs.setCascade({level: 'resource', resource: 's'}, true)
    for (const entity of ['ann', 'apart', 'bob', 'left', 'single', 'team', 'zoe']) {
      await put(tenant, encodeUsageOf(tenant.namespace, entity))
      await put(tenant, encodeUsageOf(tenant.namespace, entity, 's'))
    }
    const moves = [{entity: 'zoe', atMs: OCTOBER.sinceMs, from: 'left', to: 'team'}]
    const request = {window: 'daily', ...OCTOBER} as const
    const rows = await rowsOf(exportUsage(repository, request, OCTOBER.untilMs + DAY_MS, moves))
    expect(rows.filter(({kind}) => kind === 'shared').map(({entity, resource}) => `${entity} ${resource}`)).toEqual([
      'apart s',
      'left s',
      'left r',
      'team s',
      'team r',
    ])
    expect(rows).toHaveLength(14)
  })

  it('marks windows as open until ten minutes after their end', async () => {
    const tenant = newTenant(table)
    await put(tenant, encodeUsageOf(tenant.namespace, 'a'))
    const repository = new NamespaceRepository(tenant, undefined)
    const openAt = async (nowMs: number) =>
      (await rowsOf(exportUsage(repository, {window: 'daily', ...OCTOBER}, nowMs))).map(({open}) => open)
    const end = OCTOBER.sinceMs + DAY_MS
    expect(await openAt(end - 1)).toEqual([true])
    expect(await openAt(end + 599_999)).toEqual([true])
    expect(await openAt(end + 600_000)).toEqual([false])
  })

  it('covers whole windows', () => {
    const asked = {sinceMs: Date.UTC(2026, 9, 1, 5), untilMs: Date.UTC(2026, 9, 3)}
    const days = {sinceMs: Date.UTC(2026, 9, 1), untilMs: Date.UTC(2026, 9, 3)}
    expect(wholeWindows({window: 'daily', ...asked})).toEqual(days)
    expect(wholeWindows({window: 'hourly', ...asked})).toEqual(asked)
    expect(wholeWindows({window: 'monthly', ...asked})).toEqual(OCTOBER)
  })
})

const ENTITY = {name: '', parent: undefined, cascade: false, metadata: {}, createdAt: '', version: 1}

const encodeUsageOf = (namespace: string, entity: string, resource = 'r') =>
  encodeUsage({
    ...{namespace, entity, resource, window: 'daily', start: '2026-10-01T00:00:00Z'},
    tokens: new Map([['rpm', 1]]),
    totalEvents: 1,
    ttlSeconds: undefined,
  })
