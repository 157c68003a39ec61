import {type Amounts, type BucketState, sumAmounts} from '../../core/buckets/bucket.js'
import type {QuotaPeriod} from '../../core/buckets/kind-refill.js'
import type {BucketAddress} from '../../repository/buckets/writes.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {HeldSlots} from '../holders/slot-account.js'

/** The bucket item that a request was charged to. */
export interface ChargedItem {
  /** A bucket created or reset since has another incarnation: it did not give these tokens. */
  readonly incarnation: string | undefined
  /** Admitted by a bypass: counted, not taken from the balances. Settlements change no balance either. */
  readonly isBypassed: boolean
  /** The quota periods that were charged; refunds never go to a later one. */
  readonly periods: ReadonlyMap<string, QuotaPeriod>
}

/** A lease's tokens in one bucket item; refunds go back there. */
export interface Holding extends ChargedItem {
  readonly address: BucketAddress
  heldMilli: Amounts
  /** Requests the item counted for this: 1 or 0. */
  requests: number
  /** Absent if it holds none. */
  slots?: HeldSlots | undefined
}

/** An admitted request at one level: the entity's or its parent's. */
export interface Grant {
  readonly holdings: Holding[]
  record: BucketRecord
  /** Epoch ms at which a booked request may start. */
  readonly startsAtMs?: number | undefined
  /** All shards after the charge, if several were charged together. */
  shards?: readonly BucketRecord[] | undefined
  /** The shards' balances after settlements of this lease; absent if there were none. */
  shares?: readonly BucketState[] | undefined
  accepted?: Accepted
  /** Millitokens whose charge failed. The caller may not know: refunding them is valid and returns nothing. */
  failedMilli?: Amounts
}

/** Settlements accepted but not written, in millitokens; refunds are negative. */
interface Accepted {
  readonly charges: Amounts
  readonly returns: Amounts
}

export function book(holding: Holding, deltas: Iterable<readonly [string, bigint]>, sign: bigint): void {
  const held = new Map(holding.heldMilli)
  for (const [name, milli] of deltas) held.set(name, (held.get(name) ?? 0n) + sign * milli)
  holding.heldMilli = held
}

export function accept(grant: Grant, deltas: Iterable<readonly [string, bigint]>, sign: bigint): void {
  const charges = new Map(grant.accepted?.charges)
  const returns = new Map(grant.accepted?.returns)
  for (const [name, milli] of deltas) {
    const same = milli > 0n ? charges : returns
    const sum = (same.get(name) ?? 0n) + sign * milli
    if (sum === 0n) same.delete(name)
    else same.set(name, sum)
  }
  grant.accepted = {charges, returns}
}

export function isCharged({holdings}: Grant, name: string): boolean {
  return holdings.some(({heldMilli, slots}) => heldMilli.has(name) || slots?.slots.has(name))
}

export function heldBy({holdings}: Grant): Map<string, bigint> {
  return sumAmounts(holdings.map(({heldMilli}) => ({amounts: heldMilli})))
}

/** Millitokens held once all accepted settlements are written, over all items. */
export function heldSoonBy(grant: Grant): Map<string, bigint> {
  const {charges, returns} = grant.accepted ?? {}
  if (!charges || !returns) return heldBy(grant)
  return sumAmounts([{amounts: heldBy(grant)}, {amounts: charges}, {amounts: returns}])
}

/** Millitokens that a refund may name, over all items. */
export function refundableBy(grant: Grant): Map<string, bigint> {
  return sumAmounts([{amounts: heldSoonBy(grant)}, {amounts: grant.failedMilli ?? new Map()}])
}

export function noteFailed(grant: Grant, charges: Iterable<readonly [string, bigint]>): void {
  grant.failedMilli = sumAmounts([{amounts: grant.failedMilli ?? new Map()}, {amounts: new Map(charges)}])
}

/** Refunds beyond the held tokens are of failed charges. */
export function dropFailed(grant: Grant, returns: Iterable<readonly [string, bigint]>): void {
  if (!grant.failedMilli) return
  const [held, failed] = [heldBy(grant), new Map(grant.failedMilli)]
  for (const [name, milli] of returns) {
    const beyondHeld = -milli - (held.get(name) ?? 0n)
    if (beyondHeld <= 0n) continue
    const left = (failed.get(name) ?? 0n) - beyondHeld
    failed.set(name, left > 0n ? left : 0n)
  }
  grant.failedMilli = failed
}

/** Charges go to the first item; refunds go to the items that gave the tokens, so that no shard starves. */
export function partsOf({holdings}: Grant, amounts: Amounts): {holding: Holding; deltas: Map<string, bigint>}[] {
  const parts = holdings.map(holding => ({holding, deltas: new Map<string, bigint>()}))
  for (const [name, milli] of amounts) {
    if (milli > 0n) parts[0]?.deltas.set(name, milli)
    let left = milli < 0n ? -milli : 0n
    for (const {holding, deltas} of parts) {
      const has = holding.heldMilli.get(name) ?? 0n
      const part = has < left ? has : left
      if (part <= 0n) continue
      deltas.set(name, -part)
      left -= part
    }
  }
  return parts.filter(({deltas}) => deltas.size > 0)
}
