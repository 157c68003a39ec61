import {keyId} from '../dynamo/batch.js'
import {keyOf, readAll} from '../repository/table/query.js'
import type {Item} from '../schema/attribute-value.js'
import {type Found, homeOf, type MigrationContext, oldPrefixes} from './records/finding.js'

/** Sort keys under which a kind of record lies that may be several old items. */
const SORT_KEYS = {entity: ['#META'], limits: ['#LIMIT#', '#CONFIG'], settings: ['#LIMIT#', '#CONFIG']} as const

/** An old item with the others that may belong to the same record: in the same place, and under other spellings of it. */
export async function companionsOf(stage: MigrationContext, {item, record}: Found): Promise<Item[]> {
  const items = new Map([[keyId(keyOf(item)), item]])
  const {type} = record
  if (type !== 'entity' && type !== 'limits' && type !== 'settings') return [item]
  const {PK} = keyOf(item)
  const bare = record.namespace === undefined ? PK : PK.slice(record.namespace.length + 1)
  const kind = type === 'entity' ? 'entity' : 'limits'
  for (const spelling of oldPrefixes(stage, kind, homeOf(stage, record))) {
    for (const prefix of SORT_KEYS[type]) {
      const stretch = {partition: `${spelling}${bare}`, prefix}
      for await (const each of readAll(stage.table, stretch, undefined, stage.signal))
        items.set(keyId(keyOf(each)), each)
    }
  }
  return [...items.values()]
}
