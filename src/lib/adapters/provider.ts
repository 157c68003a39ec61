import type {Consumption} from '../core/limits/limit.js'
import type {Lease} from '../limiter/lease.js'
import type {RateLimiter} from '../limiter/rate-limiter.js'
import {type CallLimit, type CallLimits, namedLimits} from './call-limits.js'
import type {UsageWeights} from './model-usage.js'
import {warningOnce} from './problem.js'

/** A provider account whose limits all callers share: an entity, such as `provider:anthropic:org-1`. */
export interface ProviderAccount {
  readonly entity: string
  /** The resource its limits are set for. @default the call's resource */
  readonly resource?: string
  /** The limits that count requests and tokens. @default `{requests: 'rpm', tokens: 'tpm'}` */
  readonly limits?: Omit<CallLimits, 'cost'>
  /** How the provider counts tokens against its limits. @default the `weights` of the calls */
  readonly weights?: UsageWeights
}

/** The part of a limiter that takes provider feedback. */
export type ReportingLimiter = Pick<RateLimiter, 'reportProviderLimits'>

/** Shortest time, in ms, between reads of the bucket for admitted calls: their responses differ little. */
const LOOK_INTERVAL_MS = 1000

const UNKNOWN_WAIT_MS = 1000

export interface AnsweredCall {
  readonly answer: ProviderAnswer
  readonly consumed: Consumption
  readonly isReturned: boolean
  /** Both times are from `performance.now()`. */
  readonly sentMs: number
  readonly answeredMs: number
}

export class ProviderReporter {
  readonly #limiter: ReportingLimiter
  readonly #names: readonly [ProviderLimit, string][]
  #nextLookMs = 0

  constructor(limiter: ReportingLimiter, limits: ProviderAccount['limits'] = {}) {
    this.#limiter = limiter
    this.#names = namedLimits(limits) as [ProviderLimit, string][]
  }

  /** Never throws: the caller gets the response anyway, and the next response repeats the feedback. */
  async report(lease: Lease, {answer, consumed, isReturned, sentMs, answeredMs}: AnsweredCall): Promise<void> {
    const passedMs = performance.now() - answeredMs
    const nowMs = Date.now() - passedMs
    const reported = readReportedLimits(answer, nowMs)
    const ageMs = wholeSeconds(answeredMs - sentMs)
    const left = Object.fromEntries(
      this.#names.flatMap(([limit, name]) => (reported[limit] ? [[name, reported[limit].left]] : [])),
    )
    const retryAfterMs = readRetryAfterMs(answer, nowMs)
    const refused = answer.status === 429 ? this.#refused(consumed, reported, retryAfterMs, passedMs) : undefined
    if (!refused && !this.#isNews(lease, left)) return
    const {entity, resource} = lease
    // A pending refund raises the balance, so the final balance is not known yet.
    const isHeld = refused !== undefined && !isReturned && lease.isMetered
    const feedback = isHeld ? {refused: withoutAmounts(refused)} : {left, ageMs, ...(refused && {refused})}
    await this.#limiter.reportProviderLimits({entity, resource, ...feedback}).catch(warnUnreported)
  }

  /** Whether less is left than the lease shows; true at most once per `LOOK_INTERVAL_MS`. */
  #isNews(lease: Lease, left: Consumption): boolean {
    const {limits} = lease
    if (!Object.entries(left).some(([name, tokens]) => tokens < (limits[name]?.available ?? 0))) return false
    const nowMs = performance.now()
    if (nowMs < this.#nextLookMs) return false
    this.#nextLookMs = nowMs + LOOK_INTERVAL_MS
    return true
  }

  /** The limits reported as too low for the call; if none, the limit of requests. */
  #refused(consumed: Consumption, reported: ReportedLimits, retryAfterMs: number | undefined, passedMs: number) {
    const short = this.#names.filter(([limit, name]) => (reported[limit]?.left ?? Infinity) < (consumed[name] ?? 0))
    const limits = short.length > 0 ? short : this.#names.slice(0, 1)
    const waits = limits.map(([limit, name]) => waitMs(reported[limit], consumed[name] ?? 1))
    const consume = Object.fromEntries(limits.map(([, name]) => [name, consumed[name] ?? 1]))
    const fromAnswerMs = Math.min(retryAfterMs ?? Math.max(...waits), LONGEST_MS)
    return {consume, retryAfterMs: Math.max(0, fromAnswerMs - passedMs)}
  }
}

/** Age of the feedback, in ms: providers count a call on arrival and respond when done. Under 1 s is network time. */
function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000) * 1000
}

/** The bucket is still charged for the request, so it asks for nothing more. */
function withoutAmounts<Refused extends {readonly consume: Consumption}>(refused: Refused): Refused {
  return {...refused, consume: Object.fromEntries(Object.keys(refused.consume).map(name => [name, 0]))}
}

/** One day, in ms: the most that a limiter accepts. */
const LONGEST_MS = 86_400_000

/** Assumes an even refill until the reset. */
function waitMs(reported: ReportedLimits[ProviderLimit], amount: number): number {
  const {left = 0, limit = 0, resetMs} = reported ?? {}
  if (resetMs === undefined || limit <= left) return UNKNOWN_WAIT_MS
  return (Math.max(1, amount - left) * resetMs) / (limit - left)
}

const warnUnreported = warningOnce('ZAEL_PROVIDER_FEEDBACK', 'Feedback of a provider about its limits was not written')

export interface ProviderAnswer {
  readonly status: number
  /** `name` is in lower case. */
  readonly field: (name: string) => string | null | undefined
}

/** The unit that a provider's limit counts. */
export type ProviderLimit = Exclude<CallLimit, 'cost'>

export interface ReportedLimit {
  readonly left: number
  readonly limit?: number | undefined
  readonly resetMs?: number | undefined
}

export type ReportedLimits = Partial<Record<ProviderLimit, ReportedLimit>>

const WORDS: Readonly<Record<ProviderLimit, string>> = {
  requests: 'requests',
  tokens: 'tokens',
  input: 'input-tokens',
  output: 'output-tokens',
}

/** Reads OpenAI's `x-ratelimit-*` and Anthropic's `anthropic-ratelimit-*` fields; skips invalid values. */
export function readReportedLimits(answer: ProviderAnswer, nowMs: number): ReportedLimits {
  const reported: ReportedLimits = {}
  for (const [limit, word] of Object.entries(WORDS) as [ProviderLimit, string][]) {
    const read = (what: string) =>
      answer.field(`anthropic-ratelimit-${word}-${what}`) ?? answer.field(`x-ratelimit-${what}-${word}`)
    const left = wholeNumber(read('remaining'))
    if (left === undefined) continue
    const reset = read('reset')
    reported[limit] = {left, limit: wholeNumber(read('limit')), resetMs: spanMs(reset) ?? untilMs(reset, answer, nowMs)}
  }
  return reported
}

export function readRetryAfterMs(answer: ProviderAnswer, nowMs: number): number | undefined {
  const exact = decimal(answer.field('retry-after-ms'))
  if (exact !== undefined) return exact
  const text = answer.field('retry-after')
  const seconds = decimal(text)
  return seconds === undefined ? untilMs(text, answer, nowMs) : seconds * 1000
}

/** RFC 3339 or HTTP date: `Date.parse` accepts other texts too, such as 12345 as a year. */
const DATE = /^(\d{4}-\d\d-\d\dT|[A-Z][a-z]{2}, \d\d [A-Z])/

/** Counts from the response's `date` field if present: the provider's clock may differ from ours. */
function untilMs(text: string | null | undefined, answer: ProviderAnswer, nowMs: number): number | undefined {
  if (!text || !DATE.test(text)) return undefined
  const atMs = Date.parse(text)
  const dateMs = Date.parse(answer.field('date') ?? '')
  const waitMs = atMs - (Number.isNaN(dateMs) ? nowMs : dateMs)
  return waitMs >= 0 ? waitMs : undefined
}

const UNIT_MS: Readonly<Record<string, number>> = {h: 3_600_000, m: 60_000, s: 1000, ms: 1}

/** Parses `6m0s`, `1.5s` or `20ms`. */
function spanMs(text: string | null | undefined): number | undefined {
  if (!text || !/^(\d+(\.\d+)?(ms|[hms]))+$/.test(text)) return undefined
  let ms = 0
  for (const [, count, unit] of text.matchAll(/([\d.]+)(ms|[hms])/g)) ms += Number(count) * (UNIT_MS[unit ?? ''] ?? 0)
  return Number.isFinite(ms) ? ms : undefined
}

/** Providers send −1 for unknown. */
function wholeNumber(text: string | null | undefined): number | undefined {
  const value = text && /^\d{1,15}$/.test(text) ? Number(text) : undefined
  return value !== undefined && value <= MOST_LEFT ? value : undefined
}

const MOST_LEFT = 1e12

function decimal(text: string | null | undefined): number | undefined {
  return text && /^\d{1,12}(\.\d+)?$/.test(text) ? Number(text) : undefined
}
