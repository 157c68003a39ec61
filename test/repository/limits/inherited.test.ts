import {beforeEach, expect, it} from 'vitest'
import {calendarCheck} from '../../../src/lib/core/calendar/schedule.js'
import {formatLimit, parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {s} from '../../../src/lib/schema/attribute-value.js'
import {type ConfigScope, configKey} from '../../../src/lib/schema/config-record.js'
import {wireKey} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant, type TestTenant} from '../namespace-table.js'

const system: ConfigScope = {level: 'system'}
const batch: ConfigScope = {level: 'resource', resource: 'batch'}
const own: ConfigScope = {level: 'entity', entity: 'cust-08', resource: 'batch'}
const everywhere: ConfigScope = {level: 'entity', entity: 'cust-08', resource: DEFAULT_RESOURCE}

const limits = (...texts: string[]) => parseLimits(texts, calendarCheck)

describeOnBoth('limits set in a scope without limits', {}, table => {
  let tenant: TestTenant
  let configs: Configs
  beforeEach(() => {
    tenant = newTenant(table)
    configs = new Configs(tenant, {audit: newAudit(tenant)})
  })

  const textsAt = async (scope: ConfigScope) => (await configs.get(scope))?.limits.map(formatLimit)

  it.each([
    ['the resource', [batch], batch],
    ["the entity's default before the resource", [system, batch, everywhere], everywhere],
    ['the system', [system], system],
  ])('copy the limits that apply there now: of %s', async (_, levels, from) => {
    for (const scope of levels.slice(0, -1)) await configs.set(scope, limits('other=1/min'), {replace: true})
    await configs.set(from, limits('rpm=100/min', 'tpd=200k/day'), {replace: true})
    const preview = await configs.preview(own, limits('tpd=400k/day'))
    const change = await configs.set(own, limits('tpd=400k/day'))
    expect(change).toMatchObject({before: [], copied: {scope: from, limits: limits('rpm=100/min')}})
    expect(preview).toEqual(change)
    expect(await textsAt(own)).toEqual(['rpm=100/min', 'tpd=400k/day'])
    expect(await textsAt(from)).toEqual(['rpm=100/min', 'tpd=200k/day'])
    const {records} = await newAudit(tenant).list({entity: 'cust-08'})
    const event = records.find(({resource}) => resource === 'batch')
    expect(event?.details).toMatchObject({limits: [{name: 'rpm'}, {name: 'tpd', capacity: 400_000}], before: []})
  })

  it('copy every property of a limit: quotas, sessions, schedules, softness, money', async () => {
    const kinds = ['rpd=10k/day@Europe/Berlin', 'session=200/5h!', 'spend=$5/day@Europe/Berlin', 'seen=10/min,soft']
    kinds.push('tpm=100/min,x0.5@"* 9-16 * * 1-5 Europe/Berlin"')
    await configs.set(batch, limits(...kinds))
    const stored = await textsAt(batch)
    await configs.set(own, limits('rpm=5/min'))
    expect(await textsAt(own)).toEqual([...(stored ?? []), 'rpm=5/min'].sort())
    expect((await configs.get(own))?.limits).toEqual(
      [...((await configs.get(batch))?.limits ?? []), ...limits('rpm=5/min')].sort((a, b) =>
        a.name < b.name ? -1 : 1,
      ),
    )
  })

  it('copy nothing with replace, when the scope has its own, or when no lower level has limits', async () => {
    await configs.set(system, limits('rpm=100/min'))
    expect(await configs.set(own, limits('tpd=1/day'), {replace: true})).not.toHaveProperty('copied')
    expect(await configs.set(own, limits('tpm=1/min'))).not.toHaveProperty('copied')
    expect(await textsAt(own)).toEqual(['tpd=1/day', 'tpm=1/min'])
    expect(await configs.set(batch, limits('rpm=7/min'))).not.toHaveProperty('copied')
    await configs.setAccess(everywhere as never, 'enabled')
    expect(await configs.set(everywhere, limits('tpm=1/min'))).toMatchObject({copied: {scope: system}})
    expect(await textsAt(everywhere)).toEqual(['rpm=100/min', 'tpm=1/min'])
  })

  it("copy the system's limits for an entity's default, because limits of resources differ", async () => {
    await configs.set(system, limits('rpm=100/min'))
    await configs.set(batch, limits('tpd=1/day'), {replace: true})
    expect(await configs.set(everywhere, limits('tpm=5/min'))).toMatchObject({copied: {scope: system}})
    expect(await textsAt(everywhere)).toEqual(['rpm=100/min', 'tpm=5/min'])
  })

  it.each([
    ['changes', batch, ['rpm=50/min'], ['rpm=50/min', 'tpd=400k/day']],
    ['is hidden by another level', everywhere, ['xpm=1/min'], ['tpd=400k/day', 'xpm=1/min']],
  ])('are decided again when the copied level %s in between', async (_, scope, texts, expected) => {
    await configs.set(batch, limits('rpm=100/min'))
    const unwatched = {...tenant, transport: table.transport}
    const other = new Configs(unwatched, {audit: newAudit(unwatched)})
    let isFirst = true
    tenant.transport.before = async operation => {
      if (operation !== 'TransactWriteItems' || !isFirst) return
      isFirst = false
      await other.set(scope, limits(...texts), {replace: true})
    }
    const change = await configs.set(own, limits('tpd=400k/day'))
    expect(isFirst).toBe(false)
    expect(change.after.map(formatLimit)).toEqual(expected)
    expect(await textsAt(own)).toEqual(expected)
  })

  it('are refused with the number when there would be more than a write can hold', async () => {
    await configs.set(batch, limits(...Array.from({length: 47}, (_, at) => `limit-${at}=1/min`)))
    for (const method of ['preview', 'set'] as const) {
      await expect(configs[method](own, limits('one-more=1/min'))).rejects.toMatchObject({
        code: 'limit.too-many',
        message: '48 limits are too many: the maximum is 47.',
        hint: expect.stringContaining('47 of them apply there now and would be copied from resource "batch"'),
        details: {limits: 48, most: 47, copied: 47},
      })
    }
    expect(await configs.get(own)).toBeUndefined()
    await configs.set(own, limits('limit-0=2/min'))
    expect((await configs.get(own))?.limits).toHaveLength(47)
  })

  it('are refused when the limits to copy have another time zone', async () => {
    await configs.set(batch, limits('rpd=10/day@Europe/Berlin'))
    await expect(configs.set(own, limits('xpd=10/day@Asia/Tokyo'))).rejects.toMatchObject({
      code: 'limits.zones',
      hint: expect.stringContaining('1 of them apply there now and would be copied from resource "batch"'),
    })
  })

  it('are refused when the limits to copy cannot be read completely', async () => {
    await configs.set(batch, limits('rpm=100/min'))
    const Key = wireKey(configKey(tenant.namespace, batch))
    const stamp = {UpdateExpression: 'SET l_rpm_sched = :x', ExpressionAttributeValues: {':x': s('not a schedule')}}
    await tenant.transport.send('UpdateItem', {TableName: tenant.name, Key, ...stamp})
    await expect(configs.set(own, limits('tpd=1/day'))).rejects.toThrow()
    expect(await configs.get(own)).toBeUndefined()
    await configs.set(own, limits('tpd=1/day'), {replace: true})
  })
})
