import {expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import type {ConfigScope} from '../../../src/lib/schema/config-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant} from '../namespace-table.js'

const system: ConfigScope = {level: 'system'}

describeOnBoth('a preview of a change', {}, table => {
  const open = () => {
    const tenant = newTenant(table)
    return {tenant, configs: new Configs(tenant, {audit: newAudit(tenant)})}
  }

  it.each([{}, {replace: true}, {onUnavailable: 'block' as const}])(
    'equals the result of the change: %j',
    async options => {
      const {configs, tenant} = open()
      const first = {onUnavailable: 'allow', auditRetentionDays: 30} as const
      await configs.set(system, parseLimits(['rpm=1/min', 'tpm=1/min']), first)
      const given = parseLimits(['rpm=2/min', 'tpd=5/day'])
      const written = () => tenant.transport.calls.filter(call => !/^(Get|BatchGet|Query)/.test(call)).length
      const before = written()
      const preview = await configs.preview(system, given, options)
      expect(written()).toBe(before)
      expect(preview.previous).toMatchObject(first)
      expect(preview.record).toMatchObject({onUnavailable: options.onUnavailable ?? 'allow', auditRetentionDays: 30})
      expect(preview.after.map(({name}) => name)).toEqual(options.replace ? ['rpm', 'tpd'] : ['rpm', 'tpd', 'tpm'])
      expect(await configs.set(system, given, options)).toEqual(preview)
      expect(await configs.get(system)).toEqual(preview.record)
    },
  )

  it('refuses everything that the change refuses', async () => {
    const {configs} = open()
    const resource: ConfigScope = {level: 'resource', resource: 'no spaces'}
    for (const method of ['preview', 'set'] as const) {
      await expect(configs[method](resource, parseLimits(['rpm=1']))).rejects.toMatchObject({code: 'name.invalid'})
      await expect(configs[method](system, [])).rejects.toMatchObject({code: 'limits.empty'})
      const twice = [...parseLimits(['rpm=1']), ...parseLimits(['rpm=2'])]
      await expect(configs[method](system, twice)).rejects.toMatchObject({code: 'limit.duplicate'})
    }
  })

  it('lists the existing limits when a limit is missing', async () => {
    const {configs} = open()
    await configs.set(system, parseLimits(['rpm=1', 'tpm=1']))
    await expect(configs.unset(system, 'rpx')).rejects.toMatchObject({code: 'limits.missing', hint: 'It has rpm, tpm.'})
  })
})
