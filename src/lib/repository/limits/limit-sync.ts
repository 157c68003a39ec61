import {LEVELS, type Level, slotsOf} from '../../core/limits/limit.js'
import {isSameLimit} from '../../core/limits/limit-kind.js'
import type {BoostRecord} from '../../schema/boost-record.js'
import type {StoredBucket} from '../../schema/bucket-record.js'
import {levelOf} from '../../schema/config-record.js'
import {addressOf} from '../buckets/buckets.js'
import {changesLimits, planBucket, plannedLimits, type SeenBucket, shardExpiry} from '../buckets/plan.js'
import {type Rewrite, type RewriteDecision, rewriteStoredBucket} from '../buckets/rewrite.js'
import {Audit, type Principal, storedAuditRetention} from '../table/audit.js'
import type {NamespaceTable} from '../table/table.js'
import {allBoosts} from './boost-records.js'
import {TIDY_AFTER_MS} from './boosted-limits.js'
import {type AlignShard, type BucketSync, switchSync, syncBuckets} from './bucket-sync.js'
import {Configs} from './configs.js'
import {type Resolution, requireSupportedLimits} from './resolver.js'
import {payShardDebts} from './shard-debts.js'

/** Conditional writes that never block requests (S9). Skips buckets without limits. */
const alignLimits: AlignShard = async ({table, scope, resolve, signal}, shard) => {
  const {entity, resource} = addressOf(shard)
  let isAffectedHere = true
  const align: Rewrite = async (seen, nowMs) => {
    const atMs = Math.max(nowMs, seen.record.state.refilledAtMs)
    // While the limits are as found, the first read is newer. Under traffic, another read would make each attempt too
    // late.
    const resolution = await resolve({entity, resource}, hasSameLimits(seen, shard), atMs)
    isAffectedHere = scope === undefined || isAffected(levelOf(scope), resolution.source)
    if (!isAffectedHere) return undefined
    requireSupportedLimits(resolution, {entity, resource})
    return alignWith(resolution, seen, nowMs)
  }
  const outcome = await rewriteStoredBucket(table, shard, align, signal)
  return isAffectedHere ? outcome : 'unaffected'
}

export const limitSync: BucketSync = {
  align: alignLimits,
  finish: ({table, signal}, pair) => payShardDebts(table, pair, signal),
  isThorough: false,
}

/** Compares limits too, because other clients do not change the revision. */
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

function isAffected(changed: Level, source: Level | undefined): boolean {
  return source !== undefined && LEVELS.indexOf(source) >= LEVELS.indexOf(changed)
}

/** `undefined` when the bucket already has these limits and this lifetime. */
export function alignWith({limits, source}: Resolution, seen: SeenBucket, nowMs: number): RewriteDecision | undefined {
  const plan = planBucket(seen, nowMs, limits, {inFlight: slotsOf(limits)})
  const ttlSeconds = shardExpiry(seen.record, {source, limits: plannedLimits(plan), nowMs})
  const hasRightLifetime = (ttlSeconds === null) === (seen.record.ttlSeconds === undefined)
  if (hasRightLifetime && !changesLimits(plan) && seen.record.validUntilMs !== 0) return undefined
  return {plan, write: {amounts: new Map(), ttlSeconds, isCompared: true}}
}

export function isTidyDue({boosts, accessUntilMs = Infinity}: BoostRecord, nowMs: number): boolean {
  const ends = [...Array.from(boosts.values(), ({untilMs}) => untilMs), accessUntilMs]
  return ends.some(untilMs => untilMs + TIDY_AFTER_MS <= nowMs)
}

/**
 * Removes expired switches and leftovers of ended boosts. Must run before their windows reopen a year later. Resolves to the scope count.
 */
export async function tidyBoosts(
  table: NamespaceTable,
  {principal, signal}: {readonly principal?: Principal | undefined; readonly signal?: AbortSignal | undefined} = {},
): Promise<number> {
  const due = (await allBoosts(table)).filter(record => isTidyDue(record, table.clock()))
  for (const record of due) await tidyScope(table, record, {principal, signal})
  return due.length
}

/** Updates live buckets; a later request updates those that failed. */
export async function tidyScope(
  table: NamespaceTable,
  {scope, accessUntilMs}: Pick<BoostRecord, 'scope' | 'accessUntilMs'>,
  {principal, signal}: {readonly principal?: Principal | undefined; readonly signal?: AbortSignal | undefined} = {},
): Promise<void> {
  const audit = new Audit(table, {principal, retentionDays: storedAuditRetention(table)})
  await new Configs(table, {audit}).tidy(scope)
  await syncBuckets(table, scope, accessUntilMs === undefined ? [limitSync] : [limitSync, switchSync], {signal})
}
