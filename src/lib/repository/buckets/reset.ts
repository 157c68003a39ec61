import type {LimitState} from '../../core/bucket.js'
import {ZaelError} from '../../core/errors.js'
import type {LimitKind} from '../../core/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import type {Audit} from '../audit/audit.js'
import type {NamespaceTable} from '../table/table.js'
import {addressOf, Buckets} from './buckets.js'
import {ceilingOf, type PlannedLimit, planBucket} from './plan.js'
import {type Rewrite, rewriteStoredBucket} from './rewrite.js'

/** How many shards a reset found and filled. */
export interface ResetResult {
  readonly shards: number
  readonly reset: number
  /** What refunds left of deleted shards: it holds nothing to fill and counts for nothing until a request recreates it. */
  readonly ghosts: number
}

/**
 * Fills every limit of a bucket, each shard to its share, which also cancels debts. What was consumed stays counted: that
 * is usage, not balance. Concurrent requests are charged to the full bucket.
 */
export async function resetBucket(
  table: NamespaceTable,
  audit: Audit,
  entity: string,
  resource: string,
  options: {readonly signal?: AbortSignal | undefined} = {},
): Promise<ResetResult> {
  const bucket = await new Buckets(table).find(entity, resource, options)
  const live = bucket?.shards.filter(shard => shard.kind === 'bucket') ?? []
  if (!bucket || live.length === 0) throw bucketMissing(entity, resource)
  let reset = 0
  for (const shard of live) {
    const outcome = await rewriteStoredBucket(table, shard, fill, options.signal)
    if (outcome === 'contended') throw contended(entity, resource, addressOf(shard).shard)
    if (outcome === 'written') reset++
  }
  await audit.record({entity, resource, action: 'bucket_reset', details: {shards: reset}})
  return {shards: live.length, reset, ghosts: bucket.shards.length - live.length}
}

const fill: Rewrite = (seen, nowMs) => {
  const {shard, shardCount, state} = seen.record
  const plan = planBucket(seen, nowMs)
  const changes = new Map<string, PlannedLimit>()
  for (const [name, change] of plan.changes) {
    const stored = state.limits.get(name)
    changes.set(name, stored && name !== WRITE_PRESSURE_LIMIT ? filled(name, stored, change) : change)
  }
  // A refill instant ahead of time would keep the full bucket from refilling until then.
  return {plan: {...plan, refilledAtMs: nowMs, changes}, write: {amounts: new Map(), isReset: true}}

  function filled(name: string, stored: LimitState, change: PlannedLimit): PlannedLimit {
    const after = {...change.after, kind: newPeriod(change.after.kind, shardCount, nowMs)}
    // A session starts with its next use, which restores it; until then nothing of it may be spent twice.
    if (after.kind?.quota?.session) return {...change, after}
    const tokensMilli = ceilingOf(name, after, {shard, shardCount}, nowMs)
    const creditMilli = tokensMilli - stored.tokensMilli
    return {...change, creditMilli, after: {...after, tokensMilli, remainder: 0n}}
  }
}

/** The kind of a quota that is reset by hand: granted anew and counted, or a session that has just ended. */
function newPeriod(kind: LimitKind | undefined, grantCount: number, nowMs: number): LimitKind | undefined {
  if (!kind?.quota) return kind
  const {session, resetNumber = 0} = kind.quota
  if (!session)
    return {...kind, quota: {...kind.quota, grantCount, topUpMilli: undefined, resetNumber: resetNumber + 1}}
  const endedMs = nowMs - session.lengthMs
  return {...kind, quota: {...kind.quota, session: {...session, startMs: endedMs, appliedMs: endedMs}}}
}

/** The bucket was never used, or it has expired. */
export function bucketMissing(entity: string, resource: string): ZaelError {
  return new ZaelError('notFound', 'bucket.missing', `Entity "${entity}" has no bucket for resource "${resource}".`, {
    hint: 'It was never used, or it has expired: the next request starts with a full bucket.',
    details: {entity, resource},
  })
}

function contended(entity: string, resource: string, shard: number): ZaelError {
  return new ZaelError(
    'conflict',
    'bucket.contended',
    `Shard ${shard} of "${entity}" for "${resource}" is written too often to be reset.`,
    {hint: 'Try again in a moment; shards that were reset stay reset.', details: {entity, resource, shard}},
  )
}
