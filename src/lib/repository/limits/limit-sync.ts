import {isSameLimit} from '../../core/limits/limit-kind.js'
import {LEVELS, type Level} from '../../core/limits/resolve.js'
import type {StoredBucket} from '../../schema/bucket-record.js'
import {levelOf} from '../../schema/config-record.js'
import {addressOf} from '../buckets/buckets.js'
import {shardExpiry} from '../buckets/expiry.js'
import {changesLimits, planBucket, plannedLimits, type SeenBucket} from '../buckets/plan.js'
import {type Rewrite, type RewriteDecision, rewriteStoredBucket} from '../buckets/rewrite.js'
import type {AlignShard, BucketSync} from './bucket-sync.js'
import {type Resolution, requireSupportedLimits} from './resolver.js'

/**
 * Buckets get the limits that apply to them. Each write is conditional: it clamps balances, never adds tokens, and never
 * blocks requests (S9). A bucket to which no limits apply any more stays as it is. A bucket that could not be updated gets
 * the limits with its next slow request.
 */
const alignLimits: AlignShard = async ({table, scope, resolve, signal}, shard) => {
  const {entity, resource} = addressOf(shard)
  let isAffectedHere = true
  const align: Rewrite = async (seen, nowMs) => {
    const atMs = Math.max(nowMs, seen.record.state.refilledAtMs)
    // While it has the limits that it was found with, what was read after that is newer. Under traffic a read would make
    // every attempt too late.
    const resolution = await resolve({entity, resource}, hasSameLimits(seen, shard), atMs)
    isAffectedHere = isAffected(levelOf(scope), resolution.source)
    if (!isAffectedHere) return undefined
    requireSupportedLimits(resolution, {entity, resource})
    return alignWith(resolution, seen, nowMs)
  }
  const outcome = await rewriteStoredBucket(table, shard, align, signal)
  return isAffectedHere ? outcome : 'unaffected'
}

export const limitSync: BucketSync = {align: alignLimits, isThorough: false}

/** Whether nobody has changed the limits of a shard since: other clients of the table change no revision. */
function hasSameLimits({record}: SeenBucket, found: StoredBucket): boolean {
  if (found.kind !== 'bucket' || record.limitsRevision !== found.record.limitsRevision) return false
  const [now, before] = [record.state.limits, found.record.state.limits]
  return (
    now.size === before.size &&
    [...now].every(([name, limit]) => {
      const other = before.get(name)
      return other !== undefined && isSameLimit(limit, other)
    })
  )
}

/** Limits of a more specific level override the change. */
function isAffected(changed: Level, source: Level | undefined): boolean {
  return source !== undefined && LEVELS.indexOf(source) >= LEVELS.indexOf(changed)
}

/** Gives a bucket the limits and the lifetime that apply to it; `undefined` when it has them. */
export function alignWith({limits, source}: Resolution, seen: SeenBucket, nowMs: number): RewriteDecision | undefined {
  const plan = planBucket(seen, nowMs, limits)
  const ttlSeconds = shardExpiry(seen.record, {source, limits: plannedLimits(plan), nowMs})
  const hasRightLifetime = (ttlSeconds === null) === (seen.record.ttlSeconds === undefined)
  if (hasRightLifetime && !changesLimits(plan) && seen.record.validUntilMs !== 0) return undefined
  return {plan, write: {amounts: new Map(), ttlSeconds, isCompared: true}}
}
