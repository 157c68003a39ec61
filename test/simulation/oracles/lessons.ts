import type {ShardChange, StoredLimit, StoredShard, TableWrite} from '../world/table-writes.js'
import type {Verdicts} from './verdicts.js'

/** What was told about one limit of a bucket, in millitokens. */
export interface AskedLesson {
  readonly bucket: string
  readonly name: string
  readonly leftMilli?: bigint
  /** How old it is, in ms. */
  readonly ageMs?: number
  readonly refusedMilli?: bigint
}

/**
 * S1, S2, S6 of lessons: the balance is afterwards what some lesson has told, and never above the capacity;
 * nothing is counted as used; one write is applied once. That no lesson credits more than time has earned is judged as
 * with every other write.
 */
export class Lessons {
  readonly #verdicts: Verdicts
  readonly #asked = new Map<string, AskedLesson[]>()
  /** When something was last added to a bucket other than by refill: returned, filled, changed; epoch ms. */
  readonly #raisedAtMs = new Map<string, number>()

  constructor(verdicts: Verdicts) {
    this.#verdicts = verdicts
  }

  noteAsked(lesson: AskedLesson): void {
    const key = `${lesson.bucket} ${lesson.name}`
    this.#asked.set(key, [...(this.#asked.get(key) ?? []), lesson])
  }

  /** Whether a bucket was raised since an instant, in epoch ms, by something else than refill. */
  isRaised(bucket: string, sinceMs: number): boolean {
    return (this.#raisedAtMs.get(bucket) ?? Number.NEGATIVE_INFINITY) >= sinceMs
  }

  /** The buckets that a write has taught something. */
  observe({writer, shards, atMs}: TableWrite): string[] {
    const taught = shards.filter(change => writer.kind === 'limiter' && lowered(change).length > 0)
    for (const change of taught) this.#judge(change)
    for (const change of shards)
      if (isRaise(change, writer.kind === 'limiter')) this.#raisedAtMs.set(change.bucket, atMs)
    if (writer.kind === 'limiter' && shards.length === 1)
      for (const change of shards) if (isRepeated(change)) this.#learntTwice(change)
    return taught.map(({bucket}) => bucket)
  }

  /** After a lesson that nothing has disturbed: the bucket holds no more than a token above what was told and refilled. */
  checkLearnt({bucket, name, leftMilli = 0n, ageMs = 0}: AskedLesson, shard: StoredShard, passedMs: number): void {
    const limit = shard.limits.get(name)
    if (!limit || shard.shardCount > 1) return
    const most = leftMilli + earned(limit, ageMs + passedMs) + 1000n
    // What was returned to a full bucket is stored, and cut by the next refill: nobody can use it.
    const held = limit.tokens < limit.capacity ? limit.tokens : limit.capacity
    if (held <= most) return
    this.#report('L6-lesson-lost', `${bucket} ${name}`, `holds ${held} millitokens, told were ${most}`)
  }

  #judge(change: ShardChange): void {
    const {bucket, shard, before, after} = change
    const subject = `${bucket} shard ${shard}`
    const isCounted = [...(after?.limits ?? [])].some(
      ([name, {consumed}]) => consumed !== (before?.limits.get(name)?.consumed ?? 0n),
    )
    if (isCounted || after?.requests !== before?.requests)
      this.#report('S2-lesson-counted', subject, 'a lesson was counted as used')
    for (const name of lowered(change)) {
      const [then, now] = [before?.limits.get(name), after?.limits.get(name)]
      if (!then || !now || !after) continue
      const share = now.capacity / BigInt(after.shardCount) + 1n
      if (now.tokens > share && now.tokens > then.tokens)
        this.#report('S1-lesson-above', `${subject} ${name}`, 'a lesson has left more than the capacity')
      if (after.shardCount > 1) continue
      const told = after.told.get(name) ?? ''
      if (this.#asked.get(`${bucket} ${name}`)?.some(lesson => isObeyed(lesson, now, after, told))) continue
      const message = `a lesson has left ${now.tokens} millitokens (${after.told.get(name)}), which nobody has told`
      this.#report('S6-lesson-amount', `${subject} ${name}`, message)
    }
  }

  #learntTwice({bucket}: ShardChange): void {
    this.#report('S6-learnt-twice', bucket, 'a write that lowers was applied twice')
  }

  #report(oracle: string, subject: string, message: string): void {
    this.#verdicts.report(oracle, subject, message)
  }
}

/** The limits of which a write says that they were taught. */
function lowered({before, after}: ShardChange): string[] {
  return [...(after?.told ?? [])].flatMap(([name, text]) => (before?.told.get(name) === text ? [] : [name]))
}

/** Whether a balance is what one lesson demands, by the rate that is stored. */
function isObeyed(lesson: AskedLesson, limit: StoredLimit, {refilledAt}: StoredShard, told: string): boolean {
  const clearsAt = /clears:(\d+)$/.exec(told)?.[1]
  if (clearsAt === undefined) {
    if (lesson.leftMilli === undefined) return false
    const most = lesson.leftMilli + earned(limit, lesson.ageMs ?? 0)
    return limit.tokens <= most && limit.tokens >= most - 1n
  }
  if (lesson.refusedMilli === undefined) return false
  const waitMs = BigInt(clearsAt) - (refilledAt ?? 0n)
  const then = limit.tokens * limit.period + limit.remainder + limit.amount * (waitMs > 0n ? waitMs : 0n)
  return then < (lesson.refusedMilli + 1n) * limit.period && then >= lesson.refusedMilli * limit.period
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
