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
import {type AttributeValue, n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {encodeCalendars, encodeKindState, kindAttribute} from '../../schema/kind-attributes.js'
import {type BucketPlan, isFirstOfSeveral, type PlannedLimit, plannedLimits} from './plan.js'

const names = attributes.bucket

/** A calendar whose next change is not known is asked again after this time, in ms. */
const LONGEST_VALIDITY_MS = 7 * 86_400_000

/**
 * Until when a bucket may be used without evaluating a calendar, in epoch ms; `undefined` when nothing but refill changes
 * it. 0 as long as a session is closed: the next use has to open it.
 */
export function validityOf(bucket: BucketState, nowMs: number): number | undefined {
  let isScheduled = false
  for (const limit of bucket.limits.values()) {
    isScheduled ||= hasCalendar(limit)
    if (limit.kind?.quota?.session && (sessionEndMs(limit) ?? 0) <= nowMs) return 0
  }
  // Planted fault: a bucket is valid beyond its next reset
  return isScheduled ? (nextBoundary(bucket, nowMs) ?? nowMs + LONGEST_VALIDITY_MS) : undefined
}

/**
 * The expiry that a bucket needs which a plan may have brought into another period of a quota: one that is gone before the
 * next reset would start with a second allowance. `null`: never; `undefined` when the stored one will do.
 */
export function expiryOfPeriod(plan: BucketPlan): number | null | undefined {
  const {ttlSeconds, state} = plan.seen.record
  if (ttlSeconds === undefined) return undefined
  if (isFirstOfSeveral(plan.seen.record)) return null
  if (!hasKinds(state)) return undefined
  const limits = plannedLimits(plan)
  if (ttlSeconds >= neededUntilSeconds(limits, 1, plan.nowMs)) return undefined
  return expiresAtSeconds(limits, LIFETIME_MULTIPLIER, plan.nowMs)
}

/** The limits that a bucket has after a plan, undivided. */
function limitsAfter({seen, changes}: BucketPlan): BucketState {
  const kept = [...changes].filter(([, {kind}]) => kind !== 'remove')
  return {...seen.record.state, limits: new Map(kept.map(([name, each]) => [name, each.after]))}
}

/**
 * Until when a bucket is valid once a plan is written that leaves it with these limits, in epoch ms. Other clients ask by 0
 * for a write that has read the configuration.
 */
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
    if (isUsed) requireNumber(e, names.validUntil, undefined)
    return
  }
  const untilMs = plannedValidity(plan, after)
  // A change of limits that another client has announced since must not be covered up.
  requireNumber(e, names.validUntil, record.validUntilMs)
  if (untilMs !== record.validUntilMs) store(e, names.validUntil, untilMs === undefined ? undefined : n(untilMs))
  if (isPlain) return
  for (const [name, change] of changes) planKind(e, name, change, record)
  if (![...changes].some(([name, change]) => isRedefined(name, change, record))) return
  const kinds = new Map([...after.limits].map(([name, {kind}]) => [name, kind]))
  // Planted fault: a kind that was changed is not stored
  for (const [attribute, value] of encodeCalendars(kinds)) store(e, attribute, value)
}

function planKind(e: ExpressionBuilder, name: string, {kind, after}: PlannedLimit, {state}: BucketRecord): void {
  const before = state.limits.get(name)?.kind
  if (kind === 'remove') {
    // Not all that there can be: an expression has a limit, and many limits may be replaced at once.
    if (before) for (const attribute of storedKind(name, before, state)) e.remove(attribute)
    return
  }
  if (!before && !after.kind) return
  const session = before?.quota?.session
  if (session) {
    // Another shard may have opened a window since, or another client made it another kind of quota.
    requireNumber(e, kindAttribute(name, 'sessionStart'), session.startMs)
    requireNumber(e, kindAttribute(name, 'sessionSeconds'), session.lengthMs / 1000)
  }
  const stored = encodeKindState(name, before)
  for (const [attribute, value] of encodeKindState(name, after.kind)) {
    if (JSON.stringify(value) !== JSON.stringify(stored.get(attribute))) store(e, attribute, value)
  }
}

/**
 * The attributes that a kind may have in a bucket. Which schedules are stored for one limit alone is not known: not those
 * that no limit has.
 */
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

function store(e: ExpressionBuilder, attribute: string, value: AttributeValue | undefined): void {
  if (value === undefined) e.remove(attribute)
  else e.set(attribute, value)
}

export function requireNumber(e: ExpressionBuilder, attribute: string, value: number | undefined): void {
  const stored = e.name(attribute)
  e.condition(value === undefined ? `attribute_not_exists(${stored})` : `${stored} = ${e.value(n(value))}`)
}

/**
 * No calendar has changed anything up to now, as far as clients have stored it, and none asks for a write that reads the
 * configuration: what was seen or is supposed is in force.
 */
export function requireValidity(
  e: ExpressionBuilder,
  nowMs: number,
  {seen, isScheduled = false}: {readonly seen?: BucketRecord | undefined; readonly isScheduled?: boolean},
): void {
  const stored = e.name(names.validUntil)
  const isExpected = isScheduled || seen?.validUntilMs !== undefined
  // Planted fault: a charge does not ask whether a calendar has changed something
  e.condition(isExpected ? `${stored}>${e.value(n(nowMs))}` : `attribute_not_exists(${stored})`)
}

/**
 * No other client has closed the bucket since it was seen, or bypassed its limits. They stamp neither the refill instant
 * nor the revision.
 */
export function requireEnabled(e: ExpressionBuilder, seen?: Pick<BucketRecord, 'isDisabled' | 'bypassUntilMs'>): void {
  // Planted fault: a write does not ask whether the switch was thrown
  if (!seen?.isDisabled) e.condition(`attribute_not_exists(${e.name(names.disabled)})`)
  if (seen?.bypassUntilMs === undefined) e.condition(`attribute_not_exists(${e.name(names.bypass)})`)
}

/**
 * Brings the stamp of a bucket in line with the configuration, which was read after the bucket: sets or renews it, or
 * removes it where `untilMs` is undefined. A stamp that another client has set or removed since is left to it.
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
  // One that has run out may be of another type than a number.
  const isLive = isBypassedAt(seen, nowMs)
  e.condition(isLive ? `${stored} = ${e.value(n(seen.bypassUntilMs))}` : `NOT (${stored} > ${e.value(n(nowMs))})`)
}

/** Nor limited how long its balances and rates hold, or ended a bypass, since it was seen: a copy of it would be wrong. */
export function requireOpen(
  e: ExpressionBuilder,
  seen: Pick<BucketRecord, 'validUntilMs' | 'isDisabled' | 'bypassUntilMs'>,
): void {
  requireEnabled(e, seen)
  if (seen.bypassUntilMs !== undefined) requireNumber(e, names.bypass, seen.bypassUntilMs)
  requireNumber(e, names.validUntil, seen.validUntilMs)
}
