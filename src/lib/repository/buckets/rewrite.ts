import type {Amounts} from '../../core/buckets/bucket.js'
import {type BucketRecord, decodeBucket, type StoredBucket} from '../../schema/bucket-record.js'
import type {NamespaceTable} from '../table/table.js'
import {requireSupported} from '../table/unsupported-feature.js'
import {plannedValidity} from './kind-write.js'
import {sendMarked} from './marked-write.js'
import type {BucketPlan, SeenBucket} from './plan.js'
import {type BucketUpdate, newMark, type PlannedWrite, plannedUpdate, type WriteMark} from './writes.js'

/** A refusal returns the current bucket, so the next attempt follows at once: a pause would only make it stale. */
const ATTEMPTS = 100

export type Rewrite = (
  seen: SeenBucket,
  nowMs: number,
) => RewriteDecision | undefined | Promise<RewriteDecision | undefined>

export interface RewriteDecision {
  readonly plan: BucketPlan
  readonly write: PlannedWrite
}

/** `contended`: other writes came first every time; `gone`: no bucket, or only a ghost. */
export type RewriteOutcome = 'written' | 'unchanged' | 'gone' | 'contended'

/** Decides again with the current item after each refusal. Throws if the bucket has an unsupported feature. */
export async function rewriteStoredBucket(
  table: NamespaceTable,
  bucket: StoredBucket | undefined,
  rewrite: Rewrite,
  signal?: AbortSignal,
): Promise<RewriteOutcome> {
  const decide: Stamp = async (seen, isFirst) => {
    requireSupported(seen.record)
    const decision = await rewrite(seen, table.clock())
    // The first item may be as old as its listing; each later one is the response to the previous attempt.
    return decision && (mark => plannedUpdate(table, decision.plan, {...decision.write, isExact: isFirst}, mark))
  }
  return stampStoredBucket(table, bucket, decide, {signal})
}

export type Stamp = (
  seen: SeenBucket,
  isFirst: boolean,
) => Promise<((mark: WriteMark) => BucketUpdate) | undefined> | ((mark: WriteMark) => BucketUpdate) | undefined

interface StampOptions {
  readonly signal?: AbortSignal | undefined
  /** Decide again after a write until none is needed: the basis of the decision may have changed meanwhile. */
  readonly isRepeated?: boolean
}

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
