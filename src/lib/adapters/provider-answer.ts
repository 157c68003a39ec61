export interface ProviderAnswer {
  readonly status: number
  /** `name` is in lower case. */
  readonly field: (name: string) => string | null | undefined
}

/** What a limit of a provider counts. */
export type ProviderLimit = 'requests' | 'tokens' | 'inputTokens' | 'outputTokens'

export interface ToldLimit {
  readonly left: number
  readonly limit?: number | undefined
  readonly resetMs?: number | undefined
}

export type ToldLimits = Partial<Record<ProviderLimit, ToldLimit>>

const WORDS: Readonly<Record<ProviderLimit, string>> = {
  requests: 'requests',
  tokens: 'tokens',
  inputTokens: 'input-tokens',
  outputTokens: 'output-tokens',
}

/** Reads OpenAI's `x-ratelimit-*` and Anthropic's `anthropic-ratelimit-*` fields; skips invalid values. */
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
