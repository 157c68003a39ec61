import type {ShardChange, StoredLimit, StoredShard, TableWrite} from '../world/table-writes.js'
import type {Verdicts} from './verdicts.js'

/** What was told about one limit of a bucket, in millitokens. */
export interface AskedFeedback {
  readonly bucket: string
  readonly name: string
  readonly leftMilli?: bigint
  /** How old it is, in ms. */
  readonly ageMs?: number
  readonly refusedMilli?: bigint
}

/**
 * S1, S2, S6 of feedback: the balance is afterwards what some feedback has told, and never above the capacity;
 * nothing is counted as used; one write is applied once. That no feedback credits more than time has earned is judged as
 * with every other write.
 */
export class Feedback {
  readonly #verdicts: Verdicts
  readonly #asked = new Map<string, AskedFeedback[]>()
  /** When something was last added to a bucket other than by refill: returned, filled, changed; epoch ms. */
  readonly #raisedAtMs = new Map<string, number>()

  constructor(verdicts: Verdicts) {
    this.#verdicts = verdicts
  }

  noteAsked(feedback: AskedFeedback): void {
    const key = `${feedback.bucket} ${feedback.name}`
    this.#asked.set(key, [...(this.#asked.get(key) ?? []), feedback])
  }

  /** Whether a bucket was raised since an instant, in epoch ms, by something else than refill. */
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

  /** After a feedback that nothing has disturbed: the bucket holds no more than a token above what was told and refilled. */
  checkApplied({bucket, name, leftMilli = 0n, ageMs = 0}: AskedFeedback, shard: StoredShard, passedMs: number): void {
    const limit = shard.limits.get(name)
    if (!limit || shard.shardCount > 1) return
    const most = leftMilli + earned(limit, ageMs + passedMs) + 1000n
    // What was returned to a full bucket is stored, and cut by the next refill: nobody can use it.
    const held = limit.tokens < limit.capacity ? limit.tokens : limit.capacity
    if (held <= most) return
    this.#report('L6-feedback-lost', `${bucket} ${name}`, `holds ${held} millitokens, told were ${most}`)
  }

  #judge(change: ShardChange): void {
    const {bucket, shard, before, after} = change
    const subject = `${bucket} shard ${shard}`
    const isCounted = [...(after?.limits ?? [])].some(
      ([name, {consumed}]) => consumed !== (before?.limits.get(name)?.consumed ?? 0n),
    )
    if (isCounted || after?.requests !== before?.requests)
      this.#report('S2-feedback-counted', subject, 'a feedback was counted as used')
    for (const name of lowered(change)) {
      const [then, now] = [before?.limits.get(name), after?.limits.get(name)]
      if (!then || !now || !after) continue
      const share = now.capacity / BigInt(after.shardCount) + 1n
      if (now.tokens > share && now.tokens > then.tokens)
        this.#report('S1-feedback-above', `${subject} ${name}`, 'a feedback has left more than the capacity')
      if (after.shardCount > 1) continue
      const told = after.told.get(name) ?? ''
      if (this.#asked.get(`${bucket} ${name}`)?.some(feedback => isObeyed(feedback, now, after, told))) continue
      const message = `a feedback has left ${now.tokens} millitokens (${after.told.get(name)}), which nobody has told`
      this.#report('S6-feedback-amount', `${subject} ${name}`, message)
    }
  }

  #appliedTwice({bucket}: ShardChange): void {
    this.#report('S6-feedback-twice', bucket, 'a write that lowers was applied twice')
  }

  #report(oracle: string, subject: string, message: string): void {
    this.#verdicts.report(oracle, subject, message)
  }
}

/** The limits of which a write says that they were lowered. */
function lowered({before, after}: ShardChange): string[] {
  return [...(after?.told ?? [])].flatMap(([name, text]) => (before?.told.get(name) === text ? [] : [name]))
}

/** Whether a balance is what one feedback demands, by the rate that is stored. */
function isObeyed(feedback: AskedFeedback, limit: StoredLimit, {refilledAt}: StoredShard, told: string): boolean {
  const clearsAt = /clears:(\d+)$/.exec(told)?.[1]
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

/** Rounded up. */
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

/** A write without a mark of its own that lowers and counts nothing. Splits, which lower as well, change the number of shards. */
function isRepeated({before, after}: ShardChange): boolean {
  if (!before || !after || before.shardCount !== after.shardCount || after.told.size === 0) return false
  if ([...after.marks].some(([slot, mark]) => before.marks.get(slot) !== mark)) return false
  return [...after.limits].some(([name, now]) => {
    const then = before.limits.get(name)
    return then !== undefined && now.tokens < then.tokens && now.consumed === then.consumed
  })
}
