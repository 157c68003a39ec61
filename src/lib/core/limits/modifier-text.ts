import {nearestNames} from '../text/nearest.js'
import {formatAmount, parseAmount} from './amount-text.js'
import {type Limit, MAX_SCALE, type ReplacedWindow, type ScheduleEntry} from './limit.js'
import {formatPeriod, parsePeriod} from './period-text.js'
import {cutPiece, type Piece, slicePiece, syntaxError} from './syntax-problem.js'
import {formatCrons, parseCrons, type ZoneReader} from './when-text.js'

export interface ModifierContext {
  readonly isQuota: boolean
  readonly unit: string | undefined
  readonly zone: ZoneReader
}

export const SOFT = 'soft'

/** Reads a window: `x0.1@"* 22,23 * * *"` or `200k/min:300k@"* 9-16 * * 1-5"`. */
export function parseWindow(piece: Piece, context: ModifierContext): ScheduleEntry {
  const [parameters, when] = cutPiece(piece, '@')
  if (when === undefined) {
    const near = nearestNames(piece.text, [SOFT]).length > 0 ? '; did you mean soft?' : ''
    throw syntaxError(piece, `"${piece.text}" is neither soft nor a window such as x0.5@"* 9-16 * * 1-5"${near}`)
  }
  const [cron, second] = parseCrons(when, 'window', context.zone)
  if (second !== undefined) throw syntaxError(when, 'a window has one cron; write a window for each')
  return parameters.text.startsWith('x')
    ? {cron, scale: parseScale(slicePiece(parameters, 1))}
    : {cron, ...parseParameters(parameters, context)}
}

function parseScale(piece: Piece): number {
  if (!/^\d+(\.\d{1,3})?$/.test(piece.text))
    throw syntaxError(piece, 'a factor is a number with at most three decimals, as in x0.5')
  const scale = Number(piece.text)
  if (scale === 0 || scale > MAX_SCALE) throw syntaxError(piece, `a factor is above 0 and at most ${MAX_SCALE}`)
  return scale
}

/**
 * `[RATE][/PERIOD][:[BURST]]`. What is left out stays, but a rate alone sets the burst too, as it does in a limit; with a
 * colon and nothing behind it, the burst stays. For a quota the amount is its capacity.
 */
function parseParameters(piece: Piece, {isQuota, unit}: ModifierContext): Omit<ReplacedWindow, 'cron'> {
  const [rateAndPeriod, burst] = cutPiece(piece, ':')
  const [rate, period] = cutPiece(rateAndPeriod, '/')
  if (isQuota && burst !== undefined) throw syntaxError({...burst, text: ':', at: burst.at - 1}, 'a quota has no burst')
  const tokens = (each: Piece, what: string): number => amountIn(unit, each, what)
  const amount = rate.text === '' ? undefined : tokens(rate, isQuota ? 'amount' : 'rate')
  const ownBurst = burst === undefined || burst.text === '' ? undefined : tokens(burst, 'burst')
  const capacity = ownBurst ?? (burst === undefined ? amount : undefined)
  if (amount === undefined && ownBurst === undefined && period === undefined)
    throw syntaxError(piece, 'the window changes nothing: a factor or an amount is missing')
  return {
    ...(capacity !== undefined && {capacity}),
    ...(amount !== undefined && !isQuota && {refillAmount: amount}),
    ...(period && {refillPeriodSeconds: parsePeriod(period)}),
  }
}

export function amountIn(unit: string | undefined, piece: Piece, what: string): number {
  const amount = parseAmount(piece, what)
  if (amount.unit === unit) return amount.tokens
  throw syntaxError(piece, `the ${what} "${piece.text}" is not in ${unit ?? 'tokens'} like the amount of the limit`)
}

export function formatWindow(entry: ScheduleEntry, {reset, unit}: Limit, zone: string | undefined): string {
  const when = `@${formatCrons([entry.cron], zone)}`
  if ('scale' in entry) return `x${entry.scale}${when}`
  const {capacity, refillAmount, refillPeriodSeconds} = entry
  const amount = reset && refillAmount === undefined ? capacity : refillAmount
  const rate = amount === undefined ? '' : formatAmount(amount, unit)
  const period = refillPeriodSeconds === undefined ? '' : `/${formatPeriod(refillPeriodSeconds)}`
  const burst = amount === capacity ? '' : `:${capacity === undefined ? '' : formatAmount(capacity, unit)}`
  return `${rate}${period}${burst}${when}`
}
