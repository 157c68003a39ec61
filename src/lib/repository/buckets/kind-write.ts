import {
  type BucketState,
  expiresAtSeconds,
  hasKinds,
  LIFETIME_MULTIPLIER,
  neededUntilSeconds,
  nextBoundary,
} from '../../core/buckets/bucket.js'
import {hasCalendar, isBypassedAt, type LimitKind, sessionEndMs} from '../../core/limits/limit-kind.js'
import type {ExpressionBuilder} from '../../dynamo/expression.js'
import {n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {encodeCalendars, encodeKindState, kindAttribute} from '../../schema/kind-attributes.js'
import {type BucketPlan, isFirstOfSeveral, type PlannedLimit, plannedLimits} from './plan.js'

const names = attributes.bucket

/** A calendar whose next change is unknown is evaluated again after this time. */
const LONGEST_VALIDITY_MS = 7 * 86_400_000

/** Epoch ms up to which only refill changes the bucket; `undefined`: always; 0: the next use must open a session. */
export function validityOf(bucket: BucketState, nowMs: number): number | undefined {
  let isScheduled = false
  for (const limit of bucket.limits.values()) {
    isScheduled ||= hasCalendar(limit)
    if (limit.kind?.quota?.session && (sessionEndMs(limit) ?? 0) <= nowMs) return 0
  }
  // Planted fault: a bucket is valid beyond its next reset
  return isScheduled ? (nextBoundary(bucket, nowMs) ?? nowMs + LONGEST_VALIDITY_MS) : undefined
}

/** Epoch s; `null`: never; `undefined`: keep. Expiring before the next reset would grant a second allowance. */
export function expiryOfPeriod(plan: BucketPlan): number | null | undefined {
  const {ttlSeconds, state} = plan.seen.record
  if (ttlSeconds === undefined) return undefined
  if (isFirstOfSeveral(plan.seen.record)) return null
  if (!hasKinds(state)) return undefined
  const limits = plannedLimits(plan)
  if (ttlSeconds >= neededUntilSeconds(limits, 1, plan.nowMs)) return undefined
  return expiresAtSeconds(limits, LIFETIME_MULTIPLIER, plan.nowMs)
}

function limitsAfter({seen, changes}: BucketPlan): BucketState {
  const kept = [...changes].filter(([, {kind}]) => kind !== 'remove')
  return {...seen.record.state, limits: new Map(kept.map(([name, each]) => [name, each.after]))}
}

/** Epoch ms. Other clients set 0 to ask for a write that has read the configuration; until then it stays 0. */
export function plannedValidity({seen, nowMs, isConfigured}: BucketPlan, after: BucketState): number | undefined {
  const isAsked = seen.record.validUntilMs === 0 && !isConfigured
  return isAsked ? 0 : validityOf(after, nowMs)
}

export function planKinds(e: ExpressionBuilder, plan: BucketPlan, isUsed: boolean): void {
  const {seen, changes} = plan
  const {record} = seen
  const after = limitsAfter(plan)
  const isPlain = !hasKinds(after) && !hasKinds(record.state)
  if (isPlain && record.validUntilMs === undefined) {
    if (isUsed) e.require(names.validUntil, undefined)
    return
  }
  const untilMs = plannedValidity(plan, after)
  // Must not hide a limit change that another client has announced since.
  e.require(names.validUntil, record.validUntilMs)
  if (untilMs !== record.validUntilMs) e.store(names.validUntil, untilMs === undefined ? undefined : n(untilMs))
  if (isPlain) return
  for (const [name, change] of changes) planKind(e, name, change, record)
  if (![...changes].some(([name, change]) => isRedefined(name, change, record))) return
  const kinds = new Map([...after.limits].map(([name, {kind}]) => [name, kind]))
  // Planted fault: a changed kind of limit is not stored
  for (const [attribute, value] of encodeCalendars(kinds)) e.store(attribute, value)
}

function planKind(e: ExpressionBuilder, name: string, {kind, after}: PlannedLimit, {state}: BucketRecord): void {
  const before = state.limits.get(name)?.kind
  if (kind === 'remove') {
    // Only stored attributes: an expression has a size limit, and many limits may be replaced at once.
    if (before) for (const attribute of storedKind(name, before, state)) e.remove(attribute)
    return
  }
  if (!before && !after.kind) return
  const session = before?.quota?.session
  if (session) {
    // Another shard may have opened a window since, or another client may have changed the kind of quota.
    e.require(kindAttribute(name, 'sessionStart'), session.startMs)
    e.require(kindAttribute(name, 'sessionSeconds'), session.lengthMs / 1000)
  }
  const stored = encodeKindState(name, before)
  for (const [attribute, value] of encodeKindState(name, after.kind)) {
    if (JSON.stringify(value) !== JSON.stringify(stored.get(attribute))) e.store(attribute, value)
  }
}

/** The record does not show which limits have a stored schedule, so the attribute is listed if any limit has one. */
function storedKind(name: string, kind: LimitKind, {limits}: BucketState): string[] {
  const kinds = [...limits.values()].map(limit => limit.kind)
  return [
    ...[...encodeKindState(name, kind)].flatMap(([attribute, value]) => (value ? [attribute] : [])),
    ...(kinds.some(each => each?.schedule) ? [kindAttribute(name, 'windows')] : []),
    ...(kinds.some(each => each?.quota?.resets) ? [kindAttribute(name, 'resets')] : []),
  ]
}

function isRedefined(name: string, {kind, after}: PlannedLimit, {state}: BucketRecord): boolean {
  const before: LimitKind | undefined = state.limits.get(name)?.kind
  return before?.definition !== (kind === 'remove' ? undefined : after.kind?.definition)
}

/**
 * `untilMs` was read after the bucket; undefined removes the stamp. Refused if another client set or removed it since.
 */
export function stampBypass(
  e: ExpressionBuilder,
  seen: BucketRecord,
  untilMs: number | undefined,
  nowMs: number,
): void {
  if (untilMs !== undefined) e.set(names.bypass, n(untilMs))
  if (seen.bypassUntilMs === undefined) return
  const stored = e.name(names.bypass)
  if (untilMs !== undefined) {
    e.condition(`attribute_exists(${stored})`)
    return
  }
  e.remove(names.bypass)
  // An expired stamp may have another type than number.
  const isLive = isBypassedAt(seen, nowMs)
  e.condition(isLive ? `${stored} = ${e.value(n(seen.bypassUntilMs))}` : `NOT (${stored} > ${e.value(n(nowMs))})`)
}
