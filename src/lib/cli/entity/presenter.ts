import {isDeepStrictEqual} from 'node:util'
import {formatPlural} from '../../core/text/text.js'
import type {SyncResult} from '../../repository/limits/bucket-sync.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import {factLines, updatedText} from '../output/facts.js'
import {type KindCounts, kindLines} from '../output/kind-counts.js'
import type {Listing, ListingColumn} from '../output/listing.js'
import {formatMetadata} from './metadata-flags.js'
import type {EntityJson} from './results.js'

export function entityJson({entity, name, parent, cascade, metadata, createdAt, version}: EntityRecord): EntityJson {
  return {id: entity, name, parent: parent ?? null, cascade, metadata, createdAt: createdAt || null, version}
}

const COLUMNS: readonly ListingColumn<EntityRecord>[] = [
  {name: 'id', value: ({entity}) => entity},
  {name: 'name', value: ({name}) => name},
  {name: 'parent', value: ({parent}) => parent},
  {name: 'cascade', value: ({cascade}) => (cascade ? 'yes' : 'no'), raw: ({cascade}) => cascade},
  {name: 'created', fit: 'spare', value: ({createdAt}) => createdAt},
  {name: 'metadata', value: ({metadata}) => formatMetadata(metadata), isExtra: true},
  {name: 'version', value: ({version}) => version, isExtra: true},
]

export function entityListing(rows: readonly EntityRecord[], empty: string): Listing<EntityRecord> {
  return {rows, columns: COLUMNS, empty}
}

export function entityCreatedLines(record: EntityRecord): string[] {
  return entityLines(`Created entity "${record.entity}"`, record)
}

export function entityLines(title: string, record: EntityRecord, parents = record.parent): string[] {
  return factLines(title, {
    name: record.name === record.entity ? undefined : record.name,
    parent: parents,
    cascade: record.parent === undefined ? undefined : cascadeWords(record.cascade),
    metadata: formatMetadata(record.metadata),
    created: record.createdAt || undefined,
  })
}

function cascadeWords(cascade: boolean): string {
  return cascade ? 'yes, every request is also charged to the parent' : 'no'
}

const CHANGEABLE = ['name', 'parent', 'cascade', 'metadata'] as const

export function changesOf(before: EntityRecord, after: EntityRecord): (typeof CHANGEABLE)[number][] {
  return CHANGEABLE.filter(key => !isDeepStrictEqual(before[key], after[key]))
}

export function entityUpdatedLines(before: EntityRecord, after: EntityRecord, buckets: SyncResult): string[] {
  const changes = changesOf(before, after)
  const stamped = buckets.updated + buckets.failed === 0 ? undefined : updatedText(buckets)
  if (changes.length === 0) {
    const title = `Entity "${after.entity}" already has these values; nothing was changed`
    return stamped === undefined ? [title] : factLines(title, {'live buckets': stamped})
  }
  const words = ({name, parent, cascade, metadata}: EntityRecord) => ({
    name,
    parent: parent ?? '(none)',
    cascade: cascade ? 'yes' : 'no',
    metadata: formatMetadata(metadata) ?? '(none)',
  })
  const was = words(before)
  const is = words(after)
  return factLines(`Changed entity "${after.entity}"`, {
    ...Object.fromEntries(changes.map(key => [key, `${was[key]} → ${is[key]}`])),
    'live buckets': stamped,
  })
}

export function entityDeletionPhrase(id: string, {total}: KindCounts): string {
  return `This permanently deletes ${formatPlural(total, 'item')} of entity "${id}"; its audit events are kept`
}

export function entityDeletionLines(id: string, counts: KindCounts, dryRun: boolean): string[] {
  const title = dryRun ? `Deleting entity "${id}" would permanently delete:` : `Deleted entity "${id}":`
  return [title, ...kindLines(counts), 'Its audit events are kept.']
}
