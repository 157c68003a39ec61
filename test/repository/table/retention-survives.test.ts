import {expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {configKey} from '../../../src/lib/schema/config-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant, put, stored} from '../namespace-table.js'

/** In the reference every change of the system's limits puts the whole item anew, which erases `audit_retention_days`. */
describeOnBoth('D-30: audit retention survives changes of the system limits', {}, table => {
  it('through set, replace, unset and delete, with the attributes of other clients', async () => {
    const tenant = newTenant(table)
    const configs = new Configs(tenant, {audit: newAudit(tenant)})
    const system = {level: 'system'} as const
    const {PK, SK} = configKey(tenant.namespace, system)
    // As the deploy path of the reference writes it: nothing but the key and its own attribute.
    await put(tenant, {PK: {S: PK}, SK: {S: SK}, audit_retention_days: {N: '365'}, owner: {S: 'team-a'}})
    const steps = [
      () => configs.set(system, [parseLimit('rpm=100/min'), parseLimit('tpm=5/min')]),
      () => configs.set(system, [], {onUnavailable: 'allow'}),
      () => configs.set(system, [parseLimit('rpm=7/min')], {replace: true}),
      () => configs.unset(system, 'rpm'),
      () => configs.set(system, [parseLimit('rpm=7/min')]),
      () => configs.delete(system),
    ]
    for (const step of steps) {
      await step()
      expect(await stored(tenant, {PK, SK})).toMatchObject({audit_retention_days: {N: '365'}, owner: {S: 'team-a'}})
    }
    expect(await configs.get(system)).toMatchObject({limits: [], onUnavailable: undefined, auditRetentionDays: 365})
  })
})
