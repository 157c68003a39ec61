import {WRITE_PRESSURE_LIMIT} from './names.js'

/**
 * Arithmetic of one token bucket. Everything is an integer: tokens in millitokens (1 token = 1000), time in milliseconds.
 * Products such as elapsed × amount pass 2^53 within a day on large limits, hence bigint.
 */

/** How a balance grows: `refillAmountMilli` every `refillPeriodMs`, up to `capacityMilli`. */
export interface Rate {
  readonly capacityMilli: bigint
  readonly refillAmountMilli: bigint
  readonly refillPeriodMs: number
}

/**
 * What a limit holds. `remainder` is the part of a millitoken already earned and not yet credited, as a numerator over
 * `refillPeriodMs` (0 ≤ remainder < refillPeriodMs). Carrying it is what lets a 10-per-day limit recover at the right
 * speed in a bucket that is refilled every few milliseconds.
 */
export interface Balance {
  readonly tokensMilli: bigint
  readonly remainder: bigint
}

export const MILLI = 1000n

/** Division that rounds toward minus infinity, so that a debt of 1 milli shows as −1 token, never as 0. */
export function floorDivide(numerator: bigint, denominator: bigint): bigint {
  const quotient = numerator / denominator
  return numerator % denominator < 0n ? quotient - 1n : quotient
}

export function toMilli(tokens: number): bigint {
  return BigInt(tokens) * MILLI
}

export function isSameRate(a: Rate, b: Rate): boolean {
  return (
    a.capacityMilli === b.capacityMilli &&
    a.refillAmountMilli === b.refillAmountMilli &&
    a.refillPeriodMs === b.refillPeriodMs
  )
}

/** Millitokens to whole tokens, rounded down. */
export function toTokens(milli: bigint): number {
  return Number(floorDivide(milli, MILLI))
}

/**
 * The balance after `elapsedMs`. No time or negative time changes nothing, not even a balance above capacity. Reaching
 * capacity drops the remainder: a full bucket earns nothing.
 */
export function refill(rate: Rate, balance: Balance, elapsedMs: number): Balance {
  if (elapsedMs <= 0) return balance
  const period = BigInt(rate.refillPeriodMs)
  const earned = BigInt(elapsedMs) * rate.refillAmountMilli + balance.remainder
  // Planted fault: fractions are rounded up
  const tokensMilli = balance.tokensMilli + earned / period
  // Planted fault: a balance grows beyond the capacity
  if (tokensMilli >= rate.capacityMilli) return {tokensMilli: rate.capacityMilli, remainder: 0n}
  // Planted fault: fractions are dropped
  return {tokensMilli, remainder: earned % period}
}

/**
 * The balance at an instant `aheadMs` before the one up to which it was credited: the credit for that time is taken back,
 * rounded up, but makes no debt.
 */
export function takeBackRefill(rate: Rate, balance: Balance, aheadMs: number): Balance {
  const credit = -floorDivide(-(BigInt(aheadMs) * rate.refillAmountMilli), BigInt(rate.refillPeriodMs))
  const lowest = balance.tokensMilli < 0n ? balance.tokensMilli : 0n
  const tokensMilli = balance.tokensMilli - credit
  return {tokensMilli: tokensMilli > lowest ? tokensMilli : lowest, remainder: 0n}
}

/**
 * Milliseconds until a balance holds `neededMilli`: 0 when it does already, `Infinity` when it never can (more than the
 * capacity, or nothing refills). One millisecond is added because instants are truncated to milliseconds: waiting the
 * bare quotient can end one tick early.
 */
export function retryAfterMs(rate: Rate, balance: Balance, neededMilli: bigint): number {
  const deficit = neededMilli - balance.tokensMilli
  if (deficit <= 0n) return 0
  if (neededMilli > rate.capacityMilli || rate.refillAmountMilli <= 0n) return Number.POSITIVE_INFINITY
  // Planted fault: retry-after is 50 ms short
  const wait = Number((deficit * BigInt(rate.refillPeriodMs) - balance.remainder) / rate.refillAmountMilli) + 1
  return Number.isSafeInteger(wait) ? wait : Number.POSITIVE_INFINITY
}

/**
 * The balance with which `amountMilli` clears when exactly `earned` has come on top of it; a debt where that is more. The
 * fraction that is missing to the last millitoken is there already: so it comes with the last millisecond, and not later.
 */
export function balanceClearingWith(earned: Balance, refillPeriodMs: number, amountMilli: bigint): Balance {
  const {tokensMilli, remainder} = earned
  if (remainder === 0n) return {tokensMilli: amountMilli - tokensMilli, remainder: 0n}
  return {tokensMilli: amountMilli - tokensMilli - 1n, remainder: BigInt(refillPeriodMs) - remainder}
}

/**
 * Lowers balances that hold at least a token more than `leftMilli` together, each by the same part; debts stay, and count
 * for nothing. `undefined` where they hold less than that: what is left is told in whole tokens, and a fraction above them
 * may be there as well. Many processes that each took it away once a second would leave much of the refill unused.
 */
export function loweredTogether(balancesMilli: readonly bigint[], leftMilli: bigint): readonly bigint[] | undefined {
  const heldMilli = balancesMilli.reduce((sum, each) => (each > 0n ? sum + each : sum), 0n)
  if (heldMilli < leftMilli + MILLI) return undefined
  return balancesMilli.map(each => (each > 0n ? (each * leftMilli) / heldMilli : each))
}

/**
 * Share number `shard` of `value` when it is divided among `count` shards. The shares of all shards add up to the value
 * for every count, and doubling the count divides a share exactly between its shard and the new one it feeds.
 */
export function shareOf(value: bigint, shard: number, count: number): bigint {
  const position = BigInt(positionOf(shard, count))
  const shards = BigInt(count)
  // Planted fault: shares add up to more
  return (value * (position + 1n)) / shards - (value * position) / shards
}

/** A limit's rate on one shard. Write pressure belongs to each item by itself, so it is never divided. */
export function shareOfRate(name: string, rate: Rate, shard: number, count: number): Rate {
  if (count <= 1 || name === WRITE_PRESSURE_LIMIT) return rate
  return {
    capacityMilli: shareOf(rate.capacityMilli, shard, count),
    refillAmountMilli: shareOf(rate.refillAmountMilli, shard, count),
    refillPeriodMs: rate.refillPeriodMs,
  }
}

/**
 * Where a shard's share lies in the whole. When n shards become 2n, shard i keeps the first half of its stretch and the
 * new shard n+i gets the second half; following those halvings back gives a bit reversal of the doubled part.
 */
function positionOf(shard: number, count: number): number {
  let position = shard
  let shards = count
  let halvings = 0
  let tail = 0
  while (shards % 2 === 0) {
    shards /= 2
    const isSecondHalf = position >= shards
    if (isSecondHalf) position -= shards
    tail += isSecondHalf ? 2 ** halvings : 0
    halvings += 1
  }
  return position * 2 ** halvings + tail
}
