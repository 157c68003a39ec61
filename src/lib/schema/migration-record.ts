import {REGISTRY_NAMESPACE} from '../core/names.js'
import {type Item, type Json, type Key, n, s, texts, toJson} from './attribute-value.js'
import {attributes} from './attributes.js'
import {indexKeys, keys, wireKey} from './keys.js'

export interface StepCounts {
  /** Old items that were read. */
  readonly checked: number
  readonly written: number
  /** Expired old items; they are not copied. */
  readonly expired: number
  readonly conflicts: number
}

/** Progress of a migration, and its current runner. One per table. */
export interface MigrationRecord {
  readonly runId: string
  /** The runner, for display. */
  readonly owner: string
  /** Epoch ms; afterwards another runner may continue. 0 when no runner is active. */
  readonly leaseUntilMs: number
  /** The current step, or the next one. */
  readonly step: string
  /** Where the scan of that step continues: the key of the last item of the last finished page. */
  readonly position: Key | undefined
  /** How many times that step has scanned the whole table. */
  readonly pass: number
  /** Records that the current pass found outdated; charges to old buckets alone are not counted. */
  readonly passWrites: number
  readonly counts: Readonly<Record<string, StepCounts>>
  readonly startedAt: string
  readonly finishedAt: string | undefined
  readonly earlierFinishedAt: string | undefined
  readonly failure: string | undefined
  /** When a comparison of old and new items found no difference, just before the old ones were deleted. */
  readonly verifiedAt: string | undefined
}

export const migrationRecordKey: Key = keys.migration()

const names = attributes.migration

export function encodeMigration(record: MigrationRecord): Item {
  const item: Item = {
    ...wireKey(migrationRecordKey),
    [names.runId]: s(record.runId),
    [names.owner]: s(record.owner),
    [names.leaseUntil]: n(record.leaseUntilMs),
    [names.step]: s(record.step),
    [names.pass]: n(record.pass),
    [names.passWrites]: n(record.passWrites),
    [names.counts]: s(JSON.stringify(record.counts)),
    [names.startedAt]: s(record.startedAt),
    ...texts(indexKeys.inNamespace(REGISTRY_NAMESPACE, migrationRecordKey.PK)),
  }
  if (record.position) item[names.position] = s(JSON.stringify([record.position.PK, record.position.SK]))
  if (record.finishedAt !== undefined) item[names.finishedAt] = s(record.finishedAt)
  if (record.earlierFinishedAt !== undefined) item[names.earlierFinishedAt] = s(record.earlierFinishedAt)
  if (record.failure !== undefined) item[names.failure] = s(record.failure)
  if (record.verifiedAt !== undefined) item[names.verifiedAt] = s(record.verifiedAt)
  return item
}

const ATTRIBUTE_OF: Readonly<Record<keyof MigrationRecord, string>> = {
  runId: names.runId,
  owner: names.owner,
  leaseUntilMs: names.leaseUntil,
  step: names.step,
  position: names.position,
  pass: names.pass,
  passWrites: names.passWrites,
  counts: names.counts,
  startedAt: names.startedAt,
  finishedAt: names.finishedAt,
  earlierFinishedAt: names.earlierFinishedAt,
  failure: names.failure,
  verifiedAt: names.verifiedAt,
}

/** The stored fields, unchecked; `position` and `counts` are JSON texts. */
export function migrationFields(item: Item): Partial<Record<keyof MigrationRecord, Json>> {
  const fields = Object.entries(ATTRIBUTE_OF).flatMap(([field, attribute]) => {
    const value = item[attribute]
    return value ? [[field, toJson(value)]] : []
  })
  return Object.fromEntries(fields)
}

/** Steps of a first run during which limits are still missing in the new place. */
export const STEPS_BEFORE_LIMITS: readonly string[] = ['indexes', 'namespaces', 'configuration', 'limits']

/**
 * Where a migration is, as clients have to know it. `copying-limits`: a configuration that is absent may only not be copied
 * yet. `open`: all limits are copied, and later changes of old clients are carried over.
 */
export type MigrationStage = 'copying-limits' | 'open' | 'finished'

export function migrationStage(item: Item): MigrationStage {
  const {step, finishedAt, earlierFinishedAt} = migrationFields(item)
  if (finishedAt !== undefined) return 'finished'
  if (earlierFinishedAt !== undefined) return 'open'
  return STEPS_BEFORE_LIMITS.some(each => each === step) ? 'copying-limits' : 'open'
}

export const scanPosition = ([PK, SK]: readonly [string, string]): Key => ({PK, SK})

/** Attributes that conditional writes of this record compare. */
export const MIGRATION_RUN_ID = 'run_id'
export const MIGRATION_LEASE_UNTIL = 'lease_until'
