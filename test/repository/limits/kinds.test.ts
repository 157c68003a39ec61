import {beforeEach, describe, expect, it} from 'vitest'
import type {Limit} from '../../../src/lib/core/limits/limit.js'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {type ConfigScope, configKey, encodeConfig} from '../../../src/lib/schema/config-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant, put, stored, type TestTenant} from '../namespace-table.js'

const limits = (...texts: string[]): Limit[] => texts.map(parseLimit)
const scope: ConfigScope = {level: 'resource', resource: 'gpt-4'}

describeOnBoth('limits of all kinds in the table', {}, table => {
  let tenant: TestTenant
  let configs: Configs

  beforeEach(() => {
    tenant = newTenant(table)
    configs = new Configs(tenant, {audit: newAudit(tenant)})
  })

  const item = () => stored(tenant, configKey(tenant.namespace, scope)) as Promise<Item>
  const limitNames = async () =>
    Object.keys(await item())
      .filter(name => /^(?:[lw]|if)_|^sched_tz$/.test(name))
      .sort()

  it('keep their values through the store, the resolution and the audit trail', async () => {
    const all = limits(
      'a=10k/day@Europe/Berlin,5k@"* * * * 6,7",soft',
      'b=200/5h!',
      'c=100k/min:200k,x0.1@"* 22,23 * * * Europe/Berlin"',
      'd=5',
      'e=20/inflight',
    )
    await configs.set(scope, all)
    expect((await configs.get(scope))?.limits).toEqual(all)
    expect((await configs.resolve({entity: 'e1', resource: 'gpt-4'})).limits).toEqual(all)
    const {records} = await newAudit(tenant).list({entity: '$RESOURCE:gpt-4'})
    expect(records[0]?.details).toMatchObject({
      limits: [
        {
          name: 'a',
          refill_amount: 0,
          reset_schedule: [{cron: '0 0 * * *', tz: 'Europe/Berlin'}],
          schedule: [{cron: '* * * * 6,7', tz: 'Europe/Berlin', capacity: 5000}],
          soft: true,
        },
        {name: 'b', reset_after_seconds: 18_000},
        {name: 'c', schedule: [{cron: '* 22,23 * * *', tz: 'Europe/Berlin', scale: 0.1}]},
        {name: 'd', capacity: 5, refill_amount: 5, refill_period_seconds: 60},
        {name: 'e', capacity: 20, refill_amount: 0, in_flight: true},
      ],
    })
  })

  it('are never under both prefixes: setting one form removes the other (G4)', async () => {
    await configs.set(scope, limits('s=200/5h!', 'x=1'))
    expect(await limitNames()).toEqual(['l_x_cp', 'l_x_ra', 'l_x_rp', 'w_s_cp', 'w_s_ra', 'w_s_rp', 'w_s_rsa'])
    await configs.set(scope, limits('s=200/min'))
    expect(await limitNames()).toEqual(['l_s_cp', 'l_s_ra', 'l_s_rp', 'l_x_cp', 'l_x_ra', 'l_x_rp'])
    await configs.set(scope, limits('s=200/5h!'))
    expect((await limitNames()).filter(name => name.includes('_s_'))).toEqual(['w_s_cp', 'w_s_ra', 'w_s_rp', 'w_s_rsa'])
  })

  it('are one attribute for an in-flight limit, and every other form of it is removed', async () => {
    await configs.set(scope, limits('p=20/inflight', 'x=1'))
    expect(await limitNames()).toEqual(['if_p', 'l_x_cp', 'l_x_ra', 'l_x_rp'])
    for (const [form, names] of [
      ['p=5/day@UTC', ['l_p_cp', 'l_p_ra', 'l_p_rp', 'l_p_rsched', 'l_x_cp', 'l_x_ra', 'l_x_rp', 'sched_tz']],
      ['p=200/5h!', ['l_x_cp', 'l_x_ra', 'l_x_rp', 'w_p_cp', 'w_p_ra', 'w_p_rp', 'w_p_rsa']],
    ] as const) {
      await configs.set(scope, limits(form))
      expect(await limitNames()).toEqual(names)
      await configs.set(scope, limits('p=20/inflight'))
      expect(await limitNames()).toEqual(['if_p', 'l_x_cp', 'l_x_ra', 'l_x_rp'])
    }
    await configs.set(scope, limits('p=30/inflight'), {replace: true})
    expect(await limitNames()).toEqual(['if_p'])
    await configs.set(scope, limits('x=1'))
    await configs.unset(scope, 'p')
    expect(await limitNames()).toEqual(['l_x_cp', 'l_x_ra', 'l_x_rp'])
  })

  it('apply as a whole from the most specific level, in-flight limits included', async () => {
    const own: ConfigScope = {level: 'entity', entity: 'e1', resource: 'gpt-4'}
    const resolved = async () => {
      const {source, limits: found} = await configs.resolve({entity: 'e1', resource: 'gpt-4'})
      return [source, found]
    }
    await configs.set(scope, limits('p=20/inflight', 'rpm=5'))
    await configs.set(own, limits('p=2/inflight'), {replace: true})
    expect(await resolved()).toEqual(['entity', limits('p=2/inflight')])
    await configs.unset(own, 'p')
    expect(await resolved()).toEqual(['resource', limits('p=20/inflight', 'rpm=5')])
    // A scope without limits starts with a copy.
    await configs.set(own, limits('rpm=7'))
    expect(await resolved()).toEqual(['entity', limits('p=20/inflight', 'rpm=7')])
  })

  it('lose schedule, softness and zone when they are set without them', async () => {
    await configs.set(scope, limits('a=5/day@UTC,soft,x2@"* 9 * * *"'))
    await configs.set(scope, limits('a=5/min'))
    expect(await limitNames()).toEqual(['l_a_cp', 'l_a_ra', 'l_a_rp'])
    await configs.set(scope, limits('a=5/day@UTC', 'b=1'))
    await configs.unset(scope, 'a')
    expect(await limitNames()).toEqual(['l_b_cp', 'l_b_ra', 'l_b_rp'])
  })

  it('share one zone in a scope, and another is refused', async () => {
    await configs.set(scope, limits('a=5/day@Europe/Berlin'))
    const refused = {code: 'limits.zones', message: expect.stringContaining('"a" has Europe/Berlin, "b" has UTC')}
    await expect(configs.set(scope, limits('b=5/day@UTC'))).rejects.toMatchObject(refused)
    await expect(configs.preview(scope, limits('b=5/day@UTC'))).rejects.toMatchObject(refused)
    await configs.set(scope, limits('b=5/day@UTC'), {replace: true})
    expect((await configs.get(scope))?.limits).toEqual(limits('b=5/day@UTC'))
  })

  it.each([
    ['a=5@"99 9 * * *"', '"99" is not a valid minute'],
    ['a=5@"* * * * *"', 'always matches'],
    ['a=5/day@Europe/Berlim', 'did you mean "Europe/Berlin"?'],
    ['a=5,x2@"* 22-5 * * *"', '"22-5" is not a valid hour'],
  ])('are refused before anything is stored: %s', async (text, why) => {
    const refused = {code: 'limit.invalid', message: expect.stringContaining(why)}
    await expect(configs.set(scope, limits(text))).rejects.toMatchObject(refused)
  })

  it('prevent a configuration from being read when one comes from a newer client, but can be replaced', async () => {
    const record = {namespace: tenant.namespace, scope, limits: limits('a=5/day@UTC', 'b=1')}
    const newer = encodeConfig({...record, onUnavailable: undefined, auditRetentionDays: undefined})
    await put(tenant, {...newer, l_a_rsched: {S: '2m0h0'}})
    await expect(configs.get(scope)).rejects.toMatchObject({code: 'schedule.not-honoured'})
    await configs.set(scope, limits('b=2'))
    expect(await item()).toMatchObject({l_a_rsched: {S: '2m0h0'}, l_b_cp: {N: '2'}, sched_tz: {S: 'UTC'}})
    await configs.set(scope, limits('a=7/day@UTC'))
    expect((await configs.get(scope))?.limits).toEqual(limits('a=7/day@UTC', 'b=2'))
  })

  it('are limited to the number that a write can compare', async () => {
    const many = Array.from({length: 40}, (_, at) => `limit-${at}=1/day@UTC`)
    await expect(configs.set(scope, limits(...many))).rejects.toMatchObject({code: 'limit.too-many'})
    await configs.set(scope, limits(...many.slice(0, 35)))
    await configs.set(scope, limits('limit-1=2/day@UTC'))
  })

  describe('at the system level', () => {
    it('are deleted with their zone', async () => {
      const system: ConfigScope = {level: 'system'}
      await configs.set(system, limits('a=5/day@UTC'), {auditRetentionDays: 5})
      await configs.delete(system)
      const left = (await stored(tenant, configKey(tenant.namespace, system))) as Item
      expect(Object.keys(left)).not.toContain('sched_tz')
    })
  })
})
