import {expect, it} from 'vitest'
import {parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {ConfigCache} from '../../../src/lib/repository/limits/cache.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant} from '../namespace-table.js'

/** In the reference the config cache grows without bound, and one lock is held during fetches, so that hits wait too. */
describeOnBoth('D-40: the config cache', {}, table => {
  it('stays within its bound', async () => {
    const tenant = newTenant(table)
    const cache = new ConfigCache({clock: tenant.clock, maxEntries: 10})
    const configs = new Configs(tenant, {audit: newAudit(tenant), cache})
    await configs.set({level: 'system'}, [parseLimit('rpm=1/min')])
    for (let user = 0; user < 30; user++)
      expect((await configs.resolve({entity: `user-${user}`, resource: 'gpt-4'})).source).toBe('system')
    expect(cache.statistics.size).toBe(10)
    expect(cache.statistics.evictions).toBeGreaterThan(0)
  })

  it('returns cached records while a fetch hangs, and fetches once for all waiting callers', async () => {
    const tenant = newTenant(table)
    const configs = new Configs(tenant, {audit: newAudit(tenant)})
    await configs.set({level: 'system'}, [parseLimit('rpm=1/min')])
    await configs.resolve({entity: 'known', resource: 'gpt-4'})
    tenant.transport.calls.length = 0
    let release = () => {}
    const gate = new Promise<void>(resolve => {
      release = resolve
    })
    tenant.transport.before = () => gate
    const waiting = Array.from({length: 100}, () => configs.resolve({entity: 'unknown', resource: 'gpt-4'}))
    expect((await configs.resolve({entity: 'known', resource: 'gpt-4'})).source).toBe('system')
    release()
    await Promise.all(waiting)
    expect(tenant.transport.calls).toEqual(['BatchGetItem'])
  })
})
