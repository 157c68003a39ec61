import type {LimitState} from '../../core/bucket.js'
import {ZaelError} from '../../core/errors.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {shareOfRate} from '../../core/shards.js'
import type {Audit} from '../audit/audit.js'
import type {NamespaceTable} from '../table/table.js'
import {addressOf, Buckets} from './buckets.js'
import {type PlannedLimit, planBucket} from './plan.js'
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
    const {capacityMilli: tokensMilli} = shareOfRate(name, stored, shard, shardCount)
    const creditMilli = tokensMilli - stored.tokensMilli
    return {...change, creditMilli, after: {...change.after, tokensMilli, remainder: 0n}}
  }
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
