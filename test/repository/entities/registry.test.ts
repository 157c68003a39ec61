import {expect, it} from 'vitest'
import {Entities} from '../../../src/lib/repository/entities/entities.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {decodeEntityConfigRegistry} from '../../../src/lib/schema/registry-records.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newAudit, newTenant, stored} from '../namespace-table.js'

const LIMITS = [{name: 'rpm', capacity: 10, refillAmount: 10, refillPeriodSeconds: 60}]

/** The limits of a deleted entity stayed in the counts, and resources were listed that no entity had limits for. */
describeOnBoth('D-47 a deleted entity leaves the counts of its limits', {}, table => {
  it('decrements counts, removes those that reach zero, and notifies caches', async () => {
    const tenant = newTenant(table)
    const audit = newAudit(tenant)
    const changed: string[] = []
    const entities = new Entities(tenant, {audit, onChanged: entity => changed.push(entity)})
    const configs = new Configs(tenant, {audit})
    for (const [entity, resource] of [
      ['a', 'shared'],
      ['b', 'shared'],
      ['a', 'own'],
      ['a', '_default_'],
    ] as const) {
      await configs.set({level: 'entity', entity, resource}, LIMITS)
    }
    await entities.delete('a')
    const registry = (await stored(tenant, keys.entityConfigRegistry(tenant.namespace))) as Item
    expect(decodeEntityConfigRegistry(registry)?.counts).toEqual(new Map([['shared', 1]]))
    expect(Object.keys(registry).sort()).toEqual(['GSI4PK', 'GSI4SK', 'PK', 'SK', 'shared'])
    expect(changed).toEqual(['a'])
  })
})
