import {expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/syntax/limit-text.js'
import {impactOf} from '../../src/lib/inspect/impact.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import type {ConfigScope} from '../../src/lib/schema/config-record.js'
import {encodeUsage} from '../../src/lib/schema/usage-record.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {newTenant, put, type TestTenant} from '../repository/namespace-table.js'

const range = {window: 'hourly', sinceMs: Date.UTC(2026, 10, 2), untilMs: Date.UTC(2026, 10, 3)} as const

describeOnEngine('the impact of a change', () => {
  const table = useTable()

  async function setUp() {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, 'ops')
    await own.configs.set({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=1000', 'tpm=1M']))
    await own.configs.set({level: 'entity', entity: 'own', resource: 'gpt-4'}, parseLimits(['rpm=9000']))
    await use(tenant, 'large', 'gpt-4', 5, {rpm: 9000})
    await use(tenant, 'small', 'gpt-4', 5, {rpm: 10})
    await use(tenant, 'own', 'gpt-4', 5, {rpm: 90_000})
    await use(tenant, 'large', 'search', 5, {rpm: 90_000})
    return {tenant, own}
  }

  const impact = async (own: NamespaceRepository, scope: ConfigScope, ...limits: string[]) => {
    const preview = await own.configs.preview(scope, parseLimits(limits))
    const {found, ...rest} = await impactOf(own, [preview], range)
    const rows = found.map(({entity, resource, limit, verdict}) => `${verdict} ${entity} ${resource} ${limit.name}`)
    return {...rest, found: rows}
  }

  it('concerns those to whom the limits would apply, and nobody else', async () => {
    const {own, tenant} = await setUp()
    const reads = tenant.transport.calls.length
    expect(await impact(own, {level: 'resource', resource: 'gpt-4'}, 'rpm=100')).toEqual({
      found: ['refused large gpt-4 rpm'],
      entities: 2,
      windows: 3,
      isComplete: true,
    })
    expect(tenant.transport.calls.slice(reads).some(operation => /Put|Update|Delete|Write/.test(operation))).toBe(false)
    expect(await impact(own, {level: 'entity', entity: 'own', resource: 'gpt-4'}, 'rpm=100')).toMatchObject({
      found: ['refused own gpt-4 rpm'],
      entities: 1,
    })
    // The default of an entity applies to its other resources.
    expect(await impact(own, {level: 'entity', entity: 'own', resource: '_default_'}, 'rpm=100')).toMatchObject({
      found: [],
      entities: 0,
    })
    expect(await impact(own, {level: 'entity', entity: 'large', resource: '_default_'}, 'rpm=100')).toMatchObject({
      found: ['refused large search rpm', 'refused large gpt-4 rpm'],
    })
    expect(await impact(own, {level: 'system'}, 'rpm=100')).toMatchObject({found: [], entities: 0})
  })

  it('leaves out limits that stay as they are', async () => {
    const {own, tenant} = await setUp()
    await use(tenant, 'large', 'gpt-4', 6, {rpm: 900_000, tpm: 900_000_000})
    expect(await impact(own, {level: 'resource', resource: 'gpt-4'}, 'tpm=500k')).toMatchObject({
      found: ['refused large gpt-4 tpm'],
      entities: 2,
    })
    const copied = {level: 'entity', entity: 'large', resource: 'gpt-4'} as const
    expect(await impact(own, copied, 'rpm=100')).toMatchObject({found: ['refused large gpt-4 rpm'], entities: 1})
  })

  it('of a limit that is raised is none', async () => {
    const {own} = await setUp()
    expect((await impact(own, {level: 'resource', resource: 'gpt-4'}, 'rpm=100k')).found).toEqual([])
  })
})

async function use(tenant: TestTenant, entity: string, resource: string, hour: number, tokens: Record<string, number>) {
  const start = `2026-11-02T${String(hour).padStart(2, '0')}:00:00Z`
  const counted = {tokens: new Map(Object.entries(tokens)), totalEvents: 1}
  const record = {namespace: tenant.namespace, entity, resource, window: 'hourly', start, ...counted} as const
  await put(tenant, encodeUsage({...record, ttlSeconds: undefined}))
}
