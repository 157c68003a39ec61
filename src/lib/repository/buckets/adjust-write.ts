import type {Amounts} from '../../core/buckets/bucket.js'
import type {QuotaPeriod} from '../../core/buckets/kind-refill.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {n} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {limitAttribute, markAttribute} from '../../schema/bucket-record.js'
import {keys, wireKey} from '../../schema/keys.js'
import {kindAttribute} from '../../schema/kind-attributes.js'
import {delegatedAttribute} from '../../schema/refusal-counts.js'
import type {NamespaceTable} from '../table/table.js'
import {
  addConsumption,
  type BucketAddress,
  type BucketUpdate,
  countRequests,
  countWrite,
  markedUpdate,
  type WriteMark,
} from './writes.js'

const names = attributes.bucket

export interface ReturnTarget {
  /** The mark last seen in this process's slot. */
  readonly slotMark: string | undefined
  readonly incarnation: string | undefined
  readonly periods: ReadonlyMap<string, QuotaPeriod>
  /** As last seen. Other clients that change a quota's kind reset this, but keep the revision. */
  readonly validUntilMs: number | undefined
  /** By limit, in millitokens: above this balance, the shard has no room for the refund. */
  readonly highestMilli?: Amounts | undefined
}

/** Charges (into debt if necessary) or refunds the bucket that gave the tokens; never recreates a deleted bucket. */
export function adjustUpdate(
  table: NamespaceTable,
  address: BucketAddress,
  deltas: Amounts,
  mark: WriteMark,
  options: {
    /** As last seen, to rule out late attempts (decision 26). */
    readonly limitsRevision: string | undefined
    readonly returns?: ReturnTarget | undefined
    /** Only counters change: a bypassed request took no tokens. */
    readonly isBypassed?: boolean
    /** New expiry in epoch seconds, for a debt that outlives the old one. */
    readonly ttlSeconds?: number | undefined
    /** Change in the number of admitted requests. */
    readonly requests?: number
  },
): BucketUpdate {
  const {returns, ttlSeconds, requests = 0, isBypassed = false} = options
  const e = new ExpressionBuilder()
  if (ttlSeconds !== undefined) e.set(names.expiresAt, n(ttlSeconds))
  e.require(names.limitsRevision, options.limitsRevision)
  if (returns) {
    requireSlot(e, returns, mark)
    // Planted fault: a refund goes to a bucket that did not give the tokens
    if (!isBypassed) e.require(names.incarnation, returns.incarnation)
    requirePeriodsAndRoom(e, returns)
  }
  for (const [name, milli] of deltas) {
    if (milli === 0n) continue
    if (isBypassed) e.add(limitAttribute(name, 'consumed'), n(milli))
    else {
      addConsumption(e, name, milli)
      if (milli < 0n && !returns?.periods.has(name)) requireRate(e, name)
    }
    requireLimit(e, name)
  }
  countWrite(e)
  countRequests(e, requests)
  e.condition(`attribute_exists(${e.name(names.refilledAt)})`)
  return markedUpdate(table, address, e, mark)
}

/** Returns tokens of a dead process or of a run, in a transaction that happens once. */
export function returnUpdate(
  table: NamespaceTable,
  {entity, resource, shard}: BucketAddress,
  amounts: Amounts,
  {isDelegated, ...target}: Omit<ReturnTarget, 'slotMark'> & {readonly isDelegated: boolean},
): BucketUpdate {
  const e = new ExpressionBuilder()
  e.require(names.incarnation, target.incarnation)
  requirePeriodsAndRoom(e, target)
  for (const [name, milli] of amounts) {
    addConsumption(e, name, -milli)
    if (isDelegated) e.add(delegatedAttribute(name), n(-milli))
    if (!target.periods.has(name)) requireRate(e, name)
    requireLimit(e, name)
  }
  countWrite(e)
  e.condition(`attribute_exists(${e.name(names.refilledAt)})`)
  return {TableName: table.name, Key: wireKey(keys.bucket(table.namespace, entity, resource, shard)), ...e.update()}
}

export function requireReturnTarget(
  e: ExpressionBuilder,
  returned: Iterable<string>,
  target: ReturnTarget,
  mark: WriteMark,
): void {
  // Planted fault: a refund batched with a request is applied twice when the request is delivered twice
  requireSlot(e, target, mark)
  e.require(names.incarnation, target.incarnation)
  requirePeriodsAndRoom(e, target)
  for (const name of returned) {
    if (!target.periods.has(name)) requireRate(e, name)
    requireLimit(e, name)
  }
}

/** A second delivery finds the slot changed, so it refunds nothing. A repetition requires the slot anyway. */
function requireSlot(e: ExpressionBuilder, {slotMark}: ReturnTarget, {slot, repeats}: WriteMark): void {
  if (!repeats) e.require(markAttribute(slot), slotMark)
}

/** Otherwise the write would restore a removed limit as counters without parameters. */
function requireLimit(e: ExpressionBuilder, name: string): void {
  e.condition(`attribute_exists(${e.name(limitAttribute(name, 'capacity'))})`)
}

/** Another client may have turned the rate into a quota without a new revision. That quota did not give the tokens. */
function requireRate(e: ExpressionBuilder, name: string): void {
  e.condition(`${e.name(limitAttribute(name, 'refillAmount'))} > ${e.value(n(0n))}`)
}

function requirePeriodsAndRoom(
  e: ExpressionBuilder,
  {periods, validUntilMs, highestMilli}: Omit<ReturnTarget, 'slotMark'>,
): void {
  for (const [name, milli] of highestMilli ?? [])
    e.condition(`${e.name(limitAttribute(name, 'tokens'))} <= ${e.value(n(milli))}`)
  for (const [name, period] of periods) requirePeriod(e, name, period)
  if (periods.size > 0) e.require(names.validUntil, validUntilMs)
}

function requirePeriod(
  e: ExpressionBuilder,
  name: string,
  {endMs, resetNumber, startMs, isSession}: QuotaPeriod,
): void {
  if (isSession) e.require(kindAttribute(name, 'sessionStart'), startMs)
  else e.require(kindAttribute(name, 'resetNumber'), resetNumber)
  if (endMs !== undefined) e.condition(`${e.name(names.refilledAt)} < ${e.value(n(endMs))}`)
}
