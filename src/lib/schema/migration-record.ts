import {REGISTRY_NAMESPACE} from '../core/names.js'
import {type Item, type Key, n, s, texts} from './attribute-value.js'
import {attributes} from './attributes.js'
import {type Json, toJson} from './json-attribute.js'
import {indexKeys, keys, wireKey} from './keys.js'

export interface StepCounts {
  readonly checked: number
  readonly written: number
  readonly expired: number
  readonly conflicts: number
}

export interface MigrationRecord {
  readonly runId: string
  readonly owner: string
  /** Epoch ms; afterwards another runner may continue. 0 when no runner is active. */
  readonly leaseUntilMs: number
  readonly step: string
  /** The key of the last item of the last finished page. */
  readonly position: Key | undefined
  readonly pass: number
  /** Records that this pass found outdated, without charges to old buckets. */
  readonly passWrites: number
  readonly counts: Readonly<Record<string, StepCounts>>
  readonly startedAt: string
  readonly finishedAt: string | undefined
  readonly earlierFinishedAt: string | undefined
  readonly failure: string | undefined
  /** When old and new items compared equal, just before the old ones were deleted. */
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

/** Unchecked; `position` and `counts` are JSON texts. */
export function migrationFields(item: Item): Partial<Record<keyof MigrationRecord, Json>> {
  const fields = Object.entries(ATTRIBUTE_OF).flatMap(([field, attribute]) => {
    const value = item[attribute]
    return value ? [[field, toJson(value)]] : []
  })
  return Object.fromEntries(fields)
}

/** In a first run, limits are still missing in the new layout during these steps. */
export const STEPS_BEFORE_LIMITS: readonly string[] = ['indexes', 'namespaces', 'configuration', 'limits']

/** `copying-limits`: a missing configuration may still be copied. `open`: changes by old clients are copied too. */
export type MigrationStage = 'copying-limits' | 'open' | 'finished'

export function migrationStage(item: Item): MigrationStage {
  const {step, finishedAt, earlierFinishedAt} = migrationFields(item)
  if (finishedAt !== undefined) return 'finished'
  if (earlierFinishedAt !== undefined) return 'open'
  return STEPS_BEFORE_LIMITS.some(each => each === step) ? 'copying-limits' : 'open'
}

export const scanPosition = ([PK, SK]: readonly [string, string]): Key => ({PK, SK})
