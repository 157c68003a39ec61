import {beforeEach, expect, it} from 'vitest'
import {baseOf, boostedOf, type Limit} from '../../../src/lib/core/limits/limit.js'
import {formatLimit, parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import type {SetOptions} from '../../../src/lib/repository/limits/change-options.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {isTidyDue, tidyBoosts} from '../../../src/lib/repository/limits/limit-sync.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {n} from '../../../src/lib/schema/attribute-value.js'
import {boostKey, decodeBoosts} from '../../../src/lib/schema/boost-record.js'
import {type ConfigScope, configKey, encodeConfig} from '../../../src/lib/schema/config-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant, put, stored, type TestTenant} from '../namespace-table.js'

const limits = (...texts: string[]): Limit[] => texts.map(parseLimit)
const resource: ConfigScope = {level: 'resource', resource: 'gpt-4'}
const entity: ConfigScope = {level: 'entity', entity: 'e1', resource: 'gpt-4'}
const entityDefault: ConfigScope = {level: 'entity', entity: 'e1', resource: DEFAULT_RESOURCE}
const system: ConfigScope = {level: 'system'}
const HOUR_MS = 3_600_000

/** A limit in words: its values now and its base. */
const textOf = (limit: Limit | undefined): string | undefined => {
  const boosted = limit && boostedOf(limit)
  if (!limit || !boosted) return limit && formatLimit(limit)
  const until = new Date(limit.boost?.untilMs ?? 0).toISOString().slice(0, 16)
  return `${formatLimit(boosted)} ${limit.boost?.isEnded ? 'until (ended)' : 'until'} ${until}, then ${formatLimit(limit)}`
}

describeOnBoth('temporary limits', {}, table => {
  let tenant: TestTenant
  let configs: Configs

  beforeEach(() => {
    tenant = newTenant(table)
    tenant.nowMs = Date.parse('2026-11-16T14:36:12Z')
    configs = new Configs(tenant, {audit: newAudit(tenant)})
  })

  const inHours = (hours: number): Date => new Date(tenant.nowMs + hours * HOUR_MS)
  const boost = (scope: ConfigScope, texts: string[], until = inHours(24), options: SetOptions = {}) =>
    configs.set(scope, limits(...texts), {until, ...options})
  const textsAt = async (scope: ConfigScope) => (await configs.get(scope))?.limits.map(textOf)
  /** The limits as limiters read them, as texts with windows. */
  const raw = async (scope: ConfigScope) =>
    (await configs.resolve({entity: 'e1', resource: 'gpt-4'})).trace
      .find(({level}) => level === (scope.level === 'entity' ? 'entity' : scope.level))
      ?.limits.map(formatLimit)
  const recordOf = async (scope: ConfigScope) => {
    const item = await stored(tenant, boostKey(tenant.namespace, scope))
    return item && decodeBoosts(item)
  }
  const actions = async () => {
    const {records} = await newAudit(tenant).listAll()
    return records.map(({action}) => action).reverse()
  }

  it.each([resource, entity, entityDefault, system])('apply until their end and are shown with it: %o', async scope => {
    await configs.set(scope, limits('rpm=100/min', 'tpm=100k/min'))
    const change = await boost(scope, ['tpm=400k/min:500k'])
    const expected = ['rpm=100/min', 'tpm=400k/min:500k until 2026-11-17T14:37, then tpm=100k/min']
    expect(change.after.map(textOf)).toEqual(expected)
    expect(await textsAt(scope)).toEqual(expected)
    expect((await configs.preview(scope, limits('rpm=1'))).before.map(textOf)).toEqual(expected)
    const {boosts} = (await recordOf(scope)) ?? {}
    expect(boosts?.get('tpm')).toEqual({
      windows: '1D16M11c500000a400000p60;h0-13D17M11c500000a400000p60;m0-36h14D17M11c500000a400000p60',
      zone: 'UTC',
      untilMs: Date.parse('2026-11-17T14:37Z'),
      since: '2026-11-16T14:36:12Z',
      by: 'tester',
    })
    expect(await stored(tenant, configKey(tenant.namespace, scope))).not.toHaveProperty('copy_until')
  })

  it('are stored as windows before all others, which every client applies', async () => {
    await configs.set(resource, limits('tpm=100k/min,x0.5@"* 0-5 * * * Europe/Berlin"'))
    await boost(resource, ['tpm=400k/min'])
    const windows = ['* * 16 11 *', '* 0-14 17 11 *', '0-36 15 17 11 *'].map(cron => `400k/min@"${cron}"`)
    windows[0] = windows[0]?.replace(/"$/, ' Europe/Berlin"') ?? ''
    expect(await raw(resource)).toEqual([`tpm=100k/min,${windows.join(',')},x0.5@"* 0-5 * * *"`])
    expect(await textsAt(resource)).toEqual([
      'tpm=400k/min until 2026-11-17T14:37, then tpm=100k/min,x0.5@"* 0-5 * * * Europe/Berlin"',
    ])
  })

  it('copy the effective limits to a scope without limits, and the copy expires with them', async () => {
    await configs.set(resource, limits('rpm=100/min', 'tpm=100k/min'))
    const change = await boost(entity, ['tpm=400k/min'])
    expect(change.copied?.limits.map(({name}) => name)).toEqual(['rpm'])
    expect(await textsAt(entity)).toEqual(['rpm=100/min', 'tpm=400k/min until 2026-11-17T14:37, then tpm=100k/min'])
    expect((await configs.get(entity))?.copiedUntilMs).toBe(Date.parse('2026-11-17T14:37Z'))
    expect(await configs.resourcesOfEntities()).toEqual(['gpt-4'])

    tenant.nowMs += 25 * HOUR_MS
    expect(await stored(tenant, configKey(tenant.namespace, entity))).toMatchObject({copy_until: n(END_MS)})
    await tidyBoosts(tenant)
    expect(await stored(tenant, configKey(tenant.namespace, entity))).toBeUndefined()
    expect(await recordOf(entity)).toBeUndefined()
    expect(await configs.resourcesOfEntities()).toEqual([])
    expect(await actions()).toEqual(['limits_set', 'limits_set', 'limits_boost_ended'])
  })

  const END_MS = Date.parse('2026-11-17T14:37Z')

  /** Reads at an instant: the effective level and its limits, and the entity's stored limits. */
  const readAt = async (ms: number) => {
    tenant.nowMs = ms
    const {source, limits: applied} = await configs.resolve({entity: 'e1', resource: 'gpt-4'})
    const listed = [...(await configs.ofEntity('e1')), ...(await configs.entities('gpt-4')).records]
    const [many] = await configs.getMany([entity])
    const [readable] = await configs.readableLimits([entity])
    const own = [await configs.get(entity), many].map(record => record?.limits.length ?? 0)
    return [
      source,
      ...applied.map(({name, capacity}) => `${name}=${capacity}`),
      ...own,
      readable?.limits.length,
      listed.length,
    ]
  }

  it('hand over to the current next level at their end, to the millisecond, also from a cache', async () => {
    await configs.set(resource, limits('rpm=100/min', 'tpm=100k/min'))
    await boost(entity, ['tpm=400k/min'])
    await configs.set(resource, limits('rpm=7/min', 'x=1'))
    // Cached for a minute from here on.
    expect(await readAt(END_MS - 30_000)).toEqual(['entity', 'rpm=100', 'tpm=100000', 2, 2, 2, 2])
    expect(await readAt(END_MS - 1)).toEqual(['entity', 'rpm=100', 'tpm=100000', 2, 2, 2, 2])
    tenant.transport.calls.length = 0
    expect((await configs.resolve({entity: 'e1', resource: 'gpt-4'}, {})).source).toBe('entity')
    tenant.nowMs = END_MS
    expect((await configs.resolve({entity: 'e1', resource: 'gpt-4'}, {})).source).toBe('resource')
    expect(tenant.transport.calls).toEqual([])
    expect(await readAt(END_MS)).toEqual(['resource', 'rpm=7', 'tpm=100000', 'x=1', 0, 0, 0, 0])
    // Listed until it is tidied up.
    expect(await configs.boosts()).toMatchObject([{isForBoost: true, limit: {boost: {isEnded: true}}}])
    await tidyBoosts(tenant)
    expect(await stored(tenant, configKey(tenant.namespace, entity))).toMatchObject({copy_until: n(END_MS)})
  })

  it('end their copy with the last of them, and mark which that is', async () => {
    const lasts = (among: readonly Limit[] = []) => among.flatMap(each => (each.boost?.endsCopy ? [each.name] : []))
    await configs.set(resource, limits('rpm=100/min', 'tpm=100k/min'))
    expect(lasts((await boost(entity, ['tpm=400k/min'])).after)).toEqual(['tpm'])
    const longer = await boost(entity, ['rpm=200/min'], inHours(48))
    expect([longer.before, longer.after, (await configs.get(entity))?.limits].map(lasts)).toEqual([
      ['tpm'],
      ['rpm'],
      ['rpm'],
    ])
    const preview = await configs.preview(entity, limits('rpm=1/min'))
    expect([preview.before, preview.after].map(lasts)).toEqual([['rpm'], []])
    await boost(entity, ['rpm=200/min'], inHours(1))
    expect((await configs.get(entity))?.copiedUntilMs).toBe(END_MS)
    expect((await readAt(END_MS - 1))[0]).toBe('entity')
    tenant.nowMs = Date.parse('2026-11-17T10:00Z')
    await configs.endBoosts(entity, ['tpm'])
    expect((await readAt(tenant.nowMs))[0]).toBe('resource')
  })

  it('leave a scope without limits after their copy has expired: a new limit copies the effective ones', async () => {
    await configs.set(resource, limits('rpm=100/min', 'tpm=100k/min'))
    await boost(entity, ['tpm=400k/min'])
    await configs.set(resource, limits('rpm=7/min'))
    tenant.nowMs = END_MS
    await expect(configs.unset(entity, 'rpm')).rejects.toMatchObject({code: 'limits.missing'})
    const change = await configs.set(entity, limits('tpm=5k/min'))
    expect(change).toMatchObject({before: [], previous: undefined, copied: {scope: resource, limits: [{name: 'rpm'}]}})
    expect(await textsAt(entity)).toEqual(['rpm=7/min', 'tpm=5k/min'])
    expect(await recordOf(entity)).toBeUndefined()
    expect(await stored(tenant, configKey(tenant.namespace, entity))).not.toHaveProperty('copy_until')
    tenant.nowMs += 48 * HOUR_MS
    expect(await textsAt(entity)).toEqual(['rpm=7/min', 'tpm=5k/min'])
  })

  it('are not copied to another scope once they have expired', async () => {
    await configs.set(system, limits('rpm=100/min', 'tpm=100k/min'))
    await boost(entityDefault, ['tpm=400k/min'])
    await configs.set(resource, limits('rpm=7/min', 'tpm=7k/min'))
    tenant.nowMs = END_MS
    const change = await configs.set(entity, limits('tpm=9k/min'))
    expect(change.copied).toMatchObject({scope: resource, limits: [{name: 'rpm', capacity: 7}]})
  })

  it('can be removed by hand once they have expired', async () => {
    await configs.set(resource, limits('tpm=100k/min'))
    await boost(entity, ['tpm=400k/min'])
    tenant.nowMs = END_MS
    await configs.endBoosts(entity)
    expect(await stored(tenant, configKey(tenant.namespace, entity))).toBeUndefined()
    expect(await configs.boosts()).toEqual([])
  })

  it.each([
    ['set', () => configs.set(entity, limits('tpm=150k/min'))],
    ['unset', () => configs.unset(entity, 'tpm')],
  ])('keep a copy that is changed permanently, by %s, and report it', async (_, change) => {
    await configs.set(resource, limits('rpm=100/min', 'tpm=100k/min'))
    await boost(entity, ['tpm=400k/min'])
    expect((await change()).copied).toMatchObject({scope: resource, limits: [{name: 'rpm'}]})
    expect((await configs.get(entity))?.copiedUntilMs).toBeUndefined()
    tenant.nowMs = END_MS
    expect((await textsAt(entity))?.[0]).toBe('rpm=100/min')
  })

  it('remain a copy when a switch is set meanwhile', async () => {
    await configs.set(resource, limits('tpm=100k/min'))
    await boost(entity, ['tpm=400k/min'])
    await configs.setAccess({level: 'entity', entity: 'e1', resource: 'gpt-4'}, 'bypass')
    expect((await configs.get(entity))?.copiedUntilMs).toBe(END_MS)
    tenant.nowMs = END_MS
    expect(await configs.get(entity)).toMatchObject({limits: [], access: 'bypass'})
    expect(await configs.resolve({entity: 'e1', resource: 'gpt-4'})).toMatchObject({
      source: 'resource',
      access: {access: 'bypass'},
    })
  })

  it('do not remove limits that another client has set meanwhile', async () => {
    await configs.set(resource, limits('tpm=100k/min'))
    await boost(entity, ['tpm=400k/min'])
    const record = {namespace: tenant.namespace, scope: entity, onUnavailable: undefined, auditRetentionDays: undefined}
    await put(tenant, encodeConfig({...record, limits: limits('tpm=50k/min')}))
    tenant.nowMs = END_MS + HOUR_MS
    await tidyBoosts(tenant)
    expect(await textsAt(entity)).toEqual(['tpm=50k/min'])
  })

  it('keep their copy when it was changed meanwhile', async () => {
    await configs.set(resource, limits('rpm=100/min', 'tpm=100k/min'))
    await boost(entity, ['tpm=400k/min'])
    await configs.set(entity, limits('rpm=200/min'))
    tenant.nowMs += 25 * HOUR_MS
    await tidyBoosts(tenant)
    expect(await textsAt(entity)).toEqual(['rpm=200/min', 'tpm=100k/min'])
    expect(await recordOf(entity)).toBeUndefined()
  })

  it('keep a switch of the scope when their copy expires', async () => {
    await configs.set(resource, limits('tpm=100k/min'))
    await boost(entity, ['tpm=400k/min'])
    await configs.setAccess({level: 'entity', entity: 'e1', resource: 'gpt-4'}, 'disabled')
    tenant.nowMs += 25 * HOUR_MS
    await tidyBoosts(tenant)
    expect(await configs.get(entity)).toMatchObject({limits: [], access: 'disabled'})
  })

  it('are cleaned up once by concurrent callers, and not while clocks may differ', async () => {
    await configs.set(resource, limits('tpm=100k/min'))
    await boost(resource, ['tpm=400k/min'])
    const before = await raw(resource)
    tenant.nowMs = Date.parse('2026-11-17T14:41:59Z')
    await tidyBoosts(tenant)
    configs.cache.invalidate()
    expect(await raw(resource)).toEqual(before)
    tenant.nowMs = Date.parse('2026-11-17T14:42Z')
    await Promise.all(Array.from({length: 4}, () => tidyBoosts(tenant)))
    await tidyBoosts(tenant)
    configs.cache.invalidate()
    expect(await raw(resource)).toEqual(['tpm=100k/min'])
    expect(await stored(tenant, configKey(tenant.namespace, resource))).not.toHaveProperty('sched_tz')
    expect(await recordOf(resource)).toBeUndefined()
    expect((await actions()).filter(action => action === 'limits_boost_ended')).toHaveLength(1)
  })

  it('are gone when another client replaces the configuration', async () => {
    await configs.set(resource, limits('tpm=100k/min'))
    await boost(resource, ['tpm=400k/min'])
    const record = {
      namespace: tenant.namespace,
      scope: resource,
      onUnavailable: undefined,
      auditRetentionDays: undefined,
    }
    await put(tenant, encodeConfig({...record, limits: limits('tpm=50k/min,x0.5@"* 0-5 * * *"')}))
    expect(await textsAt(resource)).toEqual(['tpm=50k/min,x0.5@"* 0-5 * * *"'])
    expect(await configs.boosts()).toEqual([])
    // As many windows as the boost had.
    const windows = ['* 1 * * *', '* 2 * * *', '* 3 * * *'].map(cron => `1/min@"${cron}"`).join(',')
    await put(tenant, encodeConfig({...record, limits: limits(`tpm=50k/min,${windows}`)}))
    expect(await textsAt(resource)).toEqual([`tpm=50k/min,${windows}`])
    await put(tenant, encodeConfig({...record, limits: limits('tpm=50k/min,x0.5@"* 0-5 * * *"')}))
    // The remaining record does not prevent a new boost.
    await boost(resource, ['tpm=80k/min'])
    expect(await textsAt(resource)).toEqual(['tpm=80k/min until 2026-11-17T14:37, then tpm=50k/min,x0.5@"* 0-5 * * *"'])
    await put(tenant, encodeConfig({...record, limits: limits('tpm=50k/min')}))
    tenant.nowMs += 25 * HOUR_MS
    await tidyBoosts(tenant)
    expect(await textsAt(resource)).toEqual(['tpm=50k/min'])
    expect(await recordOf(resource)).toBeUndefined()
  })

  it('are replaced by other boosts, ended by permanent limits, and removed with their limit', async () => {
    await configs.set(resource, limits('rpm=100/min', 'tpm=100k/min', 'x=1'))
    await boost(resource, ['tpm=400k/min', 'rpm=200/min', 'x=2'])
    await boost(resource, ['tpm=300k/min'], inHours(1))
    expect((await textsAt(resource))?.[1]).toBe('tpm=300k/min until 2026-11-16T15:37, then tpm=100k/min')
    const change = await configs.set(resource, limits('tpm=150k/min'))
    expect([change.before[1], change.after[1]].map(textOf)).toEqual([
      'tpm=300k/min until 2026-11-16T15:37, then tpm=100k/min',
      'tpm=150k/min',
    ])
    await configs.unset(resource, 'x')
    expect(await textsAt(resource)).toEqual(['rpm=200/min until 2026-11-17T14:37, then rpm=100/min', 'tpm=150k/min'])
    expect([...((await recordOf(resource))?.boosts.keys() ?? [])]).toEqual(['rpm'])
    await configs.delete(resource)
    expect(await recordOf(resource)).toBeUndefined()
  })

  it('can be ended early, with their copy', async () => {
    await configs.set(resource, limits('rpm=100/min', 'tpm=100k/min'))
    await boost(entity, ['tpm=400k/min', 'rpm=200/min'])
    await expect(configs.endBoosts(entity, ['x'])).rejects.toMatchObject({
      code: 'boost.missing',
      hint: 'Temporary limits: rpm, tpm.',
    })
    await configs.endBoosts(entity, ['tpm'])
    expect(await textsAt(entity)).toEqual(['rpm=200/min until 2026-11-17T14:37, then rpm=100/min', 'tpm=100k/min'])
    const {after, before} = await configs.endBoosts(entity)
    expect([before.length, after]).toEqual([2, []])
    expect(await configs.get(entity)).toBeUndefined()
    await expect(configs.endBoosts(resource)).rejects.toMatchObject({code: 'boost.missing'})
  })

  it('are copied with their end to a scope that starts with the effective limits', async () => {
    await configs.set(resource, limits('rpm=100/min', 'tpm=100k/min'))
    await boost(resource, ['tpm=400k/min'])
    await configs.set(entity, limits('rpm=7/min'))
    expect(await textsAt(entity)).toEqual(['rpm=7/min', 'tpm=400k/min until 2026-11-17T14:37, then tpm=100k/min'])
    tenant.nowMs += 25 * HOUR_MS
    await tidyBoosts(tenant)
    expect(await textsAt(entity)).toEqual(['rpm=7/min', 'tpm=100k/min'])
    expect(await textsAt(resource)).toEqual(['rpm=100/min', 'tpm=100k/min'])
  })

  it('are cleaned up by the next change', async () => {
    await configs.set(resource, limits('rpm=100/min', 'tpm=100k/min'))
    await boost(resource, ['tpm=400k/min'])
    await boost(entity, ['tpm=500k/min'])
    tenant.nowMs += 25 * HOUR_MS
    await configs.set(resource, limits('rpm=1/min'))
    expect(await textsAt(resource)).toEqual(['rpm=1/min', 'tpm=100k/min'])
    // The copy has expired, so the scope starts anew.
    const change = await configs.set(entity, limits('tpm=5k/min'))
    expect(change.before).toEqual([])
    expect(await textsAt(entity)).toEqual(['rpm=1/min', 'tpm=5k/min'])
    expect(await configs.boosts()).toEqual([])
  })

  it('move to the time zone of limits that are added later', async () => {
    await configs.set(resource, limits('tpm=100k/min'))
    await boost(resource, ['tpm=400k/min'])
    await configs.set(resource, limits('rpd=10k/day@Asia/Tokyo'))
    expect(await textsAt(resource)).toEqual([
      'rpd=10k/day@Asia/Tokyo',
      'tpm=400k/min until 2026-11-17T14:37, then tpm=100k/min',
    ])
    await configs.unset(resource, 'rpd')
    expect(await textsAt(resource)).toEqual(['tpm=400k/min until 2026-11-17T14:37, then tpm=100k/min'])
    expect((await configs.get(resource))?.limits[0]?.timeZone).toBe('UTC')
  })

  it.each([
    ['usd=$5/min', 'usd=$50/min:$60'],
    ['rpm=100/min,soft', 'rpm=10/min,soft'],
  ])('support every kind of rate: %s', async (base, boosted) => {
    await configs.set(resource, limits(base))
    await boost(resource, [boosted])
    expect(await textsAt(resource)).toEqual([`${boosted} until 2026-11-17T14:37, then ${base}`])
    const [limit] = (await configs.get(resource))?.limits ?? []
    expect(limit && baseOf(limit)).toEqual(parseLimit(base))
    tenant.nowMs += 25 * HOUR_MS
    await tidyBoosts(tenant)
    expect(await textsAt(resource)).toEqual([base])
  })

  it('can end at the maximum number of days away, rounded up to the minute', async () => {
    await configs.set(resource, limits('tpm=100/min'))
    await boost(resource, ['tpm=200/min'], inHours(300 * 24))
    expect((await configs.get(resource))?.limits[0]?.boost?.untilMs).toBe(Date.parse('2027-09-12T14:37Z'))
  })

  it.each([
    ['until.past', ['tpm=1'], {until: new Date('2026-11-16T14:36:00Z')}],
    ['until.invalid', ['tpm=1'], {until: new Date(Number.NaN)}],
    ['until.far', ['tpm=1'], {until: new Date('2027-09-13T00:00Z')}],
    ['until.only-limits', [], {onUnavailable: 'allow' as const}],
    ['until.only-limits', ['tpm=1'], {auditRetentionDays: 3}],
    ['until.only-limits', ['tpm=1'], {replace: true}],
    ['until.missing', ['x=1'], {}],
    ['until.windows', ['tpm=1,x2@"* 0 * * *"'], {}],
    ['until.kind', ['tpm=1/day@UTC'], {}],
    ['until.kind', ['tpm=1,soft'], {}],
    ['until.quota', ['rpd=20k'], {}],
    ['until.quota', ['rpd=5k/day@Europe/Berlin'], {}],
    ['until.same', ['tpm=100k/min'], {}],
    ['until.quota', ['rpd=20k/day@Europe/Berlin'], {}],
    ['until.in-flight', ['parallel=30/inflight'], {}],
    ['until.in-flight', ['parallel=30/min'], {}],
    ['until.kind', ['tpm=30/inflight'], {}],
  ])('are refused with %s where they make no sense: %s %o', async (code, texts, options) => {
    await configs.set(system, limits('tpm=100k/min', 'rpd=10k/day@Europe/Berlin', 'parallel=20/inflight'))
    const before = await configs.get(system)
    await expect(boost(system, texts, inHours(1), options)).rejects.toMatchObject({code})
    await expect(configs.preview(system, limits(...texts), {until: inHours(1), ...options})).rejects.toMatchObject({
      code,
    })
    expect(await configs.get(system)).toEqual(before)
    expect(await recordOf(system)).toBeUndefined()
  })

  it('suggest how to write a limit of the existing kind', async () => {
    await configs.set(resource, limits('rpm=10/min,soft'))
    await expect(boost(resource, ['rpm=20'])).rejects.toMatchObject({
      hint: 'Use the same form, for example rpm=20/min,soft.',
    })
  })

  it('are refused when the clock of the zone shows the end twice', async () => {
    tenant.nowMs = Date.parse('2026-10-24T12:00Z')
    await configs.set(resource, limits('tpm=1/min', 'rpd=1/day@Europe/Berlin'))
    const refusal = boost(resource, ['tpm=2/min'], new Date('2026-10-25T01:30Z'))
    await expect(refusal).rejects.toMatchObject({code: 'until.ambiguous'})
  })

  it('do not become permanent when a client writes back the limits that it read', async () => {
    await configs.set(resource, limits('tpm=100k/min'))
    await boost(resource, ['tpm=400k/min'])
    await configs.set(resource, (await configs.get(resource))?.limits ?? [])
    expect(await raw(resource)).toEqual(['tpm=100k/min'])
  })

  it('are kept when their base changes with keepsBoosts', async () => {
    await configs.set(resource, limits('tpm=100k/min', 'x=1'))
    await boost(resource, ['tpm=400k/min'])
    await configs.set(resource, limits('tpm=150k/min'), {replace: true, keepsBoosts: true})
    expect(await textsAt(resource)).toEqual(['tpm=400k/min until 2026-11-17T14:37, then tpm=150k/min'])
  })

  it('end when their limit becomes an in-flight limit', async () => {
    await configs.set(resource, limits('tpm=100k/min', 'x=1'))
    await boost(resource, ['tpm=400k/min'])
    await configs.set(resource, limits('tpm=20/inflight'), {replace: true, keepsBoosts: true})
    expect((await configs.get(resource))?.limits).toEqual(limits('tpm=20/inflight'))
    expect(await recordOf(resource)).toBeUndefined()
  })

  it('are listed with their author', async () => {
    await configs.set(resource, limits('tpm=100k/min'))
    await boost(entity, ['tpm=400k/min'])
    const listed = await new NamespaceRepository(tenant, undefined).configs.boosts()
    expect(listed).toMatchObject([{scope: entity, by: 'tester', since: '2026-11-16T14:36:12Z', isForBoost: true}])
    expect(textOf(listed[0]?.limit)).toBe('tpm=400k/min until 2026-11-17T14:37, then tpm=100k/min')
  })

  it('cost one query when none has expired', async () => {
    await configs.set(resource, limits('tpm=100k/min'))
    await boost(resource, ['tpm=400k/min'])
    tenant.transport.calls.length = 0
    await tidyBoosts(tenant)
    expect(tenant.transport.calls).toEqual(['Query'])
    const record = await recordOf(resource)
    expect(record && isTidyDue(record, tenant.nowMs)).toBe(false)
  })
})
