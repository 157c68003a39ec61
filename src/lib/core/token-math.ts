import {WRITE_PRESSURE_LIMIT} from './names.js'

/** Bigint, since products such as elapsed × amount pass 2^53 within a day on large limits. 1 token = 1000 milli. */
export interface Rate {
  readonly capacityMilli: bigint
  readonly refillAmountMilli: bigint
  readonly refillPeriodMs: number
}

/**
 * `remainder` is a fraction of a millitoken, as a numerator over `refillPeriodMs` (0 ≤ remainder < refillPeriodMs).
 * Carrying it lets a 10-per-day limit recover at the right speed when it is refilled every few milliseconds.
 */
export interface Balance {
  readonly tokensMilli: bigint
  readonly remainder: bigint
}

export const MILLI = 1000n

/** Rounds toward minus infinity: a debt of 1 milli shows as −1 token, never as 0. */
export function floorDivide(numerator: bigint, denominator: bigint): bigint {
  const quotient = numerator / denominator
  return numerator % denominator < 0n ? quotient - 1n : quotient
}

export function toMilli(tokens: number): bigint {
  return BigInt(tokens) * MILLI
}

/** Without a refill the period has no meaning: other clients store any value for a quota. */
export function isSameRate(a: Rate, b: Rate): boolean {
  return (
    a.capacityMilli === b.capacityMilli &&
    a.refillAmountMilli === b.refillAmountMilli &&
    (a.refillAmountMilli === 0n || a.refillPeriodMs === b.refillPeriodMs)
  )
}

/** Rounds down. */
export function toTokens(milli: bigint): number {
  return Number(floorDivide(milli, MILLI))
}

/** Zero or negative time changes nothing, not even a balance above capacity. A full bucket drops its remainder. */
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

/** Takes back the credit for `aheadMs`, rounded up, but never below zero or an existing debt. */
export function takeBackRefill(rate: Rate, balance: Balance, aheadMs: number): Balance {
  const credit = -floorDivide(-(BigInt(aheadMs) * rate.refillAmountMilli), BigInt(rate.refillPeriodMs))
  const lowest = balance.tokensMilli < 0n ? balance.tokensMilli : 0n
  const tokensMilli = balance.tokensMilli - credit
  return {tokensMilli: tokensMilli > lowest ? tokensMilli : lowest, remainder: 0n}
}

/** 3,000 years. A longer wait counts as never: its end would be beyond all dates. */
export const LONGEST_WAIT_MS = 10 ** 14

/** 0 if the balance suffices, `Infinity` if it never will. Adds 1 ms, since instants are truncated to milliseconds. */
export function retryAfterMs(rate: Rate, balance: Balance, neededMilli: bigint): number {
  const deficit = neededMilli - balance.tokensMilli
  if (deficit <= 0n) return 0
  if (neededMilli > rate.capacityMilli || rate.refillAmountMilli <= 0n) return Number.POSITIVE_INFINITY
  // Planted fault: retry-after is 50 ms short
  const wait = Number((deficit * BigInt(rate.refillPeriodMs) - balance.remainder) / rate.refillAmountMilli) + 1
  return wait <= LONGEST_WAIT_MS ? wait : Number.POSITIVE_INFINITY
}

/** Millitokens that refill adds at least. */
export function earnedMilli({refillAmountMilli, refillPeriodMs}: Rate, ms: number): bigint {
  return refillPeriodMs > 0 ? (refillAmountMilli * BigInt(Math.floor(ms))) / BigInt(refillPeriodMs) : 0n
}

/** The balance that reaches `amountMilli` exactly, to the millisecond, when `earned` is added; may be a debt. */
export function balanceClearingWith(earned: Balance, refillPeriodMs: number, amountMilli: bigint): Balance {
  const {tokensMilli, remainder} = earned
  if (remainder === 0n) return {tokensMilli: amountMilli - tokensMilli, remainder: 0n}
  return {tokensMilli: amountMilli - tokensMilli - 1n, remainder: BigInt(refillPeriodMs) - remainder}
}

/**
 * Lowers positive balances proportionally to `leftMilli` in total; ignores debts. `undefined` unless they hold at least
 * one token more: `leftMilli` is in whole tokens, and removing a real fraction every second would waste refill.
 */
export function loweredTogether(balancesMilli: readonly bigint[], leftMilli: bigint): readonly bigint[] | undefined {
  const heldMilli = balancesMilli.reduce((sum, each) => (each > 0n ? sum + each : sum), 0n)
  if (heldMilli < leftMilli + MILLI) return undefined
  return balancesMilli.map(each => (each > 0n ? (each * leftMilli) / heldMilli : each))
}

/** The shares of all shards add up to the value. Doubling divides a share exactly between its shard and the new one. */
export function shareOf(value: bigint, shard: number, count: number): bigint {
  const position = BigInt(positionOf(shard, count))
  const shards = BigInt(count)
  // Planted fault: shares add up to more
  return (value * (position + 1n)) / shards - (value * position) / shards
}

/** Write pressure is measured per item, so it is not divided. */
export function shareOfRate(name: string, rate: Rate, shard: number, count: number): Rate {
  if (count <= 1 || name === WRITE_PRESSURE_LIMIT) return rate
  return {
    capacityMilli: shareOf(rate.capacityMilli, shard, count),
    refillAmountMilli: shareOf(rate.refillAmountMilli, shard, count),
    refillPeriodMs: rate.refillPeriodMs,
  }
}

/** Splitting n shards to 2n gives shard n+i the second half of shard i's range: a bit reversal of the doubled part. */
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
