import {ZaelError} from '../../../src/lib/core/errors.js'
import type {LimitState} from '../../../src/lib/core/limits/limit-state.js'
import {
  Aborted,
  ConditionFailed,
  Conflict,
  TransactionCancelled,
  TransactionConflict,
  ValidationFailed,
} from '../../../src/lib/dynamo/errors.js'
import {RateLimitExceeded, RequestTooLarge} from '../../../src/lib/limiter/refusal/errors.js'
import type {Tokens} from '../scenario.js'
import {CACHE_PERIOD_MS, type LimitsTimeline} from './limits-timeline.js'
import type {Verdicts} from './verdicts.js'

/** Storage errors that must never reach a caller: each must end in a decision. */
const INTERNAL = [Conflict, ConditionFailed, TransactionCancelled, TransactionConflict, ValidationFailed]

/** L2, L3, L5: judges the responses that callers get. */
export class Answers {
  readonly #verdicts: Verdicts
  readonly #timeline: LimitsTimeline
  readonly #storedCapacity: (bucket: string, name: string, nowMs: number) => bigint

  constructor(
    timeline: LimitsTimeline,
    verdicts: Verdicts,
    storedCapacity: (bucket: string, name: string, nowMs: number) => bigint = () => 0n,
  ) {
    this.#storedCapacity = storedCapacity
    this.#timeline = timeline
    this.#verdicts = verdicts
  }

  /** An error that reached a caller of `what`. */
  failed(what: string, error: unknown): void {
    const isInternal = !(error instanceof ZaelError) || INTERNAL.some(kind => error instanceof kind)
    if (!isInternal || error instanceof Aborted) return
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    this.#verdicts.report('L6-internal-error', what, text)
  }

  /**
   * A refusal must name a finite wait, and only for amounts up to the capacity; a larger request must fail instead. If
   * a client changed limits without updating the bucket, a process's first refusal uses the stored limits and only its
   * second decision compares them (decision 25): `isFirst` names the buckets it had not decided on before. With faults,
   * a parent that could not be read is not part of the response.
   */
  refused(
    buckets: readonly string[],
    consume: Tokens,
    error: RateLimitExceeded | RequestTooLarge,
    nowMs: number,
    isFirst: (bucket: string) => boolean = () => false,
    isDisturbed = false,
  ): void {
    // Quotas and schedules have their own oracle.
    if (error instanceof RequestTooLarge && !this.#timeline.isJudged(error.limit)) return
    const isSettled = buckets.every(
      bucket => nowMs - this.#timeline.since(bucket) > CACHE_PERIOD_MS || this.#timeline.since(bucket) === 0,
    )
    if (!isSettled) return
    const tooLarge = buckets.filter(bucket => {
      const limits = this.#timeline.now(bucket)
      return Object.entries(consume).some(([name, tokens]) => {
        const rate = limits.get(name)
        const milli = BigInt(tokens) * 1000n
        const isStored = isFirst(bucket) && milli <= this.#storedCapacity(bucket, name, nowMs)
        return rate && milli > rate.capacity && !(isStored && error instanceof RateLimitExceeded)
      })
    })
    const subject = `${buckets.join(' + ')} ${JSON.stringify(consume)}`
    if (error instanceof RequestTooLarge) {
      if (tooLarge.length === 0) this.#verdicts.report('L3-too-large', subject, 'is refused as too large and is not')
      return
    }
    const isNamed = (bucket: string) =>
      error.statuses.some(({entity, resource}) => bucket.endsWith(`/${entity}/${resource}`))
    if (tooLarge.some(bucket => !isDisturbed || isNamed(bucket))) {
      this.#verdicts.report(
        'L3-oversized',
        subject,
        `is above the capacity, but was refused with a wait of ${error.retryAfterMs} ms`,
      )
    } else if (error.retryAfterMs === null) {
      const isQuota = ({name, retryAfterMs}: LimitState) => retryAfterMs === null && !this.#timeline.isJudged(name)
      if (tooLarge.length > 0 || error.statuses.some(isQuota)) return
      this.#verdicts.report('L2-infinite', subject, 'is below the capacity, but was refused without a wait')
    } else if (!(error.retryAfterMs > 0)) {
      this.#verdicts.report('L2-not-positive', subject, `was refused with a wait of ${error.retryAfterMs} ms`)
    }
  }

  /** A request was admitted without a charge for limits that were reported as not configured. */
  unlimited(bucket: string, names: readonly string[], nowMs: number): void {
    if (nowMs - this.#timeline.since(bucket) <= CACHE_PERIOD_MS && this.#timeline.since(bucket) !== 0) return
    for (const name of names) {
      if (!this.#timeline.now(bucket).has(name)) continue
      this.#verdicts.report(
        'S9-unlimited',
        `${bucket} ${name}`,
        'a request was not charged for a limit that is configured',
      )
    }
  }

  /**
   * A refusal names a limit that was too low at some instant of the call; if it names none, the bucket was contended.
   */
  contended(subject: string): void {
    this.#verdicts.report('L6-contended', subject, 'was refused although no limit was exceeded')
  }

  tooShort(subject: string, waitMs: number, againMs: number | null): void {
    this.#verdicts.report(
      'L2-too-short',
      subject,
      `waited ${waitMs} ms with no competitor, then was refused for ${againMs} ms`,
    )
  }

  late(what: string, tookMs: number, boundMs: number): void {
    this.#verdicts.report('L5-late', what, `took ${tookMs} ms, ${boundMs} are allowed`)
  }

  hangs(what: string): void {
    this.#verdicts.report('L5-hang', what, 'never ended')
  }

  exceedsTruth(subject: string, available: number, left: number): void {
    this.#verdicts.report(
      'L6-available',
      subject,
      `${available} tokens were reported as available, at most ${left} are`,
    )
  }

  neverHeals(subject: string, why: string): void {
    this.#verdicts.report('L1-heals', subject, why)
  }
}
