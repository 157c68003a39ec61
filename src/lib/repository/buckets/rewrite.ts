import type {Amounts} from '../../core/buckets/bucket.js'
import {type BucketRecord, decodeBucket, type StoredBucket} from '../../schema/bucket-record.js'
import type {NamespaceTable} from '../table/table.js'
import {requireSupported} from '../table/unsupported-feature.js'
import {plannedValidity} from './kind-write.js'
import {sendMarked} from './marked-write.js'
import type {BucketPlan, SeenBucket} from './plan.js'
import {type BucketUpdate, newMark, type PlannedWrite, plannedUpdate, type WriteMark} from './writes.js'

/**
 * Attempts on a bucket that other clients keep writing. A refusal shows the bucket as it is, and every wait would make that
 * older: so the next attempt follows at once, and has the same chance as each of the processes that write.
 */
const ATTEMPTS = 100

/** Decides how to change a bucket as it is now; `undefined` when it needs no change. */
export type Rewrite = (
  seen: SeenBucket,
  nowMs: number,
) => RewriteDecision | undefined | Promise<RewriteDecision | undefined>

export interface RewriteDecision {
  readonly plan: BucketPlan
  readonly write: PlannedWrite
}

/** `contended` when other writes came first every time; `gone` when there is no bucket, or only a ghost. */
export type RewriteOutcome = 'written' | 'unchanged' | 'gone' | 'contended'

/**
 * Writes one shard on condition that it is unchanged; a refusal returns the current item, and the decision is made again.
 * Throws when the bucket has a feature that zael does not support.
 */
export async function rewriteStoredBucket(
  table: NamespaceTable,
  bucket: StoredBucket | undefined,
  rewrite: Rewrite,
  signal?: AbortSignal,
): Promise<RewriteOutcome> {
  const decide: Stamp = async (seen, isFirst) => {
    requireSupported(seen.record)
    const decision = await rewrite(seen, table.clock())
    // The first item may be as old as the listing it comes from; each later one is the answer to the attempt before.
    return decision && (mark => plannedUpdate(table, decision.plan, {...decision.write, isExact: isFirst}, mark))
  }
  return stampStoredBucket(table, bucket, decide, {signal})
}

/** The update that a shard needs as it is now; `undefined` when it needs none. */
export type Stamp = (
  seen: SeenBucket,
  isFirst: boolean,
) => Promise<((mark: WriteMark) => BucketUpdate) | undefined> | ((mark: WriteMark) => BucketUpdate) | undefined

interface StampOptions {
  readonly signal?: AbortSignal | undefined
  /** Decide again after a write, until none is needed: what the decision rests on may have changed meanwhile. */
  readonly isRepeated?: boolean
}

/** Sends conditional updates of one shard, each decided by the item that the one before has shown. */
export async function stampStoredBucket(
  table: NamespaceTable,
  bucket: StoredBucket | undefined,
  stamp: Stamp,
  {signal, isRepeated = false}: StampOptions = {},
): Promise<RewriteOutcome> {
  let seen = bucket
  let isWritten = false
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (seen?.kind !== 'bucket') return 'gone'
    const update = await stamp(seen, attempt === 0)
    if (!update) return isWritten ? 'written' : 'unchanged'
    const mark = newMark(table)
    const {applied, item} = await sendMarked(table, update(mark), mark, {signal})
    if (applied && !isRepeated) return 'written'
    isWritten ||= applied
    seen = item && decodeBucket(item)
  }
  return 'contended'
}

export function plannedRecord(plan: BucketPlan, taken: Amounts = new Map()): BucketRecord {
  const {seen, refilledAtMs, changes} = plan
  const limits = new Map(
    [...changes].flatMap(([name, {kind, after}]) =>
      kind === 'remove' ? [] : [[name, {...after, tokensMilli: after.tokensMilli - (taken.get(name) ?? 0n)}] as const],
    ),
  )
  return {
    ...seen.record,
    validUntilMs: plannedValidity(plan, {...seen.record.state, limits}),
    state: {refilledAtMs, limits},
  }
}
