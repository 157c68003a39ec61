import {expect, it} from 'vitest'
import {Repository} from '../../../src/lib/repository/repository.js'
import {getItem} from '../../../src/lib/repository/table/table.js'
import {n, s} from '../../../src/lib/schema/attribute-value.js'
import {decodeConfig} from '../../../src/lib/schema/config-record.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnEngine} from '../../helpers/table.js'
import {makePopulation} from '../../migrate/fixtures/make-population.js'
import {itemsOf, writeItems} from '../../migrate/fixtures/old-table.js'
import {useOldTable} from '../../migrate/old-table-scene.js'

describeOnEngine('D-30: a retention that was written under the literal id "default"', () => {
  const scene = useOldTable(5, population => itemsOf(5, population), makePopulation({entities: 3}))
  const repository = new Repository({stack: scene.name, transport: scene.own, clock: () => scene.nowMs})
  // Read as it is stored: before the migration the repository refuses the table.
  const system = async () => {
    const home = await repository.namespaces.resolve('default')
    const item = home && (await getItem(scene.table, keys.systemConfig(home.id)))
    return item && decodeConfig(item)
  }
  const stub = (days: number) => ({PK: s('default/SYSTEM#'), SK: s('#CONFIG'), audit_retention_days: n(days)})

  it('applies in the namespace of that name, beside the stored limits', async () => {
    const before = await system()
    expect(before?.auditRetentionDays).toBeUndefined()
    await scene.migrate()
    expect(await system()).toEqual({...before, auditRetentionDays: scene.population.auditRetentionDays})
    expect((await scene.verify()).clean).toBe(true)
  })

  it('does not override a later one', async () => {
    await (await repository.namespace('default')).configs.set({level: 'system'}, [], {auditRetentionDays: 5})
    await writeItems({name: scene.name, transport: scene.own}, [stub(99)])
    expect((await scene.migrate()).conflicts.count).toBe(0)
    expect((await system())?.auditRetentionDays).toBe(5)
  })
})
