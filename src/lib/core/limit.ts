import {durationMs, formatDuration} from './duration.js'
import {InvalidInput} from './errors.js'
import {checkLimitName} from './names.js'
import {type Pair, type PairProblem, readPairs, splitPair} from './pairs.js'
import {type Rate, toMilli} from './token-math.js'

/** A named rate: holds up to `capacity` tokens and gains `refillAmount` tokens every `refillPeriodSeconds`. */
export interface Limit {
  readonly name: string
  /** Whole tokens; the burst. */
  readonly capacity: number
  /** Whole tokens per period. */
  readonly refillAmount: number
  readonly refillPeriodSeconds: number
}

/** Above this a balance in millitokens is no exact number for clients that count in doubles. */
export const MAX_TOKENS = Math.floor(Number.MAX_SAFE_INTEGER / 1000)

/** 100 years in seconds: a longer period is a typing error. */
export const MAX_PERIOD_SECONDS = 100 * 365 * 86_400

const SYNTAX_HINT =
  'Write NAME=RATE[/PERIOD][:BURST], for example rpm=100/min, tpd=1M/day, rpm=10/sec:50, custom=500/15min.'

/** A limit with its numbers checked; what is not given follows from the rest (burst = rate). */
export function makeLimit(limit: Limit): Limit {
  checkLimitName(limit.name)
  checkWhole(limit.name, 'capacity', limit.capacity, MAX_TOKENS)
  checkWhole(limit.name, 'refill amount', limit.refillAmount, MAX_TOKENS)
  checkWhole(limit.name, 'refill period (seconds)', limit.refillPeriodSeconds, MAX_PERIOD_SECONDS)
  return limit
}

/** The rate in the units of a bucket: millitokens and milliseconds. */
export function rateOf(limit: Limit): Rate {
  return {
    capacityMilli: toMilli(limit.capacity),
    refillAmountMilli: toMilli(limit.refillAmount),
    refillPeriodMs: limit.refillPeriodSeconds * 1000,
  }
}

/** Reads `NAME=RATE[/PERIOD][:BURST]`; the period defaults to a minute, the burst to the rate. `:` may stand for `=`. */
export function parseLimit(text: string): Limit {
  return limitOf(splitPair(text, SEPARATORS, refusePair))
}

/** Reads several limits; a name given twice is an error. */
export function parseLimits(texts: readonly string[]): Limit[] {
  return readPairs(texts, SEPARATORS, refusePair).map(limitOf)
}

const SEPARATORS = '=:'

function refusePair(problem: PairProblem, {text, name}: Pair): InvalidInput {
  if (problem === 'duplicate') return new InvalidInput('limit.duplicate', `The limit "${name}" is given twice.`)
  return problem === 'no-name'
    ? syntaxError(text, 0, 1, 'the name is missing')
    : syntaxError(text, 0, text.length, 'there is no "=" between name and rate')
}

function limitOf({text, name, value, valueAt: rateAt}: Pair): Limit {
  const [rateAndPeriod = '', ...bursts] = value.split(':')
  const [rate = '', ...periods] = rateAndPeriod.split('/')
  const periodAt = rateAt + rate.length + 1
  const burstAt = rateAt + rateAndPeriod.length + 1
  if (periods.length > 1) throw syntaxError(text, periodAt + (periods[0] as string).length, 1, 'a second "/"')
  if (bursts.length > 1)
    throw syntaxError(text, burstAt + (bursts[0] as string).length, 1, 'a second ":" after the rate')

  const refillAmount = parseAmount(text, rate, rateAt, 'rate')
  const burst = bursts[0]
  return makeLimit({
    name,
    capacity: burst === undefined ? refillAmount : parseAmount(text, burst, burstAt, 'burst'),
    refillAmount,
    refillPeriodSeconds: periods[0] === undefined ? 60 : parsePeriod(text, periods[0], periodAt),
  })
}

/** The inverse of {@link parseLimit}: `parseLimit(formatLimit(x))` equals `x`. */
export function formatLimit(limit: Limit): string {
  const burst = limit.capacity === limit.refillAmount ? '' : `:${formatAmount(limit.capacity)}`
  return `${limit.name}=${formatAmount(limit.refillAmount)}/${formatPeriod(limit.refillPeriodSeconds)}${burst}`
}

function formatAmount(tokens: number): string {
  if (tokens % 1_000_000 === 0) return `${tokens / 1_000_000}M`
  if (tokens % 1000 === 0) return `${tokens / 1000}k`
  return String(tokens)
}

function formatPeriod(seconds: number): string {
  return formatDuration(seconds * 1000).replace(/^1(?=[a-z])/, '')
}

function parseAmount(text: string, piece: string, at: number, what: string): number {
  if (piece === '') throw syntaxError(text, at, 1, `the ${what} is missing`)
  const match = /^(\d+)(?:\.(\d+))?([kKM]?)$/.exec(piece)
  if (!match)
    throw syntaxError(text, at, piece.length, `the ${what} "${piece}" is not a number such as 500, 20k or 1.5M`)
  const [, whole = '', fraction = '', suffix = ''] = match
  const zeros = suffix === 'M' ? 6 : suffix === '' ? 0 : 3
  // Shifted as text: 1.1M is 1100000 exactly, where 1.1 * 1e6 is not.
  const shifted = fraction.padEnd(zeros, '0')
  const value = Number(whole + shifted.slice(0, zeros))
  if (Number(shifted.slice(zeros)) !== 0)
    throw syntaxError(text, at, piece.length, `the ${what} "${piece}" is not a whole number of tokens`)
  if (value === 0) throw syntaxError(text, at, piece.length, `the ${what} must be more than 0`)
  if (value > MAX_TOKENS)
    throw syntaxError(text, at, piece.length, `the ${what} is above the largest possible, ${MAX_TOKENS}`)
  return value
}

function parsePeriod(text: string, piece: string, at: number): number {
  const ms = durationMs(piece)
  if (ms === undefined) {
    throw syntaxError(
      text,
      at,
      Math.max(1, piece.length),
      `the period "${piece}" is not one of sec, min, hour, day, with an optional count`,
    )
  }
  if (ms === 0 || ms % 1000 !== 0)
    throw syntaxError(text, at, piece.length, `the period "${piece}" is not a whole number of seconds`)
  if (ms / 1000 > MAX_PERIOD_SECONDS)
    throw syntaxError(text, at, piece.length, `the period "${piece}" is longer than 100 years`)
  return ms / 1000
}

/** Shows the offending piece under the text, so that a long list of limits needs no counting. */
function syntaxError(text: string, at: number, length: number, why: string): InvalidInput {
  const message = `Cannot read the limit "${text}": ${why}.\n  ${text}\n  ${' '.repeat(at)}${'^'.repeat(Math.max(1, length))}`
  return new InvalidInput('limit.syntax', message, {hint: SYNTAX_HINT, details: {text, at, length, why}})
}

function checkWhole(name: string, what: string, value: number, largest: number): void {
  if (Number.isSafeInteger(value) && value > 0 && value <= largest) return
  throw new InvalidInput(
    'limit.number',
    `The ${what} of limit "${name}" must be a whole number from 1 to ${largest}, not ${value}.`,
  )
}
