import {pause} from '../../dynamo/retry.js'
import {decodeBucket, type StoredBucket} from '../../schema/bucket-record.js'
import type {NamespaceTable} from '../table/table.js'
import {sendMarked} from './marked-write.js'
import type {BucketPlan, SeenBucket} from './plan.js'
import {newMark} from './write-mark.js'
import {type PlannedWrite, plannedUpdate} from './writes.js'

/** Tries altogether on a bucket that others keep writing. */
const ATTEMPTS = 10

/** What is to become of a bucket as it is now; `undefined` when it may stay as it is. */
export type Rewrite = (seen: SeenBucket, nowMs: number) => {plan: BucketPlan; write: PlannedWrite} | undefined

/** `contended` when others were faster every time; `gone` when there is no bucket, or only what refunds left of one. */
export type RewriteOutcome = 'written' | 'unchanged' | 'gone' | 'contended'

/** Writes one shard on condition that it is as it was seen; a refusal brings the item as it is, and a new decision. */
export async function rewriteStoredBucket(
  table: NamespaceTable,
  bucket: StoredBucket | undefined,
  rewrite: Rewrite,
  signal?: AbortSignal,
): Promise<RewriteOutcome> {
  let seen = bucket
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    if (seen?.kind !== 'bucket') return 'gone'
    const decision = rewrite(seen, table.clock())
    if (!decision) return 'unchanged'
    const mark = newMark(table)
    // The first look may be as old as the walk that brought it; every later one is the answer to the try before.
    const update = plannedUpdate(table, decision.plan, {...decision.write, isExact: attempt === 0}, mark)
    const {applied, item} = await sendMarked(table, update, mark, {signal})
    if (applied) return 'written'
    seen = item && decodeBucket(item)
    await pause(attempt, table.backoff, signal)
  }
  return 'contended'
}
