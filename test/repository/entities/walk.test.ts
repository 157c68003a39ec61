import {beforeAll, expect, it} from 'vitest'
import {Entities} from '../../../src/lib/repository/entities/entities.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {entityConfigItem, entityItem, putAll, usageItem} from '../namespace-items.js'
import {newAudit, newTenant} from '../namespace-table.js'

const idOf = (at: number) => `e${String(at).padStart(4, '0')}`

describeOnBoth('listing many entities', {}, table => {
  const tenant = newTenant(table)
  const entities = new Entities(tenant, {audit: newAudit(tenant)})
  const ids = Array.from({length: 600}, (_, at) => idOf(at))

  beforeAll(async () => {
    const {namespace} = tenant
    await putAll(tenant, [
      ...ids.map(id => entityItem(namespace, id)),
      ...ids.map(id => entityConfigItem(namespace, id, 'r')),
    ])
  })

  const counted = async (work: () => Promise<unknown>) => {
    const before = table.capacity.snapshot()
    await work()
    return table.capacity.since(before)
  }

  it('reads about fifty records for a page of fifty, whatever follows', async () => {
    const {calls, read} = await counted(() => entities.list({limit: 50}))
    expect(calls).toBe(2)
    // 51 records at half a unit, and some rows of the index.
    expect(read).toBeLessThan(30)
  })

  it('reads every record once in a walk, a hundred per request, and half a unit for each', async () => {
    const seen: string[] = []
    const {calls, read} = await counted(async () => {
      for await (const {entity} of entities.walk()) seen.push(entity)
    })
    expect(seen).toEqual(ids)
    expect(calls).toBeLessThanOrEqual(9)
    expect(read).toBeLessThan(600 * 0.5 + 30)
  })

  it('stops reading when the walk is left', async () => {
    const {calls} = await counted(async () => {
      for await (const _ of entities.walk()) break
    })
    expect(calls).toBeLessThanOrEqual(5)
  })
})

describeOnBoth('entities with much usage', {}, table => {
  const tenant = newTenant(table)
  const entities = new Entities(tenant, {audit: newAudit(tenant)})
  const HOURS = 90

  beforeAll(async () => {
    const {namespace} = tenant
    const ids = Array.from({length: 12}, (_, at) => idOf(at))
    const hours = Array.from({length: HOURS}, (_, hour) => hour)
    await putAll(tenant, [
      ...ids.filter((_, at) => at % 4 !== 3).map(id => entityItem(namespace, id)),
      // Every fourth has no record, every third no usage.
      ...ids.filter((_, at) => at % 3 !== 2).flatMap(id => hours.map(hour => usageItem(namespace, id, 'r', hour))),
    ])
  })

  it('returns every entity that has a record', async () => {
    const seen: string[] = []
    for await (const {entity} of entities.walk()) seen.push(entity)
    expect(seen).toEqual([0, 1, 2, 4, 5, 6, 8, 9, 10].map(idOf))
  })

  it('finds a record behind many others of the same entity', async () => {
    const own = newTenant(table)
    const resources = Array.from({length: 40}, (_, at) => `r${at}`)
    // Configurations come before the record in the index of this engine; elsewhere there is no order.
    await putAll(own, [
      ...['a', 'b'].map(id => entityItem(own.namespace, id)),
      ...['a', 'b'].flatMap(id => resources.map(resource => entityConfigItem(own.namespace, id, resource))),
    ])
    const {records} = await new Entities(own, {audit: newAudit(own)}).list({limit: 5})
    expect(records.map(({entity}) => entity)).toEqual(['a', 'b'])
  })

  it('continues a page behind entities without a record', async () => {
    const own = newTenant(table)
    await putAll(own, [
      ...['a', 'b', 'c'].map(id => entityConfigItem(own.namespace, id, 'r')),
      ...['d', 'e'].map(id => entityItem(own.namespace, id)),
    ])
    const family = new Entities(own, {audit: newAudit(own)})
    const {records, next} = await family.list({limit: 1})
    expect(records.map(({entity}) => entity)).toEqual(['d'])
    expect((await family.list({limit: 1, cursor: next})).records.map(({entity}) => entity)).toEqual(['e'])
  })

  it('skips the usage in a page', async () => {
    const before = table.capacity.snapshot()
    const {records, next} = await entities.list({limit: 8})
    expect(records.map(({entity}) => entity)).toEqual([0, 1, 2, 4, 5, 6, 8, 9].map(idOf))
    expect(next).toBeTypeOf('string')
    // Half a unit for each record and for the first rows of each entity; with all rows in between it would be 15.
    expect(table.capacity.since(before).read).toBeLessThan(12)
  })
})
