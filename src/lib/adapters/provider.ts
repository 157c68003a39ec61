import type {Consumption} from '../core/limits/limit.js'
import type {Lease} from '../limiter/lease.js'
import type {RateLimiter} from '../limiter/rate-limiter.js'
import {
  type ProviderAnswer,
  type ProviderLimit,
  readRetryAfterMs,
  readToldLimits,
  type ToldLimits,
} from './provider-answer.js'

/** The organisation at a provider whose limits all callers share: an entity, such as `provider:anthropic:org-1`. */
export interface ProviderAccount {
  readonly entity: string
  /** What its limits are set for; as the call unless said otherwise. */
  readonly resource?: string
  /** Which limits count what; `rpm` and `tpm` unless said otherwise. */
  readonly limitNames?: ProviderLimitNames
}

/** Names of limits by what they count. Where input and output have their own, all tokens together have none unless named. */
export type ProviderLimitNames = {readonly [Limit in ProviderLimit]?: string}

/** What learns: a limiter, or a part of one. */
export type LearningLimiter = Pick<RateLimiter, 'learn'>

/** How often an answer that is no refusal may cause a look at the bucket, in ms: answers are many, and say the same. */
const LOOK_INTERVAL_MS = 1000

/** For a refusal that does not say when to come back, in ms. */
const UNKNOWN_WAIT_MS = 1000

export function providerConsumption(
  {input, output}: {readonly input: number; readonly output: number},
  names: ProviderLimitNames = {},
): Consumption {
  const counts: Readonly<Record<ProviderLimit, number>> = {
    requests: 1,
    tokens: input + output,
    inputTokens: input,
    outputTokens: output,
  }
  return Object.fromEntries(limitsOf(names).map(([limit, name]) => [name, counts[limit]]))
}

function limitsOf({requests = 'rpm', tokens, inputTokens, outputTokens}: ProviderLimitNames) {
  const all = tokens ?? (inputTokens === undefined && outputTokens === undefined ? 'tpm' : undefined)
  const named: Readonly<Record<ProviderLimit, string | undefined>> = {requests, tokens: all, inputTokens, outputTokens}
  return Object.entries(named).flatMap(([limit, name]) => (name ? [[limit as ProviderLimit, name] as const] : []))
}

export interface AnsweredCall {
  readonly answer: ProviderAnswer
  readonly consumed: Consumption
  /** Whether what was charged for it has been returned. */
  readonly isReturned: boolean
  /** When it was sent and answered, by the clock of `performance`. */
  readonly sentMs: number
  readonly answeredMs: number
}

export class ProviderLessons {
  readonly #limiter: LearningLimiter
  readonly #names: ReturnType<typeof limitsOf>
  #nextLookMs = 0

  constructor(limiter: LearningLimiter, names: ProviderLimitNames = {}) {
    this.#limiter = limiter
    this.#names = limitsOf(names)
  }

  /** Never throws: the answer goes to the caller in any case, and the next one teaches again. */
  async learn(lease: Lease, {answer, consumed, isReturned, sentMs, answeredMs}: AnsweredCall): Promise<void> {
    const passedMs = performance.now() - answeredMs
    const nowMs = Date.now() - passedMs
    const told = readToldLimits(answer, nowMs)
    const ageMs = wholeSeconds(answeredMs - sentMs)
    const left = Object.fromEntries(
      this.#names.flatMap(([limit, name]) => (told[limit] ? [[name, told[limit].left]] : [])),
    )
    const retryAfterMs = readRetryAfterMs(answer, nowMs)
    const refused = answer.status === 429 ? this.#refused(consumed, told, retryAfterMs, passedMs) : undefined
    if (!refused && !this.#isNews(lease, left)) return
    const {entity, resource} = lease
    // A charge that is still held comes on top when it is returned: what is left by then is not known before.
    const isHeld = refused !== undefined && !isReturned && lease.isMetered
    const lesson = isHeld ? {refused: withoutAmounts(refused)} : {left, ageMs, ...(refused && {refused})}
    await this.#limiter.learn({entity, resource, ...lesson}).catch(warnUntaught)
  }

  /** Whether less is left than the charge has shown, as far as that was not looked at a moment ago. */
  #isNews(lease: Lease, left: Consumption): boolean {
    const {limits} = lease
    if (!Object.entries(left).some(([name, tokens]) => tokens < (limits[name]?.available ?? 0))) return false
    const nowMs = performance.now()
    if (nowMs < this.#nextLookMs) return false
    this.#nextLookMs = nowMs + LOOK_INTERVAL_MS
    return true
  }

  /** The limits that had too little for the call as told; where none had, that of requests. */
  #refused(consumed: Consumption, told: ToldLimits, retryAfterMs: number | undefined, passedMs: number) {
    const short = this.#names.filter(([limit, name]) => (told[limit]?.left ?? Infinity) < (consumed[name] ?? 0))
    const limits = short.length > 0 ? short : this.#names.slice(0, 1)
    const waits = limits.map(([limit, name]) => waitMs(told[limit], consumed[name] ?? 1))
    const consume = Object.fromEntries(limits.map(([, name]) => [name, consumed[name] ?? 1]))
    const fromAnswerMs = Math.min(retryAfterMs ?? Math.max(...waits), LONGEST_MS)
    return {consume, retryAfterMs: Math.max(0, fromAnswerMs - passedMs)}
  }
}

/**
 * How old what an answer tells may be, in ms: providers count a call when it comes, and answer when it is done. What was
 * left then is no reason to take away what was refilled since. Less than a second is the way of the messages.
 */
function wholeSeconds(ms: number): number {
  return Math.floor(ms / 1000) * 1000
}

/** The refusal of a request that takes nothing more than is charged already. */
function withoutAmounts<Refused extends {readonly consume: Consumption}>(refused: Refused): Refused {
  return {...refused, consume: Object.fromEntries(Object.keys(refused.consume).map(name => [name, 0]))}
}

/** A day in ms: as a limiter takes it, and more than any counts. */
const LONGEST_MS = 86_400_000

/** By what is missing and when it is there again, at an even pace. */
function waitMs(told: ToldLimits[ProviderLimit], amount: number): number {
  const {left = 0, limit = 0, resetMs} = told ?? {}
  if (resetMs === undefined || limit <= left) return UNKNOWN_WAIT_MS
  return (Math.max(1, amount - left) * resetMs) / (limit - left)
}

let hasWarned = false

function warnUntaught(error: unknown): void {
  if (hasWarned) return
  hasWarned = true
  const why = error instanceof Error ? error.message : String(error)
  process.emitWarning(`What a provider told about its limits was not written (${why}). Said once per process.`, {
    type: 'ZaelWarning',
    code: 'ZAEL_UNTAUGHT',
  })
}
