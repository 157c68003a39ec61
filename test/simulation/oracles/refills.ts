import {
  consumedBy,
  type ShardChange,
  type StoredLimit,
  type StoredShard,
  type TableWrite,
  type Writer,
} from '../world/table-writes.js'
import {CACHE_PERIOD_MS, type LimitsTimeline} from './limits-timeline.js'
import {LowestLevels} from './lowest-levels.js'
import type {Verdicts} from './verdicts.js'

/** A refill instant further ahead of a writer's clock is set back, in ms. Up to here it may be right, so it is kept. */
const MAX_AHEAD_MS = 86_400_000n

/**
 * S3, S6, S7, S9 for every write of a bucket item: the credit is at most the refill between the two refill instants,
 * the refill instant never moves back, a marked write applies once, and stored limits match the configuration.
 */
export class Refills {
  readonly #verdicts: Verdicts
  readonly #timeline: LimitsTimeline
  readonly #marks = new Set<string>()
  /** Limits that another client lowered below their balance, as `bucket shard name`. */
  readonly #lowered = new Set<string>()
  readonly #levels: LowestLevels

  /** Buckets that a process has decided on since it started, as `process.generation bucket`. */
  readonly #decided = new Set<string>()
  readonly #sharded = new Set<string>()
  readonly #generationOf: (process: number) => number

  /** Whether processes cache every bucket they decided on; otherwise any decision may be their first. */
  readonly #isAllCached: boolean

  constructor(
    timeline: LimitsTimeline,
    verdicts: Verdicts,
    {aheadMs = (): number => 0, generationOf = (_: number): number => 0, isAllCached = true} = {},
  ) {
    this.#isAllCached = isAllCached
    this.#generationOf = generationOf
    this.#levels = new LowestLevels(aheadMs)
    this.#timeline = timeline
    this.#verdicts = verdicts
  }

  /** `toppedUp`: limits that an operator topped up with this write; another oracle judges their credit. */
  observe(write: TableWrite, toppedUp: ReadonlySet<string> = new Set()): void {
    for (const {bucket, after} of write.shards) if ((after?.shardCount ?? 1) > 1) this.#sharded.add(bucket)
    this.#check(write, toppedUp)
    for (const change of write.shards) this.#levels.observe(change, write.atMs)
  }

  /** A process refused a request by the state of a bucket. With several shards, it may be another shard's state. */
  noteRefused(process: number, generation: number, bucket: string): void {
    if (!this.#sharded.has(bucket)) this.#decided.add(`${process}.${generation} ${bucket}`)
  }

  #check(write: TableWrite, toppedUp: ReadonlySet<string>): void {
    const {writer, shards} = write
    for (const change of shards) this.#checkMarks(change, write)
    for (const change of shards) this.#checkLowered(change, writer)
    if (writer.kind === 'python' || writer.kind === 'expiry' || writer.kind === 'setup') return
    for (const change of shards) this.#checkInstant(change, writer)
    // A split moves tokens between items: only their sum can be judged.
    const isMove = shards.some(({shard, before, after}) => shard > 0 && !before?.refilledAt && after?.refilledAt)
    if (isMove) this.#checkMove(shards)
    else if (writer.event !== 'reset') for (const change of shards) this.#checkCredit(change, toppedUp)
    if (writer.kind === 'limiter') for (const change of shards) this.#checkLimits(change, writer, write.atMs)
  }

  /** S9: if another client lowers a limit but not its balance, the next admitting write clamps it. */
  #checkLowered({bucket, shard, before, after}: ShardChange, {kind}: Writer): void {
    const admits = kind === 'limiter' && (after?.requests ?? 0) > (before?.requests ?? 0)
    for (const [name, now] of after?.limits ?? []) {
      const key = `${bucket} ${shard} ${name}`
      const then = before?.limits.get(name)
      const taken = admits ? now.consumed - (then?.consumed ?? 0n) : 0n
      const isOver = now.tokens + taken > now.capacity
      if (kind === 'python' && isOver && then && now.capacity < then.capacity) this.#lowered.add(key)
      else if (!isOver) this.#lowered.delete(key)
      if (taken <= 0n || !this.#lowered.has(key)) continue
      this.#verdicts.report('S9-not-clamped', `${bucket} ${name}`, 'tokens above a lowered capacity were taken')
    }
  }

  /** Whether a process may use the stored limits: it has not decided on the bucket before, or no longer caches it. */
  isFirst({bucket, before}: ShardChange, writer: Writer): boolean {
    const isKnown = this.#isAllCached && this.#decided.has(this.#decisionOf(bucket, writer))
    return writer.kind === 'limiter' && before?.refilledAt !== undefined && !isKnown
  }

  #decisionOf(bucket: string, {process}: Writer): string {
    return `${process}.${this.#generationOf(process)} ${bucket}`
  }

  #checkMarks(change: ShardChange, {writer, isTransaction = false}: TableWrite): void {
    const {bucket, shard, before, after} = change
    // A deleted bucket does not show a repeated write that recreates it (S6, not covered).
    if (!after) for (const key of this.#marks) if (key.startsWith(`${bucket} ${shard} `)) this.#marks.delete(key)
    const marks = [...(after?.marks ?? [])]
    // Every charge or refund leaves a mark, except a transaction, which has a token. If no mark is new, the mark is of
    // the previous write.
    const isUnchanged = marks.length > 0 && marks.every(([slot, mark]) => before?.marks.get(slot) === mark)
    if (writer.kind === 'limiter' && !isTransaction && isUnchanged && consumedBy(change).size > 0)
      this.#appliedTwice(change)
    for (const [slot, mark] of marks) {
      if (before?.marks.get(slot) === mark) continue
      const key = `${bucket} ${shard} ${slot} ${mark}`
      if (this.#marks.has(key)) this.#appliedTwice(change)
      this.#marks.add(key)
    }
  }

  #appliedTwice(change: ShardChange): void {
    const isReturn = [...consumedBy(change).values()].some(milli => milli < 0n)
    const oracle = isReturn ? 'S6-returned-twice' : 'S6-charged-twice'
    this.#verdicts.report(oracle, change.bucket, 'a write was applied twice')
  }

  /**
   * The instant moves back only to the writer's own clock, if it is more than a day ahead of it, or if an operator
   * resets the bucket. `isEarned` requires that the credit of the time between is removed.
   */
  #checkInstant({bucket, shard, before, after}: ShardChange, {event}: Writer): void {
    if (before?.refilledAt === undefined || after?.refilledAt === undefined || event === 'reset') return
    const backMs = before.refilledAt - after.refilledAt
    if (backMs <= 0n || backMs > MAX_AHEAD_MS) return
    this.#verdicts.report('S7-refill-instant', `${bucket} shard ${shard}`, 'the refill instant moved back')
  }

  #checkMove(shards: readonly ShardChange[]): void {
    const names = new Set(shards.flatMap(({after}) => [...(after?.limits.keys() ?? [])]))
    for (const name of names) {
      let credit = 0n
      for (const change of shards) credit += creditOf(change, name)
      if (credit > 0n) {
        const bucket = shards[0]?.bucket ?? ''
        this.#verdicts.report('S8-split', `${bucket} ${name}`, `a split created ${Number(credit) / 1000} tokens`)
      }
    }
  }

  #checkCredit(change: ShardChange, toppedUp: ReadonlySet<string>): void {
    const {bucket, shard, before, after} = change
    if (!after) return
    for (const [name, limit] of after.limits) {
      if (toppedUp.has(name)) continue
      const stored = before?.limits.get(name)
      const credit = creditOf(change, name)
      const isNew = before?.refilledAt === undefined || !stored || stored.capacity <= 0n
      if (!isNew && before && this.#isLost(change, name, credit, stored, limit)) {
        const subject = `${bucket} shard ${shard} ${name}`
        this.#verdicts.report('S3-lost', subject, `credited ${credit} millitokens, less than the time has earned`)
      }
      const isTooMuch = isNew
        ? credit > limit.capacity
        : !this.#levels.balances(change, name).some(tokens => isEarned(credit, {...stored, tokens}, before, after))
      if (!isTooMuch) continue
      const subject = `${bucket} shard ${shard} ${name}`
      this.#verdicts.report('S3-credit', subject, `credited ${credit} millitokens, more than the time has earned`)
    }
  }

  /**
   * Whether a consuming write moves the refill instant and drops part of the refill. Judged only with exact knowledge:
   * unchanged limits and one shard. Under contention (S3), a write may credit part of the time and drop the carried
   * fraction, and a limit that was full when seen may lose some refill.
   */
  #isLost(change: ShardChange, name: string, credit: bigint, then: StoredLimit, now: StoredLimit): boolean {
    const {before, after} = change as {before: StoredShard; after: StoredShard}
    const refilledAt = after.refilledAt ?? 0n
    const consumed = now.consumed - then.consumed
    const isSame = then.capacity === now.capacity && then.amount === now.amount && then.period === now.period
    if (refilledAt <= (before.refilledAt ?? 0n) || consumed <= 0n || !isSame) return false
    if (before.shardCount > 1 || after.shardCount > 1) return false
    const reached = (now.tokens + consumed) * now.period + now.remainder
    const lost = this.#levels.after(change, name, then, refilledAt) - reached
    const isExactStep = credit * now.period === (refilledAt - (before.refilledAt ?? 0n)) * now.amount
    // Several processes may have dropped that much, one after another.
    const mayHaveBeenFull = reached * 2n >= now.capacity * now.period
    return lost > 0n && !isExactStep && !(mayHaveBeenFull && lost <= mostGivenUp(now))
  }

  /**
   * S9: after the cache period, a process admits by the configured limits. One exception, decision 25: its first
   * decision on a bucket may use the stored limits, if its first write admits or refuses; the second compares them. So
   * the first decision, also after eviction from the cache, is not judged.
   */
  #checkLimits(change: ShardChange, writer: Writer, atMs: number): void {
    const {bucket, before, after} = change
    if (!after || after.refilledAt === undefined || (before && after.requests <= before.requests)) return
    const isFirst = this.isFirst(change, writer)
    this.#decided.add(this.#decisionOf(bucket, writer))
    if (isFirst || atMs - this.#timeline.since(bucket) <= CACHE_PERIOD_MS) return
    for (const [name, rate] of this.#timeline.now(bucket)) {
      const limit = after.limits.get(name)
      if (limit?.capacity === rate.capacity && limit.amount === rate.amount && limit.period === rate.period) continue
      this.#verdicts.report('S9-stale-limits', `${bucket} ${name}`, 'a request was admitted by limits of long ago')
    }
  }
}

/** In millitokens times the period: the refill of 3.5 s plus a 16th of the capacity, at most half of it. */
function mostGivenUp({capacity, amount, period}: StoredLimit): bigint {
  const [earned, half] = [amount * 3500n + (capacity * period) / 16n, (capacity * period) / 2n]
  return earned < half ? earned : half
}

/** The change of the balance by a write, minus its consumption. */
function creditOf({before, after}: ShardChange, name: string): bigint {
  const [then, now] = [before?.limits.get(name), after?.limits.get(name)]
  if (!now) return 0n
  return now.tokens + now.consumed - (then ? then.tokens + then.consumed : 0n)
}

function isEarned(credit: bigint, stored: StoredLimit, before: StoredShard, after: StoredShard): boolean {
  const elapsed = (after.refilledAt ?? 0n) - (before.refilledAt ?? 0n)
  const shards = BigInt(Math.max(1, before.shardCount))
  if (elapsed < 0n) {
    // Set back: at least the refill of that time is removed, without creating a debt.
    const earned = ((stored.amount / shards) * -elapsed) / stored.period
    const debt = stored.tokens < 0n ? stored.tokens : 0n
    const most = stored.tokens - earned > debt ? stored.tokens - earned : debt
    return stored.tokens + credit <= most
  }
  if (credit <= 0n) return true
  if (elapsed === 0n) return false
  const share = (stored.amount + shards - 1n) / shards
  return credit * stored.period <= share * elapsed + stored.remainder
}
