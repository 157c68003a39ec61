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

/** An instant further ahead of a writer's clock than this is set back, in ms; one up to here is waited for: it may be right. */
const MAX_AHEAD_MS = 86_400_000n

/**
 * S3, S6, S7, S9 on every single write of a bucket item: no more is credited than the time between the two refill
 * instants has earned, the refill instant never moves back, a marked write is applied once, stored limits are those
 * that are configured.
 */
export class Refills {
  readonly #verdicts: Verdicts
  readonly #timeline: LimitsTimeline
  readonly #marks = new Set<string>()
  /** Limits that another client has lowered below their balance, as `bucket shard name`. */
  readonly #lowered = new Set<string>()
  readonly #levels: LowestLevels

  /** Buckets of which a process has decided something since it was started, as `process.generation bucket`. */
  readonly #decided = new Set<string>()
  readonly #sharded = new Set<string>()
  readonly #generationOf: (process: number) => number

  /** Whether processes cache every bucket that they have decided about; otherwise any decision may be their first. */
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

  /** `toppedUp` are limits that an operator has added to with this write: what it may credit is judged elsewhere. */
  observe(write: TableWrite, toppedUp: ReadonlySet<string> = new Set()): void {
    for (const {bucket, after} of write.shards) if ((after?.shardCount ?? 1) > 1) this.#sharded.add(bucket)
    this.#check(write, toppedUp)
    for (const change of write.shards) this.#levels.observe(change, write.atMs)
  }

  /** A process has refused a request of a bucket, by its state. Of a divided one that may be the state of other shards. */
  noteRefused(process: number, generation: number, bucket: string): void {
    if (!this.#sharded.has(bucket)) this.#decided.add(`${process}.${generation} ${bucket}`)
  }

  #check(write: TableWrite, toppedUp: ReadonlySet<string>): void {
    const {writer, shards} = write
    for (const change of shards) this.#checkMarks(change, write)
    for (const change of shards) this.#checkLowered(change, writer)
    if (writer.kind === 'python' || writer.kind === 'expiry' || writer.kind === 'setup') return
    for (const change of shards) this.#checkInstant(change, writer)
    // A split moves tokens between items: only their sum tells.
    const isMove = shards.some(({shard, before, after}) => shard > 0 && !before?.refilledAt && after?.refilledAt)
    if (isMove) this.#checkMove(shards)
    else if (writer.deed !== 'reset') for (const change of shards) this.#checkCredit(change, toppedUp)
    if (writer.kind === 'limiter') for (const change of shards) this.#checkLimits(change, writer, write.atMs)
  }

  /** S9: what another client has lowered without its balance is clamped by the write that next admits. */
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

  /** Whether a process decides by limits as they are stored: it has decided nothing of the bucket before, or has forgotten it. */
  isFirst({bucket, before}: ShardChange, writer: Writer): boolean {
    const isKnown = this.#isAllCached && this.#decided.has(this.#decisionOf(bucket, writer))
    return writer.kind === 'limiter' && before?.refilledAt !== undefined && !isKnown
  }

  #decisionOf(bucket: string, {process}: Writer): string {
    return `${process}.${this.#generationOf(process)} ${bucket}`
  }

  #checkMarks(change: ShardChange, {writer, isTransaction = false}: TableWrite): void {
    const {bucket, shard, before, after} = change
    // A deleted bucket shows nothing of a write that arrives again and creates it anew (S6, not covered).
    if (!after) for (const key of this.#marks) if (key.startsWith(`${bucket} ${shard} `)) this.#marks.delete(key)
    const marks = [...(after?.marks ?? [])]
    // Every charge or return leaves its mark, but that of a transaction, which has a token: where none is new, it is that
    // of the write before.
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
   * The instant moves back only to the writer's own clock, when it is more than a day ahead of that, or when an operator
   * fills the bucket. `isEarned` demands that what the time between had brought is taken back.
   */
  #checkInstant({bucket, shard, before, after}: ShardChange, {deed}: Writer): void {
    if (before?.refilledAt === undefined || after?.refilledAt === undefined || deed === 'reset') return
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
   * Whether a write that consumes moves the refill instant and drops a part of what was earned. Only where everything is
   * known exactly: the limits stay and the bucket has one shard. Under contention (S3) a write may credit a part of the time
   * and give up the carried fraction, and a limit that was full when it was seen may give up some of it.
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
    // Several processes may have given up as much, one after the other.
    const mayHaveBeenFull = reached * 2n >= now.capacity * now.period
    return lost > 0n && !isExactStep && !(mayHaveBeenFull && lost <= mostGivenUp(now))
  }

  /**
   * S9: a process that admits uses the limits that are configured, once the cache period is over. One allowance, decision
   * 25: its first decision on a bucket takes the limits as they are stored, if that is an admission by its first write, or a
   * refusal; the second compares. So an admission is not judged where the process has decided nothing of the bucket before,
   * or has forgotten it.
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

/** In millitokens times the period: what is earned in 3.5 s and a 16th of the capacity, up to half of it. */
function mostGivenUp({capacity, amount, period}: StoredLimit): bigint {
  const [earned, half] = [amount * 3500n + (capacity * period) / 16n, (capacity * period) / 2n]
  return earned < half ? earned : half
}

/** What a write added to the balance besides what it consumed. */
function creditOf({before, after}: ShardChange, name: string): bigint {
  const [then, now] = [before?.limits.get(name), after?.limits.get(name)]
  if (!now) return 0n
  return now.tokens + now.consumed - (then ? then.tokens + then.consumed : 0n)
}

function isEarned(credit: bigint, stored: StoredLimit, before: StoredShard, after: StoredShard): boolean {
  const elapsed = (after.refilledAt ?? 0n) - (before.refilledAt ?? 0n)
  const shards = BigInt(Math.max(1, before.shardCount))
  if (elapsed < 0n) {
    // Set back: at least what the time between has earned is gone, but no debt is made of it.
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
