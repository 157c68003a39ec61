import {ZaelError} from '../../../src/lib/core/errors.js'
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

/** Failures of the table that mean nothing to a caller: every one of them has to end in a decision. */
const INTERNAL = [Conflict, ConditionFailed, TransactionCancelled, TransactionConflict, ValidationFailed]

/** L2, L3, L5: what callers are told. */
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
   * A refusal must name a finite wait below the capacity, and a request above it must not be refused but fail. Where a
   * client has changed limits without updating the bucket, the first refusal of a process goes by what is stored, and only
   * its second decision compares (decision 25): `isFirst` tells of which buckets it had decided nothing before. Where calls
   * were disturbed, a parent that could not be read has no part in the answer.
   */
  refused(
    buckets: readonly string[],
    consume: Tokens,
    error: RateLimitExceeded | RequestTooLarge,
    nowMs: number,
    isFirst: (bucket: string) => boolean = () => false,
    isDisturbed = false,
  ): void {
    // Quotas and schedules have an oracle of their own.
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
    const isTold = (bucket: string) =>
      error.statuses.some(({entity, resource}) => bucket.endsWith(`/${entity}/${resource}`))
    if (tooLarge.some(bucket => !isDisturbed || isTold(bucket))) {
      this.#verdicts.report(
        'L3-oversized',
        subject,
        `is above the capacity and is told to wait ${error.retryAfterMs} ms`,
      )
    } else if (tooLarge.length === 0 && !Number.isFinite(error.retryAfterMs)) {
      this.#verdicts.report('L2-infinite', subject, 'is below the capacity and is told to wait for ever')
    } else if (!(error.retryAfterMs > 0)) {
      this.#verdicts.report('L2-not-positive', subject, `is told to wait ${error.retryAfterMs} ms`)
    }
  }

  /** A request was admitted without a charge for limits of which it was told that they are not configured. */
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

  /** A refusal names a limit that could not be paid at some instant of the call; without one the bucket was contended. */
  contended(subject: string): void {
    this.#verdicts.report('L6-contended', subject, 'was refused although no limit was exceeded')
  }

  tooShort(subject: string, waitMs: number, againMs: number): void {
    this.#verdicts.report(
      'L2-too-short',
      subject,
      `waited ${waitMs} ms with no competitor, then was told ${againMs} ms`,
    )
  }

  late(what: string, tookMs: number, boundMs: number): void {
    this.#verdicts.report('L5-late', what, `took ${tookMs} ms, ${boundMs} are allowed`)
  }

  hangs(what: string): void {
    this.#verdicts.report('L5-hang', what, 'never ended')
  }

  exceedsTruth(subject: string, told: number, left: number): void {
    this.#verdicts.report('L6-available', subject, `${told} tokens were said to be available, at most ${left} can be`)
  }

  neverHeals(subject: string, why: string): void {
    this.#verdicts.report('L1-heals', subject, why)
  }
}
