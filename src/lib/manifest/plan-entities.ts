import {isDeepStrictEqual} from 'node:util'
import {ZaelError} from '../core/errors.js'
import type {EntityRecord} from '../schema/entity-record.js'
import {byText, type Manifest, type ManifestEntity, statesRecord} from './manifest.js'

/** What is kept in the record of an entity. `parent` is `null` for none. */
export type EntityFields = Omit<ManifestEntity, 'limits'>

/** An entity to create, or fields of it to change. */
export interface EntityRecordChange {
  readonly kind: 'entity'
  readonly action: 'create' | 'update'
  readonly entity: string
  /** The fields that change, as they are; empty for a new entity. */
  readonly before: EntityFields
  /** The same fields, as they shall be. */
  readonly after: EntityFields
  /** How many of its ancestors the file states: parents come before their children. */
  readonly depth: number
}

/** The changes of entity records, parents first, and how many are as stated. */
export function planEntities(
  {entities}: Manifest,
  live: ReadonlyMap<string, EntityRecord>,
): {changes: EntityRecordChange[]; unchanged: number} {
  const wanted = new Map([...entities].filter(([, entity]) => statesRecord(entity)))
  for (const {parent} of entities.values()) {
    // A parent that the file gives only limits must exist too.
    const its = typeof parent === 'string' && !wanted.has(parent) ? entities.get(parent) : undefined
    if (its && !live.has(parent as string)) wanted.set(parent as string, its)
  }
  const depths = depthsIn(entities)
  const changes: EntityRecordChange[] = []
  const missing: string[] = []
  for (const [entity, {limits: _, ...stated}] of wanted) {
    const record = live.get(entity)
    const before = record ? differing(record, stated) : {}
    const after = record ? pick(stated, Object.keys(before)) : stated
    if (record && Object.keys(after).length === 0) continue
    const {parent} = after
    if (typeof parent === 'string' && !live.has(parent) && !wanted.has(parent)) missing.push(`${entity} (${parent})`)
    const action = record ? 'update' : 'create'
    changes.push({kind: 'entity', action, entity, before, after, depth: depths.get(entity) ?? 0})
  }
  if (missing.length > 0) throw parentsMissing(missing)
  changes.sort((a, b) => a.depth - b.depth || byText(a.entity, b.entity))
  return {changes, unchanged: wanted.size - changes.length}
}

/** The stated fields in which a record is different, as the record has them. */
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

/** The parser sees to it that parents form no circle; in one that was made by hand the depths mean nothing. */
function depthsIn(entities: Manifest['entities']): Map<string, number> {
  const depths = new Map<string, number>()
  for (const start of entities.keys()) {
    const way: string[] = []
    let next: string | null | undefined = start
    while (typeof next === 'string' && entities.has(next) && !depths.has(next) && way.length <= entities.size) {
      way.push(next)
      next = entities.get(next)?.parent
    }
    let depth = typeof next === 'string' ? (depths.get(next) ?? -1) : -1
    for (const entity of way.reverse()) depths.set(entity, ++depth)
  }
  return depths
}

function parentsMissing(missing: readonly string[]): ZaelError {
  const said = 'These entities would get a parent (in brackets) that neither exists nor is in the manifest'
  return new ZaelError('notFound', 'manifest.parent-missing', `${said}: ${[...missing].sort(byText).join(', ')}.`, {
    hint: 'Add the parents to the entities of the manifest, or create them with `zael entity create`.',
    details: {missing},
  })
}
