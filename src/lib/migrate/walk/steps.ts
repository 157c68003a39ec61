import {keyParts, sortPrefix} from '../../schema/keys.js'
import type {MigrationRecord, StepCounts} from '../../schema/migration-record.js'
import type {OldRecordType} from '../records/classify.js'
import type {MigrationLease} from './lease.js'

/** Every step is idempotent. */
export interface MigrationStep {
  readonly id: StepId
  readonly title: string
  /** Empty for steps that change the table as a whole. */
  readonly moves: readonly OldRecordType[]
}

/**
 * Clients need the configuration before they create a bucket, so it comes first. The rest shares a scan, which reads
 * every item.
 */
export const CONFIGURATION: readonly OldRecordType[] = ['entity', 'limits', 'settings', 'registry']

export const DATA: readonly OldRecordType[] = ['bucket', 'usage', 'audit']

export const STEPS = [
  {id: 'indexes', title: 'Add the missing indexes', moves: []},
  {id: 'namespaces', title: 'Register the namespace "default"', moves: []},
  {id: 'configuration', title: 'Copy entities and limits', moves: CONFIGURATION},
  {id: 'limits', title: 'Write limits from the buckets', moves: []},
  {id: 'data', title: 'Copy buckets, usage, audit events', moves: DATA},
  {id: 'catch-up', title: 'Catch up with later changes', moves: [...CONFIGURATION, ...DATA]},
  {id: 'version', title: 'Record the new layout', moves: []},
] as const satisfies readonly {id: string; title: string; moves: readonly OldRecordType[]}[]

export type StepId = (typeof STEPS)[number]['id']

export const STEP_IDS: readonly StepId[] = STEPS.map(({id}) => id)

/** Replaces the step in the migration record while old items are deleted. */
export const CLEANUP_STEP = 'cleanup'

export const sortKeysLeftOut = ({id}: MigrationStep): readonly string[] =>
  id === 'configuration' || id === 'limits' ? [sortPrefix.usage(), keyParts.sort.audit] : []

export const NO_COUNTS: StepCounts = {checked: 0, written: 0, expired: 0, conflicts: 0}

export async function countStep(
  lease: MigrationLease,
  step: StepId,
  added: Partial<StepCounts>,
  change: Partial<MigrationRecord> = {},
): Promise<void> {
  const {counts} = lease.record
  const before = counts[step] ?? NO_COUNTS
  const after: StepCounts = {
    checked: before.checked + (added.checked ?? 0),
    written: before.written + (added.written ?? 0),
    expired: before.expired + (added.expired ?? 0),
    conflicts: before.conflicts + (added.conflicts ?? 0),
  }
  await lease.save({...change, counts: {...counts, [step]: after}})
}
