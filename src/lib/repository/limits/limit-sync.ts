import {isSameLimit} from '../../core/limits/limit-kind.js'
import {LEVELS, type Level} from '../../core/limits/resolve.js'
import type {BoostRecord} from '../../schema/boost-record.js'
import type {StoredBucket} from '../../schema/bucket-record.js'
import {levelOf} from '../../schema/config-record.js'
import {addressOf} from '../buckets/buckets.js'
import {changesLimits, planBucket, plannedLimits, type SeenBucket, shardExpiry} from '../buckets/plan.js'
import {type Rewrite, type RewriteDecision, rewriteStoredBucket} from '../buckets/rewrite.js'
import {Audit, storedAuditRetention} from '../table/audit.js'
import type {NamespaceTable} from '../table/table.js'
import {allBoosts} from './boost-records.js'
import {TIDY_AFTER_MS} from './boosted-limits.js'
import {type AlignShard, type BucketSync, syncBuckets} from './bucket-sync.js'
import {Configs} from './configs.js'
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

/** Whether a boost of a scope ended long enough ago to be tidied up, whatever the clocks of others show. */
export function isTidyDue({boosts}: Pick<BoostRecord, 'boosts'>, nowMs: number): boolean {
  return [...boosts.values()].some(({untilMs}) => untilMs + TIDY_AFTER_MS <= nowMs)
}

/**
 * Removes what is left of boosts that have ended: windows that are closed, limits that were copied for them, and their
 * records. One query where there is nothing to do. Limits stay as they apply, so nothing depends on when this is done, as
 * long as it is before the windows open again a year later. Resolves to the number of scopes that were tidied up.
 */
export async function tidyBoosts(
  table: NamespaceTable,
  {principal, signal}: {readonly principal?: string | undefined; readonly signal?: AbortSignal | undefined} = {},
): Promise<number> {
  const due = (await allBoosts(table)).filter(record => isTidyDue(record, table.clock()))
  for (const record of due) await tidyScope(table, record, {principal, signal})
  return due.length
}

/** The same for one scope; live buckets follow, those that are not reached with their next request. */
export async function tidyScope(
  table: NamespaceTable,
  {scope}: Pick<BoostRecord, 'scope'>,
  {principal, signal}: {readonly principal?: string | undefined; readonly signal?: AbortSignal | undefined} = {},
): Promise<void> {
  const audit = new Audit(table, {principal, retentionDays: storedAuditRetention(table)})
  await new Configs(table, {audit}).tidy(scope)
  await syncBuckets(table, scope, [limitSync], {signal})
}
