import {isDeepStrictEqual} from 'node:util'
import {InvalidInput, ZaelError} from '../core/errors.js'
import {groupBy} from '../core/group-by.js'
import {formatCount, formatPlural, formatSome} from '../core/text/text.js'
import {type EntityRecord, encodeEntity} from '../schema/entity-record.js'
import {itemBytes, MAX_ITEM_BYTES} from '../schema/item-size.js'
import {fromJson, type Json} from '../schema/json-attribute.js'
import {
  byText,
  type EntityFields,
  type EntityRecordChange,
  type EntitySource,
  type LiveEntities,
  type Manifest,
  type ManifestEntity,
  statesRecord,
} from './manifest.js'

export function liveEntity(record: EntityRecord, stated: ManifestEntity | undefined): EntityRecord | 'same' {
  const {scopes: _, ...fields} = stated ?? {scopes: undefined}
  return hasFields(record, fields) ? 'same' : record
}

/** Parents first. Throws when a parent is neither stated nor stored, or when a record exceeds the item size. */
export function planEntities(
  {entities}: Pick<Manifest, 'entities'>,
  live: LiveEntities,
  source: EntitySource,
): {changes: EntityRecordChange[]; unchanged: number} {
  // A parent with only stated limits must exist too.
  const needed = new Set<string>()
  for (const {parent} of entities.values()) if (typeof parent === 'string' && !live.has(parent)) needed.add(parent)
  const depths = new Map<string, number>()
  const changes: EntityRecordChange[] = []
  const missing: Orphan[] = []
  let count = 0
  for (const [entity, {scopes: _, ...fields}] of entities) {
    if (!statesRecord(fields) && !needed.has(entity)) continue
    count++
    const record = live.get(entity)
    if (record === 'same') continue
    const before = record ? differing(record, fields) : {}
    const after = record ? pick(fields, Object.keys(before)) : fields
    if (record && Object.keys(after).length === 0) continue
    const {parent} = after
    if (typeof parent === 'string' && !live.has(parent) && !entities.has(parent)) missing.push({entity, parent})
    const action = record ? 'update' : 'create'
    changes.push({kind: 'entity', action, entity, before, after, depth: depthOf(entity, entities, depths)})
  }
  if (missing.length > 0) throw parentsMissing(missing, source)
  checkEntitySizes(changes, live, source)
  changes.sort((a, b) => a.depth - b.depth || byText(a.entity, b.entity))
  return {changes, unchanged: count - changes.length}
}

export function hasFields(record: EntityRecord, fields: EntityFields): boolean {
  return Object.keys(differing(record, fields)).length === 0
}

/** Stored values of the stated fields that differ. */
function differing(record: EntityRecord, stated: EntityFields): EntityFields {
  const {name, parent = null, cascade, metadata} = record
  const stored = {name, parent, cascade, metadata}
  const names = (Object.keys(stated) as Array<keyof EntityFields>).filter(
    field => !isDeepStrictEqual(stored[field], stated[field]),
  )
  return pick(stored, names)
}

function pick(fields: EntityFields, names: readonly string[]): EntityFields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => names.includes(name)))
}

/** Number of stated ancestors; `depths` is a cache. Meaningless for cycles, which the parser rejects. */
function depthOf(start: string, entities: Manifest['entities'], depths: Map<string, number>): number {
  const path: string[] = []
  let next: string | null | undefined = start
  while (typeof next === 'string' && entities.has(next) && !depths.has(next) && path.length <= entities.size) {
    path.push(next)
    next = entities.get(next)?.parent
  }
  let depth = typeof next === 'string' ? (depths.get(next) ?? -1) : -1
  for (const entity of path.reverse()) depths.set(entity, ++depth)
  return depths.get(start) ?? 0
}

interface Orphan {
  readonly entity: string
  readonly parent: string
}

function parentsMissing(missing: readonly Orphan[], source: EntitySource): ZaelError {
  const isManifest = source === 'manifest'
  const byParent = groupBy(missing, ({parent}) => parent)
  const parents = [...byParent.keys()].sort(byText).map(parent => {
    const children = (byParent.get(parent) ?? []).map(({entity}) => entity).sort(byText)
    return `${parent} (of ${formatSome(children, MOST_NAMED)})`
  })
  const problem = `These parents neither exist nor are in the ${isManifest ? 'manifest' : 'file'}`
  const add = isManifest ? 'Add the parents to the entities of the manifest' : 'Add a line for each parent to the file'
  const message = `${problem}: ${formatSome(parents, MOST_PARENTS)}.`
  return new ZaelError('notFound', `${source}.parent-missing`, message, {
    hint: `${add}, or create them with \`zael entity create\`.`,
    details: {missing: missing.map(({entity, parent}) => `${entity} (${parent})`)},
  })
}

const MOST_PARENTS = 20

/** Room for keys, times and the principal. */
const RESERVED_BYTES = 2048

const MOST_NAMED = 5

function checkEntitySizes(changes: readonly EntityRecordChange[], live: LiveEntities, source: EntitySource): void {
  const tooLarge = changes.flatMap(change => {
    const record = live.get(change.entity)
    const bytes = bytesOf(change, record === 'same' ? undefined : record)
    return bytes > MAX_ITEM_BYTES ? [{entity: change.entity, bytes}] : []
  })
  if (tooLarge.length === 0) return
  const named = tooLarge.map(({entity, bytes}) => `${entity} (${formatCount(bytes)} bytes)`)
  throw new InvalidInput(
    `${source}.too-large`,
    `${formatPlural(tooLarge.length, 'entity is', 'entities are')} too large for the table: ${formatSome(named, MOST_NAMED)}. ` +
      `A record, and the audit event of its change, may have at most ${formatCount(MAX_ITEM_BYTES)} bytes each.`,
    {
      hint: 'Nothing was written. Store less metadata, such as links to large values. An audit event contains old and new values.',
      details: {entities: tooLarge, most: MAX_ITEM_BYTES},
    },
  )
}

/** The larger of the record and its audit event, which holds old and new values. */
function bytesOf({entity, before, after}: EntityRecordChange, record: EntityRecord | undefined): number {
  const stated = Object.entries(after).filter(([, value]) => value !== undefined)
  const byDefault = {namespace: '', entity, createdAt: '', version: 1, name: entity, cascade: false, metadata: {}}
  const stored = {...byDefault, parent: undefined, ...record, ...Object.fromEntries(stated)}
  const event = itemBytes({details: fromJson({before, after} as unknown as Json)})
  return Math.max(itemBytes(encodeEntity({...stored, parent: stored.parent ?? undefined})), event) + RESERVED_BYTES
}
