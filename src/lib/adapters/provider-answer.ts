export interface ProviderAnswer {
  readonly status: number
  /** A header field; its name is given in lower case. */
  readonly field: (name: string) => string | null | undefined
}

/** What the limits of a provider count. */
export type ProviderLimit = 'requests' | 'tokens' | 'inputTokens' | 'outputTokens'

export interface ToldLimit {
  readonly left: number
  readonly limit?: number | undefined
  /** Until it is full again, in ms. */
  readonly resetMs?: number | undefined
}

export type ToldLimits = Partial<Record<ProviderLimit, ToldLimit>>

const WORDS: Readonly<Record<ProviderLimit, string>> = {
  requests: 'requests',
  tokens: 'tokens',
  inputTokens: 'input-tokens',
  outputTokens: 'output-tokens',
}

/** What the fields of OpenAI (`x-ratelimit-*`) and Anthropic (`anthropic-ratelimit-*`) tell; what makes no sense is left out. */
export function readToldLimits(answer: ProviderAnswer, nowMs: number): ToldLimits {
  const told: ToldLimits = {}
  for (const [limit, word] of Object.entries(WORDS) as [ProviderLimit, string][]) {
    const read = (what: string) =>
      answer.field(`anthropic-ratelimit-${word}-${what}`) ?? answer.field(`x-ratelimit-${what}-${word}`)
    const left = wholeNumber(read('remaining'))
    if (left === undefined) continue
    const reset = read('reset')
    told[limit] = {left, limit: wholeNumber(read('limit')), resetMs: spanMs(reset) ?? untilMs(reset, answer, nowMs)}
  }
  return told
}

/** When a refused call may be repeated, in ms from now: `retry-after-ms`, or `retry-after` in seconds or as a date. */
export function readRetryAfterMs(answer: ProviderAnswer, nowMs: number): number | undefined {
  const exact = decimal(answer.field('retry-after-ms'))
  if (exact !== undefined) return exact
  const text = answer.field('retry-after')
  const seconds = decimal(text)
  return seconds === undefined ? untilMs(text, answer, nowMs) : seconds * 1000
}

/** As RFC 3339 or HTTP have it: of other texts `Date.parse` makes dates that nobody meant, such as the year 12345. */
const DATE = /^(\d{4}-\d\d-\d\dT|[A-Z][a-z]{2}, \d\d [A-Z])/

/** Time until an instant, by the clock of the provider where the answer has its date: ours may be another one. */
function untilMs(text: string | null | undefined, answer: ProviderAnswer, nowMs: number): number | undefined {
  if (!text || !DATE.test(text)) return undefined
  const atMs = Date.parse(text)
  const dateMs = Date.parse(answer.field('date') ?? '')
  const waitMs = atMs - (Number.isNaN(dateMs) ? nowMs : dateMs)
  return waitMs >= 0 ? waitMs : undefined
}

const UNIT_MS: Readonly<Record<string, number>> = {h: 3_600_000, m: 60_000, s: 1000, ms: 1}

/** A time such as `6m0s`, `1.5s` or `20ms`. */
function spanMs(text: string | null | undefined): number | undefined {
  if (!text || !/^(\d+(\.\d+)?(ms|[hms]))+$/.test(text)) return undefined
  let ms = 0
  for (const [, count, unit] of text.matchAll(/([\d.]+)(ms|[hms])/g)) ms += Number(count) * (UNIT_MS[unit ?? ''] ?? 0)
  return Number.isFinite(ms) ? ms : undefined
}

/** Providers that do not know send −1. */
function wholeNumber(text: string | null | undefined): number | undefined {
  const value = text && /^\d{1,15}$/.test(text) ? Number(text) : undefined
  return value !== undefined && value <= MOST_LEFT ? value : undefined
}

/** More is no number of tokens that a limit can have. */
const MOST_LEFT = 1e12

function decimal(text: string | null | undefined): number | undefined {
  return text && /^\d{1,12}(\.\d+)?$/.test(text) ? Number(text) : undefined
}
