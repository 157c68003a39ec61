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

export function encodeMigration({position, counts, ...record}: MigrationRecord): Item {
  const fields: Readonly<Record<string, string | number | undefined>> = {
    ...record,
    position: position && JSON.stringify([position.PK, position.SK]),
    counts: JSON.stringify(counts),
  }
  const item: Item = {
    ...wireKey(migrationRecordKey),
    ...texts(indexKeys.inNamespace(REGISTRY_NAMESPACE, migrationRecordKey.PK)),
  }
  for (const [field, attribute] of Object.entries(ATTRIBUTE_OF)) {
    const value = fields[field]
    if (value !== undefined) item[attribute] = typeof value === 'number' ? n(value) : s(value)
  }
  return item
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
