import {expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {Denied} from '../../../src/lib/dynamo/errors.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {requireReaders} from '../../../src/lib/repository/table/version.js'
import {AGGREGATOR_MARK} from '../../../src/lib/repository/table/version-compatibility.js'
import {s} from '../../../src/lib/schema/attribute-value.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {encodeVersion} from '../../../src/lib/schema/version-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, put, stored, type TestTenant} from '../namespace-table.js'

describeOnBoth('the release that Python clients need', {}, table => {
  async function tenantOf(lambdaVersion: string | undefined, clientMinVersion = '0.0.0'): Promise<TestTenant> {
    const tenant = newTenant(table)
    const record = {schemaVersion: '0.9.0', lambdaVersion, clientMinVersion, updatedAt: '', updatedBy: 'zael:0.1.0'}
    await put(tenant, encodeVersion(record))
    tenant.transport.calls.length = 0
    return tenant
  }

  const least = async (tenant: TestTenant) => (await stored(tenant, keys.version()))?.client_min_version

  it('rises with the limits that are set, as in zae-limiter, and never falls', async () => {
    const tenant = await tenantOf(AGGREGATOR_MARK)
    const limits = new NamespaceRepository(tenant, undefined)
    const set = (...texts: string[]) => limits.setLimits({level: 'resource', resource: 'gpt'}, parseLimits(texts))
    await set('rpm=10/min', 'rpd=10/day@UTC')
    expect(await least(tenant)).toEqual(s('0.0.0'))
    await set('session=10/5h!')
    expect(await least(tenant)).toEqual(s('0.15.0'))
    await set('tpm=10/min,soft', 'session=20/5h!')
    expect(await least(tenant)).toEqual(s('0.17.0'))
    await set('session=30/5h!')
    expect(await least(tenant)).toEqual(s('0.17.0'))
  })

  it('rises with the first cascade policy, and not when one is cleared', async () => {
    const tenant = await tenantOf(AGGREGATOR_MARK)
    const {configs} = new NamespaceRepository(tenant, undefined)
    const scope = {level: 'resource', resource: 'gpt-4'} as const
    await configs.setCascade(scope, undefined)
    expect(await least(tenant)).toEqual(s('0.0.0'))
    await configs.setCascade(scope, false)
    expect(await least(tenant)).toEqual(s('0.16.0'))
  })

  it('is read once, and written only when it rises', async () => {
    const tenant = await tenantOf(undefined)
    await requireReaders(tenant, [])
    expect(tenant.transport.calls).toEqual([])
    await requireReaders(tenant, ['session-quota', 'cascade-policy'])
    expect(tenant.transport.calls).toEqual(['GetItem', 'UpdateItem'])
    await requireReaders(tenant, ['cascade-policy'])
    expect(tenant.transport.calls).toEqual(['GetItem', 'UpdateItem', 'GetItem'])
    expect(await least(tenant)).toEqual(s('0.16.0'))
  })

  it('is not lowered by a client that read it before it rose', async () => {
    const tenant = await tenantOf(AGGREGATOR_MARK)
    let isFirst = true
    tenant.transport.before = async operation => {
      if (operation !== 'UpdateItem' || !isFirst) return
      isFirst = false
      await requireReaders(tenant, ['bypass'])
    }
    await requireReaders(tenant, ['session-quota'])
    expect(await least(tenant)).toEqual(s('0.17.0'))
  })

  it('does not change with permissions for one namespace only', async () => {
    const tenant = await tenantOf(AGGREGATOR_MARK)
    tenant.transport.before = operation => {
      if (operation === 'UpdateItem') throw new Denied(operation)
    }
    await requireReaders(tenant, ['soft'])
    expect(await least(tenant)).toEqual(s('0.0.0'))
  })

  it('refuses limits for which the aggregator is known to be too old, and stores nothing', async () => {
    const tenant = await tenantOf('0.14.2')
    const limits = new NamespaceRepository(tenant, undefined)
    const setting = limits.setLimits({level: 'system'}, parseLimits(['session=10/5h!']))
    await expect(setting).rejects.toMatchObject({
      ...{code: 'aggregator.too-old', kind: 'conflict', details: {lambdaVersion: '0.14.2', needed: '0.15.0'}},
      message: expect.stringContaining('zae-limiter 0.14.2. A record that has a session quota needs'),
    })
    expect(await limits.configs.get({level: 'system'})).toBeUndefined()
    expect(await least(tenant)).toEqual(s('0.0.0'))
    await limits.setLimits({level: 'system'}, parseLimits(['rpm=10/min']))
  })
})
