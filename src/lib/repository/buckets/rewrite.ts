import {pause} from '../../dynamo/retry.js'
import {decodeBucket, type StoredBucket} from '../../schema/bucket-record.js'
import type {NamespaceTable} from '../table/table.js'
import {requireSupported} from '../table/unsupported-feature.js'
import {sendMarked} from './marked-write.js'
import type {BucketPlan, SeenBucket} from './plan.js'
import {newMark, type PlannedWrite, plannedUpdate} from './writes.js'

/** Attempts on a bucket that other clients keep writing. */
const ATTEMPTS = 10

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
type RewriteOutcome = 'written' | 'unchanged' | 'gone' | 'contended'

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
  let seen = bucket
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (seen?.kind !== 'bucket') return 'gone'
    requireSupported(seen.record)
    const decision = await rewrite(seen, table.clock())
    if (!decision) return 'unchanged'
    const mark = newMark(table)
    // The first item may be as old as the listing it comes from; each later one is the answer to the attempt before.
    const update = plannedUpdate(table, decision.plan, {...decision.write, isExact: attempt === 0}, mark)
    const {applied, item} = await sendMarked(table, update, mark, {signal})
    if (applied) return 'written'
    seen = item && decodeBucket(item)
    await pause(attempt, table.backoff, signal)
  }
  return 'contended'
}
