import type {ShardChange, StoredLimit, StoredShard} from '../world/table-writes.js'

/** The minimum balance of one limit on one shard, in exact fractions. */
interface Level {
  /** Millitokens without the refill since, minus possible overflow: `numerator` over the refill period. */
  numerator: bigint
  /** Epoch ms. */
  readonly refilledAt: bigint
  /** Balances since the last refill, in millitokens: a writer may have read any of them. */
  readonly balances: bigint[]
}

/**
 * The minimum balance of each limit between two refills. A charge without a refill comes from a balance that may have
 * overflowed by then; the next refill must not lose that overflow again. A charge counts from its arrival, by the clock
 * furthest ahead; a refund counts from before the refill.
 */
export class LowestLevels {
  readonly #levels = new Map<string, Level>()
  /** Maximum lead of the processes' clocks over the true time, in ms. */
  readonly #aheadMs: () => number

  constructor(aheadMs: () => number) {
    this.#aheadMs = aheadMs
  }

  /** Balances of a limit since its last refill. */
  balances(change: ShardChange, name: string): readonly bigint[] {
    const {balances} = this.#levels.get(keyOf(change, name)) ?? {}
    return balances ?? [change.before?.limits.get(name)?.tokens ?? 0n]
  }

  /**
   * The balance that a refill up to an instant must reach, before consumption: the numerator over the refill period.
   */
  after(change: ShardChange, name: string, limit: StoredLimit, atMs: bigint): bigint {
    const {numerator, refilledAt} = this.#levels.get(keyOf(change, name)) ?? levelOf(limit, change.before)
    const [reached, most] = [numerator + limit.amount * (atMs - refilledAt), limit.capacity * limit.period]
    return reached < most ? reached : most
  }

  observe(change: ShardChange, atMs: number): void {
    const {before, after} = change
    for (const [name, limit] of after?.limits ?? []) {
      const key = keyOf(change, name)
      const then = before?.limits.get(name)
      const known = this.#levels.get(key)
      // Provider feedback also takes fractions.
      const isLowered = before?.feedback.get(name) !== after?.feedback.get(name)
      if (!known || !then || isLowered || !isSameRefill(then, limit, before, after))
        this.#levels.set(key, levelOf(limit, after))
      else charge(known, limit, limit.tokens - then.tokens, BigInt(atMs + this.#aheadMs()))
    }
    if (!after) for (const name of before?.limits.keys() ?? []) this.#levels.delete(keyOf(change, name))
  }
}

function charge(level: Level, limit: StoredLimit, delta: bigint, atMs: bigint): void {
  const {capacity, amount, period} = limit
  if (delta > 0n) level.numerator += delta * period
  const over = level.numerator + amount * (atMs - level.refilledAt) - capacity * period
  if (over > 0n) level.numerator -= over
  if (delta < 0n) level.numerator += delta * period
  level.balances.push(limit.tokens)
}

function levelOf({tokens, period, remainder}: StoredLimit, shard: StoredShard | undefined): Level {
  return {numerator: tokens * period + remainder, refilledAt: shard?.refilledAt ?? 0n, balances: [tokens]}
}

/** Whether only the balance changed. */
function isSameRefill(
  then: StoredLimit,
  now: StoredLimit,
  before: StoredShard | undefined,
  after: StoredShard | undefined,
): boolean {
  return (
    before?.refilledAt === after?.refilledAt &&
    before?.shardCount === after?.shardCount &&
    then.capacity === now.capacity &&
    then.amount === now.amount &&
    then.period === now.period
  )
}

const keyOf = ({bucket, shard}: ShardChange, name: string): string => `${bucket} ${shard} ${name}`
