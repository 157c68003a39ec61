import {InvalidInput} from '../errors.js'
import {checkLimitName} from '../names.js'
import {currencyOfSign, formatMoney, knownCurrencies, MONEY_DECIMALS} from '../text/money.js'
import {nearestNames} from '../text/nearest.js'
import {asSentence, type PairProblem, readPairs} from '../text/text.js'
import {MAX_TOKENS} from './limit.js'

/** Whole tokens. Money has a currency `unit`; its tokens are millionths. */
export interface Amount {
  readonly tokens: number
  readonly unit?: string
}

const PLAIN = /^(\d+)(?:\.(\d+))?([kKM]?)$/
const SIGNED = /^([$€£¥])(\d+)(?:\.(\d+))?([kKM]?)$/u
const CODED = /^(\d+)(?:\.(\d+))?([kKM]?)([A-Z]{3})$/

export const isPlainAmount = ({text}: Piece): boolean => PLAIN.test(text)

type RefusePiece = (piece: Piece, why: string) => Error

/** `500`, `20k`, `1.5M`, `$12.50`, `€2k` or `500CHF`. */
export function parseAmount(piece: Piece, what: string, refuse: RefusePiece = syntaxError): Amount {
  const {text} = piece
  const problem = (why: string) => refuse(piece, why)
  if (text === '') throw problem(`the ${what} is missing`)
  const plain = PLAIN.exec(text)
  if (plain) return {tokens: shiftedTokens({text, what, problem, unitZeros: 0}, plain[1], plain[2], plain[3])}
  const signed = SIGNED.exec(text)
  if (signed) {
    const [, sign = '', whole, fraction, suffix] = signed
    return money({text, what, problem}, currencyOfSign(sign) as string, whole, fraction, suffix)
  }
  const coded = CODED.exec(text)
  if (coded) {
    const [, whole, fraction, suffix, code = ''] = coded
    return money({text, what, problem}, code, whole, fraction, suffix)
  }
  refuseThousands(piece, refuse)
  throw problem(`the ${what} "${text}" is not a number such as 500, 20k, 1.5M or $12.50`)
}

const THOUSANDS = /(?<![\d.])[$€£¥]?\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?[kKM]?/gu

/** Throws if the unreadable piece is a part of an amount such as `$1,500`: commas separate the parts of a limit. */
export function refuseThousands({whole, text, at}: Piece, refuse: RefusePiece = syntaxError): void {
  for (const {0: typed, index} of whole.matchAll(THOUSANDS)) {
    if (index > at + text.length || index + typed.length < at) continue
    const plain = typed.replaceAll(',', '')
    const short = plain.replace(/^(\D?\d+?)000(000)?$/, (_, head, million) => head + (million ? 'M' : 'k'))
    const forms = plain === short ? plain : `${plain} or ${short}`
    throw refuse({whole, text: typed, at: index}, `write ${forms}, without a comma`)
  }
}

interface WrittenAmount {
  readonly text: string
  readonly what: string
  readonly problem: (why: string) => Error
}

function money(written: WrittenAmount, unit: string, ...digits: Array<string | undefined>): Amount {
  if (!knownCurrencies().has(unit)) {
    const near = nearestNames(unit, [...knownCurrencies()])
    const meant = near.length === 1 ? `, did you mean ${near[0]}?` : ''
    throw written.problem(`"${unit}" is not a currency code${meant}`)
  }
  return {tokens: shiftedTokens({...written, unitZeros: MONEY_DECIMALS}, ...digits), unit}
}

function shiftedTokens(
  {text, what, problem, unitZeros}: WrittenAmount & {readonly unitZeros: number},
  whole = '',
  fraction = '',
  suffix = '',
): number {
  const zeros = unitZeros + (suffix === 'M' ? 6 : suffix === '' ? 0 : 3)
  // Shift digits as text: 1.1 * 1e6 is not exactly 1100000.
  const shifted = fraction.padEnd(zeros, '0')
  const value = Number(whole + shifted.slice(0, zeros))
  const isMoney = unitZeros > 0
  if (Number(shifted.slice(zeros)) !== 0) {
    const smallest = isMoney ? 'millionths of the unit' : 'tokens'
    throw problem(`the ${what} "${text}" is not a whole number of ${smallest}`)
  }
  if (value === 0) throw problem(`the ${what} must be more than 0`)
  if (value > MAX_TOKENS) {
    const largest = isMoney ? `${MAX_TOKENS / 10 ** unitZeros}` : MAX_TOKENS
    throw problem(`the ${what} is above the maximum of ${largest}`)
  }
  return value
}

export function formatAmount(tokens: number, unit?: string): string {
  if (unit !== undefined) return formatMoney(tokens, unit, {separators: false})
  if (tokens >= 1_000_000 && tokens % 10_000 === 0) return `${tokens / 1_000_000}M`
  if (tokens % 1000 === 0) return `${tokens / 1000}k`
  return String(tokens)
}

/** `NAME=AMOUNT`, such as `tpm=5k` or `usd=$5`. Throws on a duplicate name. */
export function parseAmounts(texts: readonly string[]): Map<string, Amount> {
  const refuse = (problem: PairProblem, {text, name}: {readonly text: string; readonly name: string}) =>
    unreadable(text, problem === 'duplicate' ? `${name} is given twice` : 'it is not NAME=AMOUNT')
  return new Map(
    readPairs(texts, '=:', refuse).map(({text, name, value, valueAt}) => {
      checkLimitName(name)
      const piece = {whole: text, text: value, at: valueAt}
      return [name, parseAmount(piece, 'amount', ({whole}, why) => unreadable(whole, why))]
    }),
  )
}

function unreadable(text: string, why: string): InvalidInput {
  return new InvalidInput('request.syntax', asSentence(`Cannot read the amount "${text}": ${why}`), {
    hint: `${shellHint(text, '$5')}Give an amount for each limit, for example rpm=1 tpm=5k 'usd=$0.05'.`,
    details: {text},
  })
}

export function tokensIn(
  amounts: ReadonlyMap<string, Amount>,
  units: ReadonlyMap<string, string>,
): Record<string, number> {
  for (const [name, {unit, tokens}] of amounts) {
    const wanted = units.get(name)
    if (wanted === unit) continue
    const reason =
      wanted === undefined
        ? `The limit "${name}" is counted in tokens, not in ${unit}.`
        : `The limit "${name}" is counted in ${wanted}, not in ${unit ?? 'tokens'}.`
    throw new InvalidInput('limit.unit', reason, {
      hint:
        wanted === undefined
          ? `Write ${name}=${tokens} if its tokens are millionths of a ${unit}.`
          : `Give an amount of money, such as ${name}=5${wanted}. ${quotesText(`${name}=$5`)}`,
      details: {limit: name, unit: unit ?? null, wanted: wanted ?? null},
    })
  }
  return tokensOf(amounts)
}

/** For callers that don't know the units: money counts in millionths. */
export function tokensOf(amounts: ReadonlyMap<string, Amount>): Record<string, number> {
  return Object.fromEntries([...amounts].map(([name, {tokens}]) => [name, tokens]))
}

export interface Piece {
  readonly whole: string
  readonly text: string
  readonly at: number
}

const SYNTAX_HINT =
  'Write NAME=RATE[/PERIOD][:BURST], for example rpm=100/min, tpd=1M/day, rpm=10/sec:50; for quotas ' +
  "rpd=10k/day@Europe/Berlin, 'usd=$500/month@UTC', 'rpd=10k@\"0 9 * * 1-5\"', 'session=200/5h!'; for " +
  'requests in flight parallel=20/inflight.'

const CURRENCY_NAMES = new Set(['usd', 'eur', 'gbp', 'jpy', 'chf'])

export const isCurrencyName = (name: string): boolean =>
  name.split(/[-_.]/).some(part => CURRENCY_NAMES.has(part.toLowerCase()))

export const quotesText = (example: string): string =>
  `A shell replaces $ and the digit after it: use single quotes, such as '${example}'.`

/** The rest that a shell leaves of $500 (00), of $5 (nothing) and of $0.05 (its own name, then .05). */
export const isShellRest = (amount: string): boolean => /^(0\d|[/:@!,]|$|-?\w*sh\b)/.test(amount)

/** A sentence and a space; empty if no shell seems to have replaced a part of `NAME=AMOUNT`. */
function shellHint(text: string, example: string): string {
  const [, name = '', amount = ''] = /^([^=:]*)[=:](.*)$/s.exec(text) ?? []
  const isSuspect = isShellRest(amount) || (isCurrencyName(name) && !/^([$€£¥]|[\d.kKM]+[A-Z]{3})/u.test(amount))
  return name !== '' && isSuspect ? `${quotesText(`${name}=${example}`)} ` : ''
}

export function syntaxError({whole, text, at}: Piece, why: string): InvalidInput {
  const length = Math.max(1, text.length)
  const sentence = asSentence(`Cannot read the limit "${whole}": ${why}`)
  const message = `${sentence}\n  ${whole}\n  ${' '.repeat(at)}${'^'.repeat(length)}`
  return new InvalidInput('limit.syntax', message, {
    hint: shellHint(whole, '$500/month@UTC') + SYNTAX_HINT,
    details: {text: whole, at, length, why},
  })
}

export function slicePiece(piece: Piece, from: number, to = piece.text.length): Piece {
  return {whole: piece.whole, text: piece.text.slice(from, to), at: piece.at + from}
}

export function splitPiece(piece: Piece, separator: string): readonly [Piece, ...Piece[]] {
  const starts = [-1]
  let isQuoted = false
  for (const [index, character] of piece.text.split('').entries()) {
    if (character === '"') isQuoted = !isQuoted
    if (character === separator && !isQuoted) starts.push(index)
  }
  const [first, ...more] = starts.map((start, index) => slicePiece(piece, start + 1, starts[index + 1]))
  return [first ?? piece, ...more]
}

export function cutPiece(piece: Piece, separator: string): [before: Piece, after: Piece | undefined] {
  const [before] = splitPiece(piece, separator)
  const {length} = before.text
  return [before, length === piece.text.length ? undefined : slicePiece(piece, length + 1)]
}
