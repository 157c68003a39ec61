import {InvalidInput} from '../core/errors.js'
import {formatCount, formatPlural} from '../core/text/text.js'
import {fromJson, type Json} from '../schema/attribute-value.js'
import {type EntityRecord, encodeEntity} from '../schema/entity-record.js'
import {itemBytes, MAX_ITEM_BYTES} from '../schema/item-size.js'
import type {EntityRecordChange, EntitySource, LiveEntities} from './entity-change.js'

/** Kept free for keys, times and who made the change. */
const RESERVED_BYTES = 2048

const MOST_NAMED = 5

/** Throws when the record of an entity, or the audit event of its change, would not fit into an item. */
export function checkEntitySizes(
  changes: readonly EntityRecordChange[],
  live: LiveEntities,
  source: EntitySource,
): void {
  const tooLarge = changes.flatMap(change => {
    const record = live.get(change.entity)
    const bytes = bytesOf(change, record === 'same' ? undefined : record)
    return bytes > MAX_ITEM_BYTES ? [{entity: change.entity, bytes}] : []
  })
  if (tooLarge.length === 0) return
  const named = tooLarge.slice(0, MOST_NAMED).map(({entity, bytes}) => `${entity} (${formatCount(bytes)} bytes)`)
  const rest = tooLarge.length - named.length
  const which = `${named.join(', ')}${rest > 0 ? ` and ${formatCount(rest)} more` : ''}`
  throw new InvalidInput(
    `${source}.too-large`,
    `${formatPlural(tooLarge.length, 'entity', 'entities')} would not fit into the table, where a record and the audit event of ` +
      `its change may have ${formatCount(MAX_ITEM_BYTES)} bytes each: ${which}.`,
    {
      hint: 'Nothing was written. Keep less metadata, for example the address of what is large. An event has values from before and after.',
      details: {entities: tooLarge, most: MAX_ITEM_BYTES},
    },
  )
}

/** The larger of the record and of the event, which has all values that change from before and after. */
function bytesOf({entity, before, after}: EntityRecordChange, record: EntityRecord | undefined): number {
  const {
    name = entity,
    parent,
    cascade = false,
    metadata = {},
  } = {
    ...record,
    ...Object.fromEntries(Object.entries(after).filter(([, value]) => value !== undefined)),
  } as Partial<EntityRecord> & {parent?: string | null}
  const stored = {
    namespace: '',
    entity,
    createdAt: '',
    version: 1,
    name,
    cascade,
    metadata,
    parent: parent ?? undefined,
  }
  const event = itemBytes({details: fromJson({before, after} as unknown as Json)})
  return Math.max(itemBytes(encodeEntity(stored)), event) + RESERVED_BYTES
}
