import {beforeEach, describe, expect, it} from 'vitest'
import type {Limit} from '../../../src/lib/core/limits/limit.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import {Throttled, TransactionCancelled, Unavailable} from '../../../src/lib/dynamo/errors.js'
import {ConfigCache} from '../../../src/lib/repository/limits/cache.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {type ConfigScope, configKey, encodeConfig} from '../../../src/lib/schema/config-record.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {encodeProvisioner} from '../../../src/lib/schema/provisioner-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {encodeEntityConfigRegistry} from '../../schema/samples.js'
import {putAll} from '../namespace-items.js'
import {newAudit, newTenant, put, stored, type TestTenant} from '../namespace-table.js'

const limits = (...texts: string[]): Limit[] => texts.map(parseLimit)
const system: ConfigScope = {level: 'system'}
const resource = (name: string): ConfigScope => ({level: 'resource', resource: name})
const entity = (id: string, name: string): ConfigScope => ({level: 'entity', entity: id, resource: name})
const LEVELS = [entity('e1', 'gpt-4'), entity('e1', DEFAULT_RESOURCE), resource('gpt-4'), system]

/** As the Python system's declarative tool writes it: no version, no GSI4SK, no GSI3 keys. */
function asPythonProvisioner(namespace: string, scope: ConfigScope, texts: string[]): Item {
  const record = {namespace, scope, limits: limits(...texts), onUnavailable: undefined, auditRetentionDays: undefined}
  const {config_version: _, GSI4SK: __, GSI3PK: ___, GSI3SK: ____, ...item} = encodeConfig(record)
  return item
}

describeOnBoth('configured limits', {}, table => {
  let tenant: TestTenant
  let configs: Configs

  beforeEach(() => {
    tenant = newTenant(table)
    configs = new Configs(tenant, {audit: newAudit(tenant)})
  })

  const item = (scope: ConfigScope) => stored(tenant, configKey(tenant.namespace, scope))
  const registry = () => stored(tenant, keys.resourceRegistry(tenant.namespace))
  const counts = () => stored(tenant, keys.entityConfigRegistry(tenant.namespace))
  const events = async (subject: string) => {
    const {records} = await newAudit(tenant).list({entity: subject})
    return records.toReversed()
  }

  describe.each(LEVELS)('at $level $resource', scope => {
    it('stores records that other clients can read', async () => {
      const [rpm] = limits('rpm=100/min:150') as [Limit]
      await configs.set(scope, [rpm])
      const {rev, ...rest} = (await item(scope)) as Item
      const record = {namespace: tenant.namespace, scope, limits: [rpm]}
      expect(rest).toEqual(encodeConfig({...record, onUnavailable: undefined, auditRetentionDays: undefined}))
      expect(rev).toHaveProperty('S')
    })

    it('accepts as many limits as a write of a bucket can hold, and no more', async () => {
      const many = Array.from({length: 47}, (_, at) => `limit-${at}=1/min`)
      await configs.set(scope, limits(...many))
      const refused = {code: 'limit.too-many', kind: 'usage'}
      await expect(configs.set(scope, limits('one-more=1/min'))).rejects.toMatchObject(refused)
      await expect(configs.preview(scope, limits('one-more=1/min'))).rejects.toMatchObject(refused)
      expect((await configs.get(scope))?.limits).toHaveLength(47)
      await configs.set(scope, limits('limit-0=2/min'))
    })

    it('merges, replaces, unsets, and returns the previous limits', async () => {
      const first = await configs.set(scope, limits('rpm=100/min', 'tpm=5k/min'))
      expect(first).toMatchObject({before: [], after: limits('rpm=100/min', 'tpm=5k/min')})

      const merged = await configs.set(scope, limits('rpm=200/min', 'rpd=1k/day'))
      expect(merged.before).toEqual(limits('rpm=100/min', 'tpm=5k/min'))
      expect(merged.after).toEqual(limits('rpd=1k/day', 'rpm=200/min', 'tpm=5k/min'))
      expect((await configs.get(scope))?.limits).toEqual(merged.after)

      const unset = await configs.unset(scope, 'rpd')
      expect(unset.after).toEqual(limits('rpm=200/min', 'tpm=5k/min'))

      const replaced = await configs.set(scope, limits('tpm=1/sec'), {replace: true})
      expect(replaced).toMatchObject({before: unset.after, after: limits('tpm=1/sec')})
      expect(
        Object.keys((await item(scope)) ?? {})
          .filter(name => name.startsWith('l_'))
          .sort(),
      ).toEqual(['l_tpm_cp', 'l_tpm_ra', 'l_tpm_rp'])
    })

    it('keeps attributes of other tools and adds missing ones', async () => {
      const old = asPythonProvisioner(tenant.namespace, scope, ['rpm=1/min', 'tpm=2/min'])
      await put(tenant, {...old, note: {S: 'mine'}, l_rpm_bx: {N: '9'}, l_tpm_bx: {N: '8'}})
      await configs.set(scope, limits('rpm=5/min'), {replace: false})
      expect(await item(scope)).toMatchObject({note: {S: 'mine'}, l_tpm_bx: {N: '8'}, config_version: {N: '1'}})
      // A burst of older clients would override the capacity that was just set.
      expect(await item(scope)).not.toHaveProperty('l_rpm_bx')
      const {PK} = configKey(tenant.namespace, scope)
      expect(await item(scope)).toMatchObject({GSI4PK: {S: tenant.namespace}, GSI4SK: {S: PK}})
      await configs.set(scope, limits('tpd=7/day'), {replace: true})
      expect(await item(scope)).toMatchObject({note: {S: 'mine'}})
      expect((await configs.get(scope))?.limits).toEqual(limits('tpd=7/day'))
      expect(await item(scope)).not.toHaveProperty('l_tpm_bx')
    })

    it('keeps the stored version', async () => {
      await put(tenant, {...asPythonProvisioner(tenant.namespace, scope, []), config_version: {N: '3'}})
      await configs.set(scope, limits('rpm=5/min'))
      expect(await item(scope)).toMatchObject({config_version: {N: '3'}})
    })

    it('deletes, once', async () => {
      await configs.set(scope, limits('rpm=5/min'))
      const deleted = await configs.delete(scope)
      expect(deleted).toMatchObject({before: limits('rpm=5/min'), after: []})
      expect((await configs.get(scope))?.limits ?? []).toEqual([])
      await expect(configs.delete(scope)).rejects.toMatchObject({code: 'limits.missing', kind: 'notFound'})
      await expect(configs.unset(scope, 'rpm')).rejects.toMatchObject({code: 'limits.missing', kind: 'notFound'})
    })

    it('writes one event per change, with the previous limits', async () => {
      const subject = scope.level === 'entity' ? 'e1' : scope.level === 'resource' ? '$RESOURCE:gpt-4' : '$SYSTEM'
      await configs.set(scope, limits('rpm=100/min'))
      tenant.nowMs += 1
      await configs.set(scope, limits('tpm=3/sec:9'))
      tenant.nowMs += 1
      await configs.delete(scope)
      const rpm = {name: 'rpm', capacity: 100, refill_amount: 100, refill_period_seconds: 60}
      const tpm = {name: 'tpm', capacity: 9, refill_amount: 3, refill_period_seconds: 1}
      const policy = scope.level === 'system' ? {on_unavailable: null} : {}
      const names = scope.level === 'system' ? {limits: ['rpm', 'tpm']} : {}
      expect((await events(subject)).map(({action, details, principal}) => ({action, details, principal}))).toEqual([
        {action: 'limits_set', details: {limits: [rpm], before: [], ...policy}, principal: 'tester'},
        {action: 'limits_set', details: {limits: [rpm, tpm], before: [rpm], ...policy}, principal: 'tester'},
        {action: 'limits_deleted', details: {before: [rpm, tpm], ...names, ...policy}, principal: 'tester'},
      ])
    })

    it('lets 20 concurrent changes happen one after another', async () => {
      const changes = await Promise.all(
        Array.from({length: 20}, (_, at) => configs.set(scope, limits(`l${at}=${at + 1}/min`))),
      )
      expect((await configs.get(scope))?.limits).toHaveLength(20)
      // Every change found exactly the result of the one before it.
      const sizes = changes.map(({before, after}) => [before.length, after.length] as const).sort(([a], [b]) => a - b)
      expect(sizes).toEqual(Array.from({length: 20}, (_, at) => [at, at + 1]))
    })
  })

  it('unsets the last limit by deleting the record, except for the system', async () => {
    for (const scope of LEVELS) await configs.set(scope, limits('rpm=1/min'))
    for (const scope of LEVELS) expect((await configs.unset(scope, 'rpm')).after).toEqual([])
    expect(await Promise.all(LEVELS.map(item))).toEqual([undefined, undefined, undefined, expect.anything()])
    expect(await counts()).not.toHaveProperty('gpt-4')
    expect(await registry()).not.toHaveProperty('resources')
  })

  it('keeps policy and retention through every change of limits', async () => {
    await configs.set(system, [], {onUnavailable: 'allow', auditRetentionDays: 30})
    await configs.set(system, limits('rpm=1/min'))
    await configs.set(system, limits('tpm=1/min'), {replace: true})
    await configs.unset(system, 'tpm')
    expect(await configs.get(system)).toMatchObject({limits: [], onUnavailable: 'allow', auditRetentionDays: 30})
    await configs.delete(system)
    expect(await configs.get(system)).toMatchObject({limits: [], onUnavailable: undefined, auditRetentionDays: 30})
    await expect(configs.delete(system)).rejects.toMatchObject({code: 'limits.missing'})
  })

  it.each([
    ['_default_', 'No limits are configured for entity "e1" (all resources).'],
    ['r', 'No limits are configured for entity "e1" and resource "r".'],
  ])('names the scope without limits: %s', async (resource, message) => {
    await expect(configs.delete(entity('e1', resource))).rejects.toMatchObject({code: 'limits.missing', message})
  })

  it.each<[string, () => Promise<unknown>, string]>([
    ['an entity id', () => configs.set(entity('a#b', 'r'), limits('rpm=1/min')), 'name.invalid'],
    ['a resource that is an attribute', () => configs.set(entity('a', 'GSI4PK'), limits('rpm=1/min')), 'name.invalid'],
    ['the default as a resource', () => configs.set(resource(DEFAULT_RESOURCE), limits('rpm=1/min')), 'name.invalid'],
    [
      'the hidden limit',
      () => configs.set(system, [{name: 'wcu', capacity: 1, refillAmount: 1, refillPeriodSeconds: 1}]),
      'name.invalid',
    ],
    [
      'no capacity',
      () => configs.set(system, [{name: 'rpm', capacity: 0, refillAmount: 1, refillPeriodSeconds: 1}]),
      'limit.number',
    ],
    ['a limit twice', () => configs.set(system, limits('rpm=1/min', 'rpm=2/min')), 'limit.duplicate'],
    ['nothing', () => configs.set(system, []), 'limits.empty'],
    ['nothing instead of all', () => configs.set(resource('r'), [], {replace: true}), 'limits.empty'],
    ['a policy of a resource', () => configs.set(resource('r'), [], {onUnavailable: 'allow'}), 'limits.settings'],
    ['retention of no days', () => configs.set(system, [], {auditRetentionDays: 0}), 'limits.retention'],
  ])('refuses %s and sends nothing', async (_, act, code) => {
    await expect(act()).rejects.toMatchObject({code, kind: 'usage'})
    expect(tenant.transport.calls).toEqual([])
  })

  describe('registries', () => {
    it('count each entity once, however often it is set, and drop a resource with its last entity', async () => {
      const scopes = Array.from({length: 20}, (_, at) => entity(`e${at}`, at % 2 ? 'gpt-4' : DEFAULT_RESOURCE))
      await Promise.all(scopes.flatMap(scope => [scope, scope]).map(scope => configs.set(scope, limits('rpm=1/min'))))
      expect(await counts()).toMatchObject({'gpt-4': {N: '10'}, [DEFAULT_RESOURCE]: {N: '10'}})
      expect(await configs.resourcesOfEntities()).toEqual([DEFAULT_RESOURCE, 'gpt-4'])
      // Half of them are deleted, each by two concurrent calls: one succeeds, the other finds nothing.
      const gone = scopes.slice(0, 11)
      const results = await Promise.allSettled(gone.flatMap(scope => [configs.delete(scope), configs.delete(scope)]))
      expect(results.filter(({status}) => status === 'fulfilled')).toHaveLength(11)
      expect(await counts()).toMatchObject({'gpt-4': {N: '5'}, [DEFAULT_RESOURCE]: {N: '4'}})
      await Promise.all(scopes.slice(11).map(scope => configs.delete(scope)))
      expect(await counts()).toEqual({
        PK: {S: `${tenant.namespace}/SYSTEM#`},
        SK: {S: '#ENTITY_CONFIG_RESOURCES'},
        GSI4PK: {S: tenant.namespace},
        GSI4SK: {S: `${tenant.namespace}/SYSTEM#`},
      })
      expect(await configs.resourcesOfEntities()).toEqual([])
    })

    it('hold exactly the resources with limits after concurrent sets and deletes', async () => {
      const names = Array.from({length: 20}, (_, at) => `r${at}`)
      await Promise.all(names.map(name => configs.set(resource(name), limits('rpm=1/min'))))
      await Promise.all(names.slice(5).map(name => configs.delete(resource(name))))
      const {resources} = (await registry()) as {resources: {SS: string[]}} & Item
      expect(resources.SS.toSorted()).toEqual(names.slice(0, 5))
      expect((await configs.resources()).map(({scope}) => scope)).toEqual(names.slice(0, 5).map(resource))
    })

    it('stay right when a delete and a set of the same entity race', async () => {
      const scope = entity('e1', 'gpt-4')
      for (let round = 0; round < 10; round++) {
        await Promise.allSettled([
          configs.set(scope, limits('rpm=1/min')),
          configs.delete(scope),
          configs.set(scope, limits('tpm=1/min')),
          configs.delete(scope),
        ])
        const isThere = (await configs.get(scope)) !== undefined
        expect((await counts())?.['gpt-4']).toEqual(isThere ? {N: '1'} : undefined)
      }
    })

    it('count a configuration of the Python declarative tool when it is first set, and not when it is deleted', async () => {
      const scopes = [entity('e1', 'gpt-4'), entity('e2', 'gpt-4')] as const
      for (const scope of scopes) await put(tenant, asPythonProvisioner(tenant.namespace, scope, ['rpm=1/min']))
      await configs.set(scopes[0], limits('rpm=2/min'))
      await configs.set(scopes[0], limits('rpm=3/min'))
      expect(await counts()).toMatchObject({'gpt-4': {N: '1'}})
      await configs.delete(scopes[1])
      expect(await counts()).toMatchObject({'gpt-4': {N: '1'}})
    })
  })

  describe('listings', () => {
    it('contain resources that only the index or only the declarative tool has', async () => {
      const record = {namespace: tenant.namespace, onUnavailable: undefined, auditRetentionDays: undefined}
      await configs.set(resource('registered'), limits('rpm=1/min'))
      await put(
        tenant,
        encodeConfig({...record, scope: resource('indexed'), limits: limits('rpm=2/min')}),
        asPythonProvisioner(tenant.namespace, resource('provisioned'), ['rpm=3/min']),
        encodeProvisioner({
          namespace: tenant.namespace,
          managesSystem: false,
          resources: ['provisioned', 'gone'],
          entities: new Map(),
          lastApplied: undefined,
          appliedHash: undefined,
        }),
      )
      const found = (await configs.resources()).map(({scope, limits: [limit]}) => [scope, limit?.capacity])
      expect(found).toEqual([
        [resource('indexed'), 2],
        [resource('provisioned'), 3],
        [resource('registered'), 1],
      ])
    })

    it('page through the entities of a resource, each once, including those in no index', async () => {
      const ids = Array.from({length: 7}, (_, at) => `e${at}`)
      for (const id of ids) await configs.set(entity(id, 'gpt-4'), limits('rpm=1/min'))
      await configs.set(entity('other', 'gpt-4o'), limits('rpm=1/min'))
      await put(
        tenant,
        asPythonProvisioner(tenant.namespace, entity('hidden', 'gpt-4'), ['rpm=1/min']),
        encodeProvisioner({
          namespace: tenant.namespace,
          managesSystem: false,
          resources: [],
          entities: new Map([
            ['hidden', ['gpt-4', 'gone']],
            ['e3', ['gpt-4']],
          ]),
          lastApplied: undefined,
          appliedHash: undefined,
        }),
      )
      const found: string[] = []
      let cursor: string | undefined
      let pages = 0
      do {
        const page = await configs.entities('gpt-4', {limit: 3, cursor})
        found.push(...page.records.map(({scope}) => (scope.level === 'entity' ? scope.entity : '')))
        cursor = page.next
        pages++
      } while (cursor)
      expect(found).toEqual(['hidden', ...ids])
      expect(pages).toBe(3)
      tenant.transport.calls.length = 0
      expect(await configs.resourcesOfEntities()).toEqual(['gone', 'gpt-4', 'gpt-4o'])
      // The record names the resources: a manifest may manage very many entities.
      expect(tenant.transport.calls).toEqual(['GetItem', 'GetItem'])
    })

    it('D-44 find entities in no index among many that a manifest manages, without a read of each', async () => {
      const {namespace} = tenant
      const rest = {limits: limits('rpm=1/min'), onUnavailable: undefined, auditRetentionDays: undefined}
      const ids = Array.from({length: 450}, (_, at) => `e${at}`)
      await putAll(tenant, [
        ...ids.map(id => encodeConfig({namespace, scope: entity(id, 'gpt-4'), ...rest})),
        asPythonProvisioner(namespace, entity('hidden', 'gpt-4'), ['rpm=1/min']),
      ])
      const entities = new Map([...ids, 'hidden'].map(id => [id, ['gpt-4']]))
      const applied = {lastApplied: undefined, appliedHash: undefined}
      await put(tenant, encodeProvisioner({namespace, managesSystem: false, resources: [], entities, ...applied}))
      tenant.transport.calls.length = 0
      const {records} = await configs.entities('gpt-4', {limit: 3})
      expect(records.map(({scope}) => scope)).toEqual([
        entity('hidden', 'gpt-4'),
        ...['e0', 'e1', 'e10'].map(id => entity(id, 'gpt-4')),
      ])
      // The hidden one, and the page: the others are known from a query of the index.
      expect(tenant.transport.calls.filter(call => call === 'BatchGetItem')).toHaveLength(2)
    })

    it('give all limits of one entity', async () => {
      await configs.set(entity('e1', 'b'), limits('rpm=1/min'))
      await configs.set(entity('e1', DEFAULT_RESOURCE), limits('rpm=2/min'))
      await configs.set(entity('e10', 'c'), limits('rpm=3/min'))
      expect((await configs.ofEntity('e1')).map(({scope}) => scope)).toEqual([
        entity('e1', DEFAULT_RESOURCE),
        entity('e1', 'b'),
      ])
    })
  })

  describe('resolution', () => {
    it('uses the most specific level that has limits, and shows all four', async () => {
      const own = LEVELS.map((_, at) => limits(`rpm=${at + 1}/min`))
      expect(await configs.resolve({entity: 'e1', resource: 'gpt-4'})).toMatchObject({source: undefined, limits: []})
      for (const [at, level] of (['system', 'resource', 'entity_default', 'entity'] as const).entries()) {
        await configs.set(LEVELS[3 - at] as ConfigScope, own[3 - at] as Limit[])
        const {source, limits: found, trace} = await configs.resolve({entity: 'e1', resource: 'gpt-4'})
        expect([source, found]).toEqual([level, own[3 - at]])
        expect(trace.map(({scope}) => scope)).toEqual(LEVELS)
        expect(trace.map(each => each.limits)).toEqual(own.map((each, index) => (index >= 3 - at ? each : [])))
      }
      expect((await configs.resolve({entity: 'e2', resource: 'gpt-4'})).source).toBe('resource')
      expect((await configs.resolve({entity: 'e1', resource: 'other'})).source).toBe('entity_default')
      expect((await configs.resolve({entity: 'e2', resource: 'other'})).source).toBe('system')
    })

    it('sees own changes at once and those of other clients after a minute', async () => {
      const others = new Configs(tenant, {audit: newAudit(tenant)})
      await configs.set(system, limits('rpm=1/min'))
      expect((await configs.resolve({entity: 'e', resource: 'r'})).limits).toEqual(limits('rpm=1/min'))
      await others.set(system, limits('rpm=2/min'))
      expect((await configs.resolve({entity: 'e', resource: 'r'})).limits).toEqual(limits('rpm=1/min'))
      tenant.nowMs += 60_000
      expect((await configs.resolve({entity: 'e', resource: 'r'})).limits).toEqual(limits('rpm=2/min'))
      await configs.delete(system)
      expect((await configs.resolve({entity: 'e', resource: 'r'})).limits).toEqual([])
    })

    it('costs one BatchGetItem for any number of concurrent callers, then none', async () => {
      await configs.set(resource('r'), limits('rpm=1/min'))
      tenant.transport.calls.length = 0
      const all = await Promise.all(Array.from({length: 100}, () => configs.resolve({entity: 'e', resource: 'r'})))
      expect(new Set(all.map(({source}) => source))).toEqual(new Set(['resource']))
      await configs.resolve({entity: 'e', resource: 'r'})
      expect(tenant.transport.calls).toEqual(['BatchGetItem'])
    })

    it('does not treat unprocessed keys as absent records', async () => {
      await configs.set(entity('e', 'r'), limits('rpm=1/min'))
      tenant.transport.calls.length = 0
      let held = 2
      tenant.transport.after = (operation, output, input) => {
        if (operation !== 'BatchGetItem' || held-- <= 0) return
        const {RequestItems} = input as {RequestItems: object}
        Object.assign(output as object, {Responses: {[tenant.name]: []}, UnprocessedKeys: RequestItems})
      }
      expect((await configs.resolve({entity: 'e', resource: 'r'})).source).toBe('entity')
      expect(tenant.transport.count('BatchGetItem')).toBe(3)
    })

    it('fails instead of caching a missing response', async () => {
      await configs.set(entity('e', 'r'), limits('rpm=1/min'))
      tenant.transport.before = operation => {
        if (operation === 'BatchGetItem') throw new Throttled(operation)
      }
      await expect(configs.resolve({entity: 'e', resource: 'r'})).rejects.toBeInstanceOf(Throttled)
      tenant.transport.before = () => {}
      expect((await configs.resolve({entity: 'e', resource: 'r'})).source).toBe('entity')
    })

    it('returns the outage policy, during an outage the last known one', async () => {
      expect(await configs.onUnavailable()).toBeUndefined()
      await configs.set(system, [], {onUnavailable: 'allow'})
      expect(await configs.onUnavailable()).toBe('allow')
      expect((await configs.resolve({entity: 'e', resource: 'r'})).onUnavailable).toBe('allow')
      tenant.nowMs += 60_000
      tenant.transport.before = operation => {
        throw new Unavailable(operation, false)
      }
      expect(await configs.onUnavailable()).toBe('allow')
      tenant.transport.before = () => {
        throw new TypeError('a bug')
      }
      await expect(configs.onUnavailable()).rejects.toThrow(TypeError)
    })

    it('returns the last outage policy when the deadline has passed', async () => {
      await configs.set(system, [], {onUnavailable: 'allow'})
      await configs.onUnavailable()
      configs.cache.invalidate()
      tenant.transport.before = () => new Promise(() => {})
      expect(await configs.onUnavailable({signal: AbortSignal.timeout(5)})).toBe('allow')
    })

    it('keeps namespaces apart in a shared cache', async () => {
      const other = newTenant(table)
      const cache = new ConfigCache({clock: tenant.clock})
      const here = new Configs(tenant, {audit: newAudit(tenant), cache})
      const there = new Configs(other, {audit: newAudit(other), cache})
      await here.set(system, limits('rpm=1/min'))
      expect((await here.resolve({entity: 'e', resource: 'r'})).source).toBe('system')
      expect((await there.resolve({entity: 'e', resource: 'r'})).source).toBeUndefined()
    })
  })

  describe('under faults', () => {
    it('counts a change once when its response is lost', async () => {
      const scope = entity('e1', 'gpt-4')
      for (const act of [() => configs.set(scope, limits('rpm=1/min')), () => configs.delete(scope)]) {
        let lost = 1
        tenant.transport.after = operation => {
          if (operation === 'TransactWriteItems' && lost-- > 0) throw new Unavailable(operation, true)
        }
        await act()
        tenant.nowMs += 1
        tenant.transport.after = () => {}
      }
      expect(await configs.resourcesOfEntities()).toEqual([])
      expect((await events('e1')).map(({action}) => action)).toEqual(['limits_set', 'limits_deleted'])
    })

    it('writes nothing at all when the audit event cannot be written', async () => {
      tenant.transport.before = (operation, input) => {
        if (operation !== 'TransactWriteItems') return
        // The engine refuses the last item, which is the event.
        const items = (input as {TransactItems: {Put?: {Item: Item}}[]}).TransactItems
        const {Put} = items.at(-1) as {Put: {Item: Item; ConditionExpression: string}}
        Put.ConditionExpression = Put.ConditionExpression.replace('_not_', '_')
      }
      const scope = entity('e1', 'gpt-4')
      await expect(configs.set(scope, limits('rpm=1/min'))).rejects.toMatchObject({
        code: 'limits.contended',
        kind: 'conflict',
      })
      expect([await item(scope), await counts()]).toEqual([undefined, undefined])
    })

    it('passes on a failure that a retry cannot fix', async () => {
      tenant.transport.before = operation => {
        if (operation === 'TransactWriteItems')
          throw new TransactionCancelled(operation, [{code: 'ValidationError', message: '', oldItem: undefined}])
      }
      await expect(configs.set(system, limits('rpm=1/min'))).rejects.toBeInstanceOf(TransactionCancelled)
      expect(tenant.transport.count('TransactWriteItems')).toBe(1)
    })

    it('does not overwrite a concurrent change of another client', async () => {
      const scope = resource('r')
      await configs.set(scope, limits('rpm=1/min'))
      const record = {namespace: tenant.namespace, scope, onUnavailable: undefined, auditRetentionDays: undefined}
      let between = 1
      tenant.transport.before = async operation => {
        if (operation !== 'TransactWriteItems' || between-- <= 0) return
        await put(tenant, encodeConfig({...record, limits: limits('rpm=1/min', 'tpm=9/min')}))
      }
      const {before, after} = await configs.set(scope, limits('rpd=1/day'))
      expect(before).toEqual(limits('rpm=1/min', 'tpm=9/min'))
      expect(after).toEqual(limits('rpd=1/day', 'rpm=1/min', 'tpm=9/min'))
    })

    it('counts an entity once when another client adds it to the index in between', async () => {
      const scope = entity('e1', 'gpt-4')
      await put(tenant, asPythonProvisioner(tenant.namespace, scope, ['rpm=1/min']))
      const record = {namespace: tenant.namespace, scope, onUnavailable: undefined, auditRetentionDays: undefined}
      let between = 1
      tenant.transport.before = async operation => {
        if (operation !== 'TransactWriteItems' || between-- <= 0) return
        // The same limits as before: only the keys of the index differ. That client counts in a separate step.
        await put(tenant, encodeConfig({...record, limits: limits('rpm=1/min')}))
        await put(tenant, encodeEntityConfigRegistry({namespace: tenant.namespace, counts: new Map([['gpt-4', 1]])}))
      }
      await configs.set(scope, limits('rpm=2/min'))
      expect(await counts()).toMatchObject({'gpt-4': {N: '1'}})
    })
  })
})
