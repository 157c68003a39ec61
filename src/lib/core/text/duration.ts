import {InvalidInput} from '../errors.js'

const UNITS_MS: ReadonlyArray<readonly [ms: number, ...names: string[]]> = [
  [1, 'ms'],
  [1000, 's', 'sec'],
  [60_000, 'm', 'min'],
  [3_600_000, 'h', 'hour'],
  [86_400_000, 'd', 'day'],
]

const MS_OF_UNIT = new Map(UNITS_MS.flatMap(([ms, ...names]) => names.map(name => [name, ms] as const)))

/** `15min`, `2s`, `day`; the count defaults to 1. `undefined` when it is not a duration. */
export function durationMs(text: string): number | undefined {
  const match = /^(\d*)([a-z]+)$/.exec(text)
  if (!match) return undefined
  const count = match[1] === '' ? 1 : Number(match[1])
  const unitMs = MS_OF_UNIT.get(match[2] as string)
  const total = unitMs === undefined ? undefined : count * unitMs
  return total !== undefined && Number.isSafeInteger(total) ? total : undefined
}

export function parseDuration(text: string): number {
  const ms = durationMs(text)
  if (ms !== undefined && ms > 0) return ms
  const problem = ms === 0 ? 'is too short: a duration must be longer than 0' : 'is not a duration'
  throw new InvalidInput('duration.syntax', `"${text}" ${problem}.`, {
    hint: 'Write a whole number and a unit: 500ms, 2s, 15min, 24h, 7d.',
  })
}

/** 24 days: Node's timers fire at once for longer times. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1

/** Rejects `NaN` and `Infinity` too. */
export function checkTimeoutMs(name: string, ms: number): number {
  if (ms >= 0 && ms <= LONGEST_TIMEOUT_MS) return ms
  throw new InvalidInput('timeout.invalid', `${name} must be from 0 to ${LONGEST_TIMEOUT_MS} ms, not ${ms}.`, {
    details: {name, value: String(ms)},
  })
}

/** May be negative: the rest of an earlier deadline. */
export function leftMs(timeoutMs: number): number {
  return checkTimeoutMs('timeoutMs', Math.max(0, timeoutMs))
}

/** The shortest exact spelling: 60000 → `1min`, 90000 → `90sec`. */
export function formatDuration(ms: number): string {
  const [unitMs, ...names] = UNITS_MS.findLast(([unit]) => ms % unit === 0 && ms >= unit) ?? [1, 'ms']
  return `${ms / unitMs}${names.at(-1)}`
}

export function checkMs(option: string, ms: number | undefined): number | undefined {
  if (ms === undefined || (typeof ms === 'number' && ms >= 0 && ms <= LONGEST_TIMEOUT_MS)) return ms
  const message = `${option} must be a number of milliseconds from 0 to ${LONGEST_TIMEOUT_MS}, not ${ms}.`
  throw new InvalidInput('option.invalid', message, {details: {option}})
}
