import {expect, it} from 'vitest'
import {classifyPage} from '../../../src/lib/migrate/records/classified-page.js'
import {OldLocations} from '../../../src/lib/migrate/records/finding.js'
import {openMigrationContext} from '../../../src/lib/migrate/walk/lease.js'
import {compareAgain, compareGroup} from '../../../src/lib/migrate/walk/reconcile.js'
import {describeOnEngine} from '../../helpers/table.js'
import {oldBucketItem} from '../old-clients.js'
import {useOldTable} from '../old-table-scene.js'

describeOnEngine('a record that is compared again', () => {
  const scene = useOldTable(4, ({nowMs}) => [oldBucketItem('ENTITY#user-1', 100, nowMs - 1000, 'composite')])

  it('includes an item that an old client has added since in a layout which the run had not met', async () => {
    await scene.migrate({until: 'namespaces'})
    const locations = new OldLocations()
    const context = {...(await openMigrationContext(scene.table)), locations}
    const [page = []] = [...classifyPage(context, await scene.items()).old.values()]
    for (const {record} of page) locations.add(record, true)
    locations.markComplete()
    const [first] = await compareGroup(context, 'bucket', page)
    expect(first?.sources).toHaveLength(1)

    const added = oldBucketItem('ENTITY#user-1', 50, scene.nowMs, 'per limit')
    await scene.own.send('PutItem', {TableName: scene.name, Item: added})
    const again = await compareAgain(context, first as NonNullable<typeof first>)
    expect(again?.sources).toHaveLength(2)
  })
})
