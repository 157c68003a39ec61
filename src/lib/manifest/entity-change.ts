import type {EntityRecord} from '../schema/entity-record.js'
import type {ManifestEntity} from './manifest.js'

/** The fields of an entity's record. `parent` is `null` for none. */
export type EntityFields = Omit<ManifestEntity, 'scopes'>

export interface EntityRecordChange {
  readonly kind: 'entity'
  readonly action: 'create' | 'update'
  readonly entity: string
  /** Current values of the fields that change; empty for a new entity. */
  readonly before: EntityFields
  readonly after: EntityFields
  /** Number of ancestors in the file: parents come before their children. */
  readonly depth: number
}

export type EntitySource = 'manifest' | 'import'

/** The records of entities that exist. Those that are as stated, or are only parents, need not be kept. */
export type LiveEntities = ReadonlyMap<string, EntityRecord | 'same'>
