import {shownName} from '../encoded-name.js'
import {formatMoney, MONEY_DECIMALS, withCurrency} from './money.js'

/** `down` for levels: never show a token that is not available. */
type Rounding = 'nearest' | 'down'

export function formatCount(count: number): string {
  return numberFormat(3).format(count)
}

/** Cached: constructing a formatter takes longer than formatting a hundred numbers. */
const numberFormats = new Map<number, Intl.NumberFormat>()

function numberFormat(maximumFractionDigits: number): Intl.NumberFormat {
  let format = numberFormats.get(maximumFractionDigits)
  format ??= new Intl.NumberFormat('en', {maximumFractionDigits, signDisplay: 'negative'})
  numberFormats.set(maximumFractionDigits, format)
  return format
}

/** `1,200`, or money: `$12.50`. */
export function formatTokens(tokens: number, unit: string | undefined): string {
  return unit === undefined ? formatCount(tokens) : formatMoney(tokens, unit)
}

export const asSentence = (text: string): string => (text.endsWith('?') ? text : `${text}.`)

export function formatPlural(count: number, singular: string, plural = `${singular}s`): string {
  return `${formatCount(count)} ${count === 1 ? singular : plural}`
}

/** `34,655.75`. Never `-0`. */
export function formatNumber(value: number, rounding: Rounding = 'nearest', decimals = 2): string {
  const shown = rounding === 'down' ? roundTo(value, 10 ** decimals, 'down') : value
  return numberFormat(decimals).format(shown)
}

export const SHORT_NUMBER_WIDTH = 6

const SCALES = ['', 'k', 'M', 'G', 'T', 'P'] as const

/** At most six characters, three digits: `12.3k`, `-1.25M`. Only zero is shown as `0`. */
export function formatShortNumber(value: number, rounding: Rounding = 'nearest'): string {
  if (!Number.isFinite(value)) return '?'
  for (const [step, unit] of SCALES.entries()) {
    const scaled = value / 1000 ** step
    const size = Math.abs(scaled)
    const rounded = roundTo(scaled, size >= 100 ? 1 : size >= 10 ? 10 : 100, rounding)
    if (Math.abs(rounded) >= 1000) continue
    if (rounded !== 0 || value === 0) return `${rounded}${unit}`
    return value > 0 ? '<0.01' : '>-0.01'
  }
  return value > 0 ? '>999P' : '<-999P'
}

export function formatShortTokens(tokens: number, unit: string | undefined, rounding: Rounding = 'nearest'): string {
  if (unit === undefined) return formatShortNumber(tokens, rounding)
  return withCurrency(formatShortNumber(tokens / 10 ** MONEY_DECIMALS, rounding), unit)
}

/** Without its unit: `1,000`, `0.25`; below a hundredth `<0.01`, not `0`. */
export function formatRate(perSecond: number): string {
  return Math.abs(perSecond) < 0.01 ? formatShortNumber(perSecond) : formatNumber(perSecond)
}

/** `42 %`. Rounded to the nearest, but only 0 is `0 %` and nothing below 1 is `100 %`. */
export function formatPercent(share: number): string {
  if (share > 0 && share < 0.01) return '<1 %'
  if (share > 0.99 && share < 1) return '>99 %'
  return `${formatCount(Math.round(share * 100))} %`
}

/** At most four characters: `42%`, `999%` at most. Rounded down, but only 0 is `0%`. */
export function formatShortPercent(share: number): string {
  if (share > 0 && share < 0.01) return '<1%'
  return `${Math.min(999, Math.floor(Math.max(0, share) * 100 + 1e-9))}%`
}

const SECOND_MS = 1000
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000
const DAY_MS = 86_400_000

const SPAN_UNITS = [
  ['d', DAY_MS],
  ['h', HOUR_MS],
  ['min', MINUTE_MS],
  ['s', SECOND_MS],
] as const

/** The two largest non-zero units, rounded down: `3 min 20 s`, `2 d`, `250 ms`. */
export function formatSpan(ms: number): string {
  let rest = ms
  const parts = SPAN_UNITS.flatMap(([name, size]) => {
    const count = Math.floor(rest / size)
    rest -= count * size
    return count === 0 ? [] : [`${count} ${name}`]
  })
  return parts.length === 0 ? `${Math.round(ms)} ms` : parts.slice(0, 2).join(' ')
}

/** Rounded up in the last unit shown, so that the wait is never too short; `never` for `null`. */
export function formatWait(ms: number | null): string {
  if (ms === null) return 'never'
  const unit = ms >= DAY_MS ? HOUR_MS : ms >= HOUR_MS ? MINUTE_MS : ms >= SECOND_MS ? SECOND_MS : 1
  return formatSpan(Math.ceil(ms / unit) * unit)
}

export const SHORT_SPAN_WIDTH = 6

/** At most six characters, rounded down: `<1s`, `45s`, `3m20s`, `2h05m`, `3d04h`. */
export function formatShortSpan(ms: number): string {
  const seconds = Math.floor(Math.max(0, ms) / SECOND_MS)
  if (seconds < 1) return '<1s'
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3600) return twoUnits(seconds, 60, 'm', 's')
  if (seconds < 86_400) return twoUnits(Math.floor(seconds / 60), 60, 'h', 'm')
  const hours = Math.floor(seconds / 3600)
  if (hours < 2400) return twoUnits(hours, 24, 'd', 'h')
  return hours < 24 * 10_000 ? `${Math.floor(hours / 24)}d` : '>9999d'
}

export function formatTimeOfDay(epochMs: number): string {
  return `${new Date(epochMs).toISOString().slice(11, 19)}Z`
}

/** `a`, `a and b`, `a, b and c`. */
export function formatList(items: readonly string[]): string {
  return items.length < 2 ? items.join('') : `${items.slice(0, -1).join(', ')} and ${items.at(-1)}`
}

/** `a, b, c and 47 more`. */
export function formatSome(items: readonly string[], most: number): string {
  const rest = items.length - most
  return rest > 0 ? `${items.slice(0, most).join(', ')} and ${formatCount(rest)} more` : items.join(', ')
}

/** The first items; if there are more, an item that says how many. */
export function firstItems<T>(items: readonly T[], most: number, more: (rest: number) => T): T[] {
  return items.length > most ? [...items.slice(0, most), more(items.length - most)] : [...items]
}

/** Shows an encoded name decoded: commands accept both. */
export function shellWord(stored: string): string {
  const word = shownName(stored)
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}

function twoUnits(amount: number, size: number, large: string, small: string): string {
  const rest = amount % size
  return `${Math.floor(amount / size)}${large}${rest === 0 ? '' : `${String(rest).padStart(2, '0')}${small}`}`
}

/** Rounds to 15 digits first, so that errors of binary fractions do not tip the rounding of millitokens. */
function roundTo(value: number, factor: number, rounding: Rounding): number {
  const exact = Number((value * factor).toPrecision(15))
  const rounded = (rounding === 'down' ? Math.floor(exact) : Math.round(exact)) / factor
  return rounded === 0 ? 0 : rounded
}

/** `2026-11-17 14:37 UTC`. */
export function formatMinute(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16).replace('T', ' ')} UTC`
}

/** `undefined` if the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export interface SchemaIssue {
  readonly path: readonly PropertyKey[]
  readonly message: string
}

/** `shards.a: expected text; port: expected a number`. */
export function describeIssues(issues: readonly SchemaIssue[]): string {
  return issues.map(({path, message}) => (path.length === 0 ? message : `${path.join('.')}: ${message}`)).join('; ')
}

export interface Pair {
  readonly text: string
  readonly name: string
  readonly value: string
  readonly valueAt: number
}

export type PairProblem = 'no-separator' | 'no-name' | 'duplicate'

type RefusePair = (problem: PairProblem, pair: Pair) => Error

/** Splits at the first separator; the value may be empty and may contain more separators. */
export function splitPair(text: string, separators: string, refuse: RefusePair): Pair {
  const found = Array.from(separators, separator => text.indexOf(separator)).filter(index => index >= 0)
  const at = found.length === 0 ? text.length : Math.min(...found)
  const pair = {text, name: text.slice(0, at), value: text.slice(at + 1), valueAt: at + 1}
  if (found.length === 0) throw refuse('no-separator', pair)
  if (pair.name === '') throw refuse('no-name', pair)
  return pair
}

export function readPairs(texts: readonly string[], separators: string, refuse: RefusePair): Pair[] {
  const names = new Set<string>()
  return texts.map(text => {
    const pair = splitPair(text, separators, refuse)
    if (names.has(pair.name)) throw refuse('duplicate', pair)
    names.add(pair.name)
    return pair
  })
}
