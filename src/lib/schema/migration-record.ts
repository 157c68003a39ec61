import {REGISTRY_NAMESPACE} from '../core/names.js'
import {type Item, type Key, n, s} from './attribute-value.js'
import {indexKeys, keys} from './keys.js'
import {readNumber, readString} from './read.js'

/** What one step of a migration has come to so far. */
export interface StepCounts {
  /** Old items looked at. */
  readonly checked: number
  /** New items written or brought up to date. */
  readonly written: number
  /** Old items that the table may drop by itself; they are not moved. */
  readonly expired: number
  readonly conflicts: number
}

/** How far a migration is, and who is at it. One per table. */
export interface MigrationRecord {
  readonly runId: string
  /** Who runs it, for people. */
  readonly owner: string
  /** Epoch ms; after it anybody may go on in the owner's place. 0 when nobody is at it. */
  readonly leaseUntilMs: number
  /** The step in work, or the next one. */
  readonly step: string
  /** Where the scan of that step goes on: the key of the last item of the last finished page. */
  readonly position: Key | undefined
  /** How often the whole table has been gone through in that step. */
  readonly pass: number
  /** Records that the pass in work found behind; charges to old buckets alone are not counted. */
  readonly passWrites: number
  readonly counts: Readonly<Record<string, StepCounts>>
  readonly startedAt: string
  readonly finishedAt: string | undefined
  /** When a run before this one had copied everything. */
  readonly earlierFinishedAt: string | undefined
  /** Why the last runner stopped, when it failed. */
  readonly failure: string | undefined
  /** When a comparison of old and new found no difference, just before old items were deleted. */
  readonly verifiedAt: string | undefined
}

/** Beside the version record. */
export const migrationRecordKey: Key = {PK: keys.version().PK, SK: '#MIGRATION'}

export function encodeMigration(record: MigrationRecord): Item {
  const {PK, SK} = migrationRecordKey
  const {GSI4PK, GSI4SK} = indexKeys.inNamespace(REGISTRY_NAMESPACE, PK)
  const item: Item = {
    PK: s(PK),
    SK: s(SK),
    run_id: s(record.runId),
    owner: s(record.owner),
    lease_until: n(record.leaseUntilMs),
    step: s(record.step),
    pass: n(record.pass),
    pass_writes: n(record.passWrites),
    counts: s(JSON.stringify(record.counts)),
    started_at: s(record.startedAt),
    GSI4PK: s(GSI4PK),
    GSI4SK: s(GSI4SK),
  }
  if (record.position) item.position = s(JSON.stringify([record.position.PK, record.position.SK]))
  if (record.finishedAt !== undefined) item.finished_at = s(record.finishedAt)
  if (record.earlierFinishedAt !== undefined) item.earlier_finished_at = s(record.earlierFinishedAt)
  if (record.failure !== undefined) item.failure = s(record.failure)
  if (record.verifiedAt !== undefined) item.verified_at = s(record.verifiedAt)
  return item
}

export function decodeMigration(item: Item): MigrationRecord {
  const position = readString(item, 'position')
  const [PK, SK] = position === undefined ? [] : (JSON.parse(position) as [string, string])
  return {
    runId: readString(item, 'run_id') ?? '',
    owner: readString(item, 'owner') ?? '',
    leaseUntilMs: readNumber(item, 'lease_until') ?? 0,
    step: readString(item, 'step') ?? '',
    position: PK === undefined || SK === undefined ? undefined : {PK, SK},
    pass: readNumber(item, 'pass') ?? 1,
    passWrites: readNumber(item, 'pass_writes') ?? 0,
    counts: JSON.parse(readString(item, 'counts') ?? '{}') as Record<string, StepCounts>,
    startedAt: readString(item, 'started_at') ?? '',
    finishedAt: readString(item, 'finished_at'),
    earlierFinishedAt: readString(item, 'earlier_finished_at'),
    failure: readString(item, 'failure'),
    verifiedAt: readString(item, 'verified_at'),
  }
}

/** Attributes that conditional writes of this record compare. */
export const MIGRATION_RUN_ID = 'run_id'
export const MIGRATION_LEASE_UNTIL = 'lease_until'
