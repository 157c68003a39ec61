import type {ShardChange, StoredLimit, StoredShard, TableWrite} from '../world/table-writes.js'
import type {Verdicts} from './verdicts.js'

/** Provider feedback about one limit of a bucket, in millitokens. */
export interface AskedFeedback {
  readonly bucket: string
  readonly name: string
  readonly leftMilli?: bigint
  /** Age, in ms. */
  readonly ageMs?: number
  readonly refusedMilli?: bigint
}

/**
 * S1, S2, S6 of provider feedback: the balance becomes a reported value, never above the capacity; no consumption is
 * counted; a write applies once. Other oracles judge that feedback never credits more than the refill.
 */
export class Feedback {
  readonly #verdicts: Verdicts
  readonly #asked = new Map<string, AskedFeedback[]>()
  /** When a bucket last gained tokens other than by refill (refund, reset, changed limits), in epoch ms. */
  readonly #raisedAtMs = new Map<string, number>()

  constructor(verdicts: Verdicts) {
    this.#verdicts = verdicts
  }

  noteAsked(feedback: AskedFeedback): void {
    const key = `${feedback.bucket} ${feedback.name}`
    this.#asked.set(key, [...(this.#asked.get(key) ?? []), feedback])
  }

  /** Whether a bucket gained tokens other than by refill since an instant, in epoch ms. */
  isRaised(bucket: string, sinceMs: number): boolean {
    return (this.#raisedAtMs.get(bucket) ?? Number.NEGATIVE_INFINITY) >= sinceMs
  }

  /** Returns the buckets whose balances a write lowered by provider feedback. */
  observe({writer, shards, atMs}: TableWrite): string[] {
    const changed = shards.filter(change => writer.kind === 'limiter' && lowered(change).length > 0)
    for (const change of changed) this.#judge(change)
    for (const change of shards)
      if (isRaise(change, writer.kind === 'limiter')) this.#raisedAtMs.set(change.bucket, atMs)
    if (writer.kind === 'limiter' && shards.length === 1)
      for (const change of shards) if (isRepeated(change)) this.#appliedTwice(change)
    return changed.map(({bucket}) => bucket)
  }

  /** After feedback without faults, the bucket holds at most one token more than reported plus refilled. */
  checkApplied({bucket, name, leftMilli = 0n, ageMs = 0}: AskedFeedback, shard: StoredShard, passedMs: number): void {
    const limit = shard.limits.get(name)
    if (!limit || shard.shardCount > 1) return
    const most = leftMilli + earned(limit, ageMs + passedMs) + 1000n
    // A refund to a full bucket is stored, and cut by the next refill: it cannot be used.
    const held = limit.tokens < limit.capacity ? limit.tokens : limit.capacity
    if (held <= most) return
    this.#report('L6-feedback-lost', `${bucket} ${name}`, `holds ${held} millitokens, at most ${most} were reported`)
  }

  #judge(change: ShardChange): void {
    const {bucket, shard, before, after} = change
    const subject = `${bucket} shard ${shard}`
    const isCounted = [...(after?.limits ?? [])].some(
      ([name, {consumed}]) => consumed !== (before?.limits.get(name)?.consumed ?? 0n),
    )
    if (isCounted || after?.requests !== before?.requests)
      this.#report('S2-feedback-counted', subject, 'feedback was counted as consumption')
    for (const name of lowered(change)) {
      const [then, now] = [before?.limits.get(name), after?.limits.get(name)]
      if (!then || !now || !after) continue
      const share = now.capacity / BigInt(after.shardCount) + 1n
      if (now.tokens > share && now.tokens > then.tokens)
        this.#report('S1-feedback-above', `${subject} ${name}`, 'feedback left more than the capacity')
      if (after.shardCount > 1) continue
      const text = after.feedback.get(name) ?? ''
      if (this.#asked.get(`${bucket} ${name}`)?.some(feedback => isObeyed(feedback, now, after, text))) continue
      const message = `feedback left ${now.tokens} millitokens (${after.feedback.get(name)}), which was never reported`
      this.#report('S6-feedback-amount', `${subject} ${name}`, message)
    }
  }

  #appliedTwice({bucket}: ShardChange): void {
    this.#report('S6-feedback-twice', bucket, 'a write of feedback was applied twice')
  }

  #report(oracle: string, subject: string, message: string): void {
    this.#verdicts.report(oracle, subject, message)
  }
}

/** The limits that a write reports as lowered. */
function lowered({before, after}: ShardChange): string[] {
  return [...(after?.feedback ?? [])].flatMap(([name, text]) => (before?.feedback.get(name) === text ? [] : [name]))
}

/** Whether a balance matches one feedback, by the stored rate. */
function isObeyed(feedback: AskedFeedback, limit: StoredLimit, {refilledAt}: StoredShard, text: string): boolean {
  const clearsAt = /clears:(\d+)$/.exec(text)?.[1]
  if (clearsAt === undefined) {
    if (feedback.leftMilli === undefined) return false
    const most = feedback.leftMilli + earned(limit, feedback.ageMs ?? 0)
    return limit.tokens <= most && limit.tokens >= most - 1n
  }
  if (feedback.refusedMilli === undefined) return false
  const waitMs = BigInt(clearsAt) - (refilledAt ?? 0n)
  const then = limit.tokens * limit.period + limit.remainder + limit.amount * (waitMs > 0n ? waitMs : 0n)
  return then < (feedback.refusedMilli + 1n) * limit.period && then >= feedback.refusedMilli * limit.period
}

function earned({amount, period}: StoredLimit, ms: number): bigint {
  return (amount * BigInt(Math.ceil(ms)) + period - 1n) / period
}

function isRaise({before, after}: ShardChange, isLimiter: boolean): boolean {
  if (!before || !after || !isLimiter) return true
  return [...after.limits].some(([name, now]) => {
    const then = before.limits.get(name)
    return !then || now.consumed < then.consumed || now.capacity !== then.capacity || now.amount !== then.amount
  })
}

/**
 * A write without its own mark that lowers balances and counts nothing. Splits lower too, but change the shard count.
 */
function isRepeated({before, after}: ShardChange): boolean {
  if (!before || !after || before.shardCount !== after.shardCount || after.feedback.size === 0) return false
  if ([...after.marks].some(([slot, mark]) => before.marks.get(slot) !== mark)) return false
  return [...after.limits].some(([name, now]) => {
    const then = before.limits.get(name)
    return then !== undefined && now.tokens < then.tokens && now.consumed === then.consumed
  })
}
