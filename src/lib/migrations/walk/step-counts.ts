import type {StepCounts} from '../../schema/migration-record.js'
import type {MigrationLease} from './lease.js'
import type {StepId} from './steps.js'
import {NO_COUNTS} from './tally.js'

/** Adds to what a step has come to, and records it together with other changes of progress. */
export async function countStep(
  lease: MigrationLease,
  step: StepId,
  counts: Partial<StepCounts>,
  change: Parameters<MigrationLease['save']>[0] = {},
): Promise<void> {
  const before = lease.record.counts
  await lease.save({...change, counts: {...before, [step]: plus(before[step] ?? NO_COUNTS, counts)}})
}

export function plus(one: StepCounts, other: Partial<StepCounts>): StepCounts {
  return {
    checked: one.checked + (other.checked ?? 0),
    written: one.written + (other.written ?? 0),
    expired: one.expired + (other.expired ?? 0),
    conflicts: one.conflicts + (other.conflicts ?? 0),
  }
}
