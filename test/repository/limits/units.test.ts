import {isDeepStrictEqual} from 'node:util'
import {beforeEach, expect, it} from 'vitest'
import type {Limit} from '../../../src/lib/core/limits/limit.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {configPage} from '../../../src/lib/repository/limits/limit-pages.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {type ConfigScope, configKey, encodeConfig} from '../../../src/lib/schema/config-record.js'
import {keys, wireKey} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant, put, stored, type TestTenant} from '../namespace-table.js'

const limits = (...texts: string[]): Limit[] => texts.map(parseLimit)
const resource: ConfigScope = {level: 'resource', resource: 'gpt-4'}
const entity: ConfigScope = {level: 'entity', entity: 'e1', resource: DEFAULT_RESOURCE}
const system: ConfigScope = {level: 'system'}

describeOnBoth('limits in money', {}, table => {
  let tenant: TestTenant
  let configs: Configs

  beforeEach(() => {
    tenant = newTenant(table)
    configs = new Configs(tenant, {audit: newAudit(tenant)})
  })

  it.each([resource, entity, system])(
    'are integers in the configuration, with their unit beside it: $level',
    async scope => {
      const money = limits('usd=$500/month@Europe/Berlin')
      const change = await configs.set(scope, money)
      expect(change.after).toEqual(money)
      expect(await stored(tenant, configKey(tenant.namespace, scope))).toMatchObject({l_usd_cp: {N: '500000000'}})
      const units = await stored(tenant, keys.units(tenant.namespace))
      expect(units).toMatchObject({u_usd: {S: 'USD'}, GSI4PK: {S: tenant.namespace}})
      expect((await configs.get(scope))?.limits).toEqual(money)
      expect((await configs.getMany([scope]))[0]?.limits).toEqual(money)
    },
  )

  it('cost one read of their units per change and per listing, and one in a process that answers one question', async () => {
    const tenant = newTenant(table)
    const configs = new Configs(tenant, {audit: newAudit(tenant)})
    let reads = 0
    tenant.transport.before = (operation, input) => {
      const {Key, RequestItems} = input as {Key?: Item; RequestItems?: {[table: string]: {Keys?: Item[]}}}
      const read =
        operation === 'GetItem' ? [Key] : operation === 'BatchGetItem' ? RequestItems?.[tenant.name]?.Keys : []
      const units = wireKey(keys.units(tenant.namespace))
      reads += read?.filter(key => isDeepStrictEqual(key, units)).length ?? 0
    }
    const readsOf = async (work: () => Promise<unknown>) => {
      reads = 0
      await work()
      return reads
    }
    const resource = {level: 'resource', resource: 'gpt'} as const
    const changes = [
      () => configs.set(resource, limits('usd=$5/day@UTC', 'rpm=5/min')),
      () => configs.set({level: 'entity', entity: 'a', resource: 'gpt'}, limits('usd=$6/day@UTC')),
      () => configs.preview(resource, limits('usd=$7/day@UTC')),
      () => configs.preview(resource, limits('eur=€7/day@UTC')),
      () => configs.unset(resource, 'rpm'),
      () => configs.get(resource),
      () => configs.getMany([resource, {level: 'system'}]),
      () => configs.resources(),
      () => configs.entities('gpt'),
    ]
    for (const change of changes) expect(await readsOf(change), String(change)).toBe(1)
    configs.keepUnits()
    const listing = () => configPage(configs, {}, {})
    expect(await readsOf(async () => [await listing(), await listing(), await configs.get(resource)])).toBe(1)
    // A change reads the stored units again, and later reads show the result.
    expect(await readsOf(() => configs.set(resource, limits('gbp=£1/day@UTC')))).toBe(1)
    expect((await configs.get(resource))?.limits).toMatchObject([{unit: 'GBP'}, {unit: 'USD'}])
  })

  it('remain money after another client has replaced the whole configuration', async () => {
    await configs.set(resource, limits('usd=$500/month@UTC'))
    const replaced = {namespace: tenant.namespace, scope: resource, limits: limits('usd=7000000/month@UTC')}
    await put(tenant, encodeConfig({...replaced, onUnavailable: undefined, auditRetentionDays: undefined}))
    expect((await configs.get(resource))?.limits).toEqual(limits('usd=$7/month@UTC'))
    expect((await configs.resources())[0]?.limits).toEqual(limits('usd=$7/month@UTC'))
  })

  it.each<[string, string, ConfigScope]>([
    ['usd=$5/day@UTC', 'usd=5/day@UTC', resource],
    ['usd=$5/day@UTC', 'usd=€5/day@UTC', entity],
    ['usd=5/day@UTC', 'usd=$5/day@UTC', resource],
    ['usd=5/day@UTC', 'usd=$5/day@UTC', entity],
  ])('keep the unit of their name while one is in use: %s, then %s at %j', async (first, second, scope) => {
    for (const used of [resource, entity, system]) {
      await configs.set(used, limits(first))
      const refused = {code: 'limit.unit', kind: 'usage'}
      await expect(configs.set(scope, limits(second))).rejects.toMatchObject(refused)
      await expect(configs.preview(scope, limits(second))).rejects.toMatchObject(refused)
      await configs.unset(used, 'usd')
    }
    await configs.set(scope, limits(second))
    expect((await configs.get(scope))?.limits).toEqual(limits(second))
  })

  it('can be set at several levels at once', async () => {
    const scopes = Array.from({length: 5}, (_, at): ConfigScope => ({level: 'resource', resource: `r${at}`}))
    await Promise.all(scopes.map(scope => configs.set(scope, limits('usd=$5/day@UTC'))))
    expect((await configs.resources()).map(each => each.limits)).toEqual(scopes.map(() => limits('usd=$5/day@UTC')))
  })

  it('can be set while another change sets the same unit between the reads of this one', async () => {
    const other: ConfigScope = {level: 'resource', resource: 'other'}
    const rival = new Configs(tenant, {audit: newAudit(tenant)})
    let isFirst = true
    tenant.transport.before = async operation => {
      if (operation !== 'Query' || !isFirst) return
      isFirst = false
      await rival.set(other, limits('usd=$5/day@UTC'))
    }
    await configs.set(resource, limits('usd=$7/day@UTC'))
    expect(isFirst).toBe(false)
    expect((await configs.getMany([resource, other])).map(each => each?.limits)).toEqual([
      limits('usd=$7/day@UTC'),
      limits('usd=$5/day@UTC'),
    ])
  })
})
