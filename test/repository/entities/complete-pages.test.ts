import {expect, it} from 'vitest'
import {Entities} from '../../../src/lib/repository/entities/entities.js'
import {s} from '../../../src/lib/schema/attribute-value.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {bucketItem, entityItem, putAll, scanNamespace, usageItem} from '../namespace-items.js'
import {newAudit, newSpace} from '../namespace-table.js'

// One page of an answer holds 1 MB at most.
const PADDING = s('x'.repeat(20_000))

/** One page was taken for the whole: children were missing from lists, and a deleted entity left records behind. */
describeOnEngine('D-38 more than one page of records', () => {
  const table = useTable()

  it('all children are found', async () => {
    const space = newSpace(table)
    const ids = Array.from({length: 70}, (_, i) => `c${String(i).padStart(2, '0')}`)
    await putAll(
      space,
      ids.map(id => ({...entityItem(space.namespace, id, 'p'), padding: PADDING})),
    )
    const entities = new Entities(space, {audit: newAudit(space)})
    space.transport.calls.length = 0
    expect((await entities.children('p')).map(({entity}) => entity)).toEqual(ids)
    expect(space.transport.count('Query')).toBeGreaterThan(1)
  })

  it('a deleted entity leaves nothing behind', async () => {
    const space = newSpace(table)
    const entities = new Entities(space, {audit: newAudit(space)})
    const usage = Array.from({length: 70}, (_, hour) => usageItem(space.namespace, 'e', 'r', hour))
    const buckets = Array.from({length: 40}, (_, shard) => bucketItem(space.namespace, 'e', 'r', shard, 40))
    await putAll(space, [
      entityItem(space.namespace, 'e'),
      ...[...usage, ...buckets].map(item => ({...item, padding: PADDING})),
    ])
    expect(await entities.delete('e')).toEqual({deleted: 111, byKind: {entity: 1, usage: 70, bucket: 40}})
    const left = await scanNamespace(space, space.namespace)
    expect(left.map(item => item.action)).toEqual([s('entity_deleted')])
  })
})
