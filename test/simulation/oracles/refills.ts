import {
  consumedBy,
  type ShardChange,
  type StoredLimit,
  type StoredShard,
  type TableWrite,
} from '../world/table-writes.js'
import {CACHE_PERIOD_MS, type LimitsTimeline} from './limits-timeline.js'
import type {Verdicts} from './verdicts.js'

/**
 * S3, S6, S7, S9 on every single write of a bucket item: no more is credited than the time between the two refill
 * instants has earned, the refill instant never moves back, a marked write is applied once, stored limits are those
 * that are configured.
 */
export class Refills {
  readonly #verdicts: Verdicts
  readonly #timeline: LimitsTimeline
  readonly #marks = new Set<string>()
  readonly #sharedSlots: boolean

  constructor(timeline: LimitsTimeline, verdicts: Verdicts, sharedSlots: boolean) {
    this.#sharedSlots = sharedSlots
    this.#timeline = timeline
    this.#verdicts = verdicts
  }

  observe(write: TableWrite): void {
    const {writer, shards} = write
    for (const change of shards) this.#checkMarks(change)
    if (writer.kind === 'python' || writer.kind === 'expiry' || writer.kind === 'setup') return
    for (const change of shards) this.#checkInstant(change)
    // A split moves tokens between items: only their sum tells.
    const isMove = shards.some(({shard, before, after}) => shard > 0 && !before?.refilledAt && after?.refilledAt)
    if (isMove) this.#checkMove(shards)
    else if (writer.deed !== 'reset') for (const change of shards) this.#checkCredit(change)
    if (writer.kind === 'limiter') for (const change of shards) this.#checkLimits(change, write.atMs)
  }

  #checkMarks(change: ShardChange): void {
    const {bucket, shard, before, after} = change
    for (const [slot, mark] of after?.marks ?? []) {
      if (before?.marks.get(slot) === mark) continue
      const key = `${bucket} ${shard} ${slot} ${mark}`
      if (this.#marks.has(key)) {
        const isReturn = [...consumedBy(change).values()].some(milli => milli < 0n)
        const oracle = isReturn ? 'S6-returned-twice' : 'S6-charged-twice'
        if (isReturn || !this.#sharedSlots) this.#verdicts.report(oracle, bucket, `the write ${mark} was applied twice`)
      }
      this.#marks.add(key)
    }
  }

  #checkInstant({bucket, shard, before, after}: ShardChange): void {
    if (before?.refilledAt === undefined || after?.refilledAt === undefined) return
    if (after.refilledAt >= before.refilledAt) return
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

  #checkCredit(change: ShardChange): void {
    const {bucket, shard, before, after} = change
    if (!after) return
    for (const [name, limit] of after.limits) {
      const stored = before?.limits.get(name)
      const credit = creditOf(change, name)
      const isNew = before?.refilledAt === undefined || !stored || stored.capacity <= 0n
      if (!isNew && before && isLost(credit, stored, limit, before, after)) {
        const subject = `${bucket} shard ${shard} ${name}`
        this.#verdicts.report('S3-lost', subject, `credited ${credit} millitokens, less than the time has earned`)
      }
      const isTooMuch = isNew ? credit > limit.capacity : !isEarned(credit, stored, before, after)
      if (!isTooMuch) continue
      const subject = `${bucket} shard ${shard} ${name}`
      this.#verdicts.report('S3-credit', subject, `credited ${credit} millitokens, more than the time has earned`)
    }
  }

  /** S9: a process that admits uses the limits that are configured, once the cache period is over. */
  #checkLimits({bucket, before, after}: ShardChange, atMs: number): void {
    if (!after || after.refilledAt === undefined || atMs - this.#timeline.since(bucket) <= CACHE_PERIOD_MS) return
    if (before && after.requests <= before.requests) return
    for (const [name, rate] of this.#timeline.now(bucket)) {
      const limit = after.limits.get(name)
      if (limit?.capacity === rate.capacity && limit.amount === rate.amount && limit.period === rate.period) continue
      this.#verdicts.report('S9-stale-limits', `${bucket} ${name}`, 'a request was admitted by limits of long ago')
    }
  }
}

/** What a write added to the balance besides what it consumed. */
function creditOf({before, after}: ShardChange, name: string): bigint {
  const [then, now] = [before?.limits.get(name), after?.limits.get(name)]
  if (!now) return 0n
  return now.tokens + now.consumed - (then ? then.tokens + then.consumed : 0n)
}

/**
 * Whether a write that consumes moves the refill instant and drops a part of what was earned. Only where everything is
 * known exactly: the limits stay, the bucket has one shard and was not full. Under contention a bucket that is nearly full
 * may forgo up to a 64th of its capacity.
 */
function isLost(credit: bigint, then: StoredLimit, now: StoredLimit, before: StoredShard, after: StoredShard): boolean {
  const elapsed = (after.refilledAt ?? 0n) - (before.refilledAt ?? 0n)
  const consumed = now.consumed - then.consumed
  const isSame = then.capacity === now.capacity && then.amount === now.amount && then.period === now.period
  const isFull = now.tokens + consumed >= now.capacity
  if (elapsed <= 0n || consumed <= 0n || !isSame || isFull || before.shardCount > 1 || after.shardCount > 1)
    return false
  const lost = now.amount * elapsed + then.remainder - credit * now.period - now.remainder
  const isForgone = credit === 0n && lost * 64n <= now.capacity * now.period
  return lost > 0n && !isForgone
}

function isEarned(credit: bigint, stored: StoredLimit, before: StoredShard, after: StoredShard): boolean {
  if (credit <= 0n) return true
  const elapsed = (after.refilledAt ?? 0n) - (before.refilledAt ?? 0n)
  if (elapsed <= 0n) return false
  const shards = BigInt(Math.max(1, before.shardCount))
  const share = (stored.amount + shards - 1n) / shards
  return credit * stored.period <= share * elapsed + stored.remainder
}
