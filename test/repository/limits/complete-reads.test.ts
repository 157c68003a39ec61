import {beforeEach, expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {Throttled} from '../../../src/lib/dynamo/errors.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant, type TestTenant} from '../namespace-table.js'

/**
 * The reference takes keys that a throttled BatchGetItem left unprocessed for "no config" and believes that for a
 * minute: looser limits, or none.
 */
describeOnBoth('D-38: an incomplete config read is not used', {}, table => {
  let tenant: TestTenant
  let configs: Configs
  let isThrottled: boolean

  beforeEach(async () => {
    tenant = newTenant(table, {attempts: 2})
    configs = new Configs(tenant, {audit: newAudit(tenant)})
    await configs.set({level: 'system'}, [parseLimit('rpm=1000/min')])
    await configs.set({level: 'entity', entity: 'user-1', resource: 'gpt-4'}, [parseLimit('rpm=1/min')])
    isThrottled = true
    tenant.transport.after = (operation, output, input) => {
      if (operation !== 'BatchGetItem' || !isThrottled) return
      const {RequestItems} = input as {RequestItems: Record<string, {Keys: {PK: {S: string}}[]}>}
      const {Responses} = output as {Responses: Record<string, {PK: {S: string}}[]>}
      const isHeldBack = (key: {PK: {S: string}}) => key.PK.S.includes('ENTITY#')
      const answered = (Responses[tenant.name] ?? []).filter(item => !isHeldBack(item))
      const Keys = (RequestItems[tenant.name]?.Keys ?? []).filter(isHeldBack)
      Object.assign(output as object, {
        Responses: {[tenant.name]: answered},
        UnprocessedKeys: Keys.length > 0 ? {[tenant.name]: {Keys}} : {},
      })
    }
  })

  it('fails while the keys stay unprocessed, and resolves correctly once they are processed', async () => {
    await expect(configs.resolve({entity: 'user-1', resource: 'gpt-4'})).rejects.toBeInstanceOf(Throttled)
    isThrottled = false
    expect(await configs.resolve({entity: 'user-1', resource: 'gpt-4'})).toMatchObject({
      source: 'entity',
      limits: [{capacity: 1}],
    })
  })

  it('retries exactly the missing keys', async () => {
    const asked: number[] = []
    tenant.transport.before = (operation, input) => {
      if (operation !== 'BatchGetItem') return
      const {RequestItems} = input as {RequestItems: Record<string, {Keys: unknown[]}>}
      asked.push(RequestItems[tenant.name]?.Keys.length ?? 0)
      isThrottled = asked.length < 2
    }
    expect((await configs.resolve({entity: 'user-1', resource: 'gpt-4'})).source).toBe('entity')
    expect(asked).toEqual([4, 2])
  })
})
