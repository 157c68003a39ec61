const SCALES = ['', 'k', 'M', 'G', 'T', 'P'] as const

/** Widest text of {@link compact}. */
export const COMPACT_WIDTH = 6

/**
 * A number in at most six characters, with three digits: 12.3k, -1.25M. Levels are rounded `down`, so that the screen never
 * shows a token that does not exist; a number other than zero is never shown as zero.
 */
export function compact(value: number, rounding: 'nearest' | 'down' = 'nearest'): string {
  if (!Number.isFinite(value)) return '?'
  for (const [step, unit] of SCALES.entries()) {
    const scaled = value / 1000 ** step
    const rounded = threeDigits(scaled, rounding)
    if (Math.abs(rounded) >= 1000) continue
    if (rounded !== 0 || value === 0) return `${rounded}${unit}`
    return value > 0 ? '<0.01' : '>-0.01'
  }
  return value > 0 ? '>999P' : '<-999P'
}

/** Corrects binary noise first: thousandths of a token are exact and must not be rounded the wrong way. */
function threeDigits(value: number, rounding: 'nearest' | 'down'): number {
  const size = Math.abs(value)
  const factor = size >= 100 ? 1 : size >= 10 ? 10 : 100
  const exact = Math.round(value * factor * 1e6) / 1e6
  const rounded = (rounding === 'down' ? Math.floor(exact) : Math.round(exact)) / factor
  return rounded === 0 ? 0 : rounded
}

/** A number with separators and up to two decimals; levels are rounded `down`. */
export function exact(value: number, rounding: 'nearest' | 'down' = 'nearest'): string {
  const hundredths = Math.round(value * 1e8) / 1e6
  const shown = (rounding === 'down' ? Math.floor(hundredths) : Math.round(hundredths)) / 100
  return (shown === 0 ? 0 : shown).toLocaleString('en', {maximumFractionDigits: 2})
}

/** A rate with separators; a small one is not shown as zero. */
export const perSecond = (rate: number): string => `${Math.abs(rate) < 0.01 ? compact(rate) : exact(rate)}/s`

/** Widest text of {@link span}. */
export const SPAN_WIDTH = 6

/** A time span in at most six characters: `45s`, `3m20s`, `2h05m`, `3d04h`. */
export function span(ms: number): string {
  const seconds = Math.floor(Math.max(0, ms) / 1000)
  if (seconds < 1) return '<1s'
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3600) return two(seconds, 60, 'm', 's')
  if (seconds < 86_400) return two(Math.floor(seconds / 60), 60, 'h', 'm')
  const hours = Math.floor(seconds / 3600)
  if (hours < 2400) return two(hours, 24, 'd', 'h')
  return hours < 24 * 10_000 ? `${Math.floor(hours / 24)}d` : '>9999d'
}

/** An exact interval: `2s`, `1.5s`, `1m30s`. */
export const intervalText = (intervalMs: number): string =>
  intervalMs % 1000 === 0 ? span(intervalMs) : `${intervalMs / 1000}s`

function two(amount: number, size: number, large: string, small: string): string {
  const whole = Math.floor(amount / size)
  const rest = amount % size
  return `${whole}${large}${rest === 0 ? '' : `${String(rest).padStart(2, '0')}${small}`}`
}

/** A fraction as a whole percentage, in at most four characters; rounded down, but never to zero. */
export function wholePercent(fraction: number): string {
  if (fraction > 0 && fraction < 0.01) return '<1%'
  return `${Math.min(999, Math.floor(Math.max(0, fraction) * 100 + 1e-9))}%`
}

/** A whole number with separators. */
export const count = (value: number): string => value.toLocaleString('en')

/** `1 bucket`, `1,000 buckets`. */
export const counted = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? '' : 's'}`

/** The UTC time of day of an instant. */
export const timeOfDay = (epochMs: number): string => `${new Date(epochMs).toISOString().slice(11, 19)}Z`
