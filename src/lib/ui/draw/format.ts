const SCALES = ['', 'k', 'M', 'G', 'T', 'P'] as const

/** Widest text of {@link compact}. */
export const COMPACT_WIDTH = 6

/**
 * A number in at most six characters, three digits of it: 12.3k, -1.25M. Levels are rounded `down`, so that the screen
 * never promises a token that is not there; what is not zero is never told as zero.
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

/** Thousandths of a token are exact; binary fractions are not, and must not tip the rounding. */
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

/** A rate with separators; fifty a day are little per second, and not nothing. */
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

function two(amount: number, size: number, large: string, small: string): string {
  const whole = Math.floor(amount / size)
  const rest = amount % size
  return `${whole}${large}${rest === 0 ? '' : `${String(rest).padStart(2, '0')}${small}`}`
}

/** A part of one in at most four characters; what is there is never told as nothing. */
export function percent(part: number): string {
  if (part > 0 && part < 0.01) return '<1%'
  return `${Math.min(999, Math.floor(Math.max(0, part) * 100 + 1e-9))}%`
}

/** A whole number with separators. */
export const count = (value: number): string => value.toLocaleString('en')

/** `1 bucket`, `1,000 buckets`. */
export const counted = (value: number, noun: string): string => `${count(value)} ${noun}${value === 1 ? '' : 's'}`

/** The time of day of an instant, in UTC as everywhere in zael. */
export const timeOfDay = (epochMs: number): string => `${new Date(epochMs).toISOString().slice(11, 19)}Z`
