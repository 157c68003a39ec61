import {beforeEach, expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import type {Transport} from '../../../src/lib/dynamo/transport.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {bool, type Item, n, s} from '../../../src/lib/schema/attribute-value.js'
import {type ConfigScope, configKey, encodeConfig} from '../../../src/lib/schema/config-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {exportForm} from '../../manifest/support.js'
import {newAudit, newTenant, put, stored, type TestTenant} from '../namespace-table.js'

const SCOPE = {level: 'resource', resource: 'gpt-4'} as const
const ENTITY = {level: 'entity', entity: 'e1', resource: 'gpt-4'} as const
const SESSION: Item = {w_s_cp: n(10), w_s_ra: n(0), w_s_rp: n(3600), w_s_rsa: n(3600)}
const SCHEDULE: Item = {l_rpm_sched: s('1|* 9-16 * * *;x0.5'), sched_tz: s('Europe/Berlin')}

describeOnBoth('a configuration of zae-limiter 0.11 to 0.17', {}, table => {
  let tenant: TestTenant
  let configs: Configs

  beforeEach(() => {
    tenant = newTenant(table)
    configs = new Configs(tenant, {audit: newAudit(tenant)})
  })

  const item = (scope: ConfigScope = SCOPE) => stored(tenant, configKey(tenant.namespace, scope))

  async function store(add: Item, scope: ConfigScope = SCOPE, ...limits: string[]): Promise<void> {
    const settings = {onUnavailable: undefined, auditRetentionDays: undefined}
    const record = {namespace: tenant.namespace, scope, limits: parseLimits(limits), ...settings}
    await put(tenant, {...encodeConfig(record), ...add})
  }

  /** Another client writes just before the first change is sent. */
  function configsWithIntruder(intrude: () => Promise<void>): Configs {
    let isFirst = true
    const transport: Transport = {
      send: async (operation, input, options) => {
        if (operation === 'TransactWriteItems' && isFirst) {
          isFirst = false
          await intrude()
        }
        return table.transport.send(operation, input, options)
      },
    }
    return new Configs({...tenant, transport}, {audit: newAudit(tenant)})
  }

  it('G4 never has a name under both prefixes: a session quota that is set to a rate is gone', async () => {
    await store(SESSION, SCOPE, 'rpm=100/min')
    await configs.set(SCOPE, parseLimits(['s=5/min']))
    const after = (await item()) as Item
    expect(Object.keys(after).filter(name => name.startsWith('w_'))).toEqual([])
    expect(after).toMatchObject({l_s_cp: n(5), l_rpm_cp: n(100)})
  })

  it('loses in-flight limits, which such a client does not copy, and zael reads the limits that are left', async () => {
    await configs.set(SCOPE, parseLimits(['parallel=20/inflight', 'rpm=100/min']))
    const {if_parallel: slots, ...copied} = (await item()) as Item
    expect(slots).toEqual(n(20))
    await put(tenant, copied)
    expect((await configs.get(SCOPE))?.limits).toEqual(parseLimits(['rpm=100/min']))
  })

  it('keeps the limits of such a client byte for byte beside an in-flight limit', async () => {
    await store(SESSION, SCOPE, 'rpm=100/min')
    const before = (await item()) as Item
    await configs.set(SCOPE, parseLimits(['parallel=20/inflight']))
    const {rev: _, ...after} = (await item()) as Item
    expect(after).toEqual({...before, if_parallel: n(20)})
  })

  it('keeps session quotas, schedules and unknown attributes when another limit is set or removed', async () => {
    const add = {...SESSION, ...SCHEDULE, disabled: bool(false), cascade: bool(true), something: s('new')}
    await store(add, SCOPE, 'rpm=100/min', 'tpm=1k/min')
    await configs.set(SCOPE, parseLimits(['tpd=1M/day']))
    await configs.unset(SCOPE, 'tpm')
    expect(await item()).toMatchObject({...add, l_tpd_cp: n(1_000_000), l_rpm_cp: n(100)})
    expect(await item()).not.toHaveProperty('l_tpm_cp')
  })

  it('G11 loses the schedule of a limit that is set, and with the last one the time zone', async () => {
    await store(SCHEDULE, SCOPE, 'rpm=100/min')
    await configs.set(SCOPE, parseLimits(['rpm=200/min']))
    expect(Object.keys((await item()) as Item).filter(name => /sched/.test(name))).toEqual([])
  })

  it.each([SCOPE, ENTITY])(
    'is deleted, and not registered any more, when it holds nothing but a switch that is removed ($level)',
    async scope => {
      const listed = async () => [
        ...(await configs.resources()),
        ...(await configs.entities('gpt-4')).records,
        ...(await configs.resourcesOfEntities()),
      ]
      await configs.setAccess(scope, 'disabled')
      expect(await listed()).not.toEqual([])
      expect((await configs.setAccess(scope, undefined)).record).toBeUndefined()
      expect(await item(scope)).toBeUndefined()
      expect(await listed()).toEqual([])
    },
  )

  it('stays when a switch is removed from limits, from limits that cannot be read, and from a cascade policy', async () => {
    for (const add of [SESSION, {l_x_sched: s('9|?')}, {cascade: bool(false)}]) {
      await store({...add, disabled: bool(true)})
      await configs.setAccess(SCOPE, undefined)
      expect(await item()).toMatchObject(add)
      expect(await item()).not.toHaveProperty('disabled')
    }
  })

  it.each([SCOPE, ENTITY])('G3 stays with its switch when its last limit is removed ($level)', async scope => {
    for (const remove of [() => configs.unset(scope, 'rpm'), () => configs.delete(scope)]) {
      await store({disabled: bool(true)}, scope, 'rpm=100/min')
      expect((await remove()).record).toMatchObject({limits: [], access: 'disabled'})
      expect((await item(scope))?.disabled).toEqual(bool(true))
    }
  })

  it('G3 is not deleted over a switch that was set after it was read', async () => {
    await store({}, SCOPE, 'rpm=100/min')
    await configsWithIntruder(() => store({disabled: bool(true)}, SCOPE, 'rpm=100/min')).delete(SCOPE)
    expect((await item())?.disabled).toEqual(bool(true))
  })

  it('G3 keeps its switch when limits change', async () => {
    await store({disabled: bool(true)}, SCOPE, 'rpm=100/min')
    const intruded = configsWithIntruder(() => store({disabled: bool(false)}, SCOPE, 'rpm=100/min'))
    await intruded.set(SCOPE, parseLimits(['tpm=1/min']))
    expect((await item())?.disabled).toEqual(bool(false))
  })

  it('G11 is exported with its session quota', async () => {
    await store(SESSION, SCOPE, 'rpm=100/min')
    const form = await exportForm(new NamespaceRepository(tenant, undefined), 'default')
    expect(JSON.stringify(form)).toContain('"s":"10/hour!"')
  })

  it('G12 gets no period and no amount that zae-limiter cannot read', async () => {
    const limit = {name: 'rpm', capacity: 1, refillAmount: 1, refillPeriodSeconds: 1_000_000_000}
    await configs.set(SCOPE, [limit])
    const outside = [{refillPeriodSeconds: 1_000_000_001}, {capacity: 1e15 + 1}, {refillAmount: 1e15 + 1}]
    for (const part of outside)
      await expect(configs.set(SCOPE, [{...limit, ...part}])).rejects.toMatchObject({code: 'limit.number'})
  })
})
