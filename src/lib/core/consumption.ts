import {InvalidInput} from './errors.js'
import {MAX_TOKENS} from './limit.js'
import {checkLimitName} from './names.js'
import {type PairProblem, readPairs} from './pairs.js'
import {toMilli} from './token-math.js'

/** Whole tokens per limit name, as callers write them; `Name` narrows the names that are accepted. */
export type Consumption<Name extends string = string> = string extends Name
  ? Readonly<Record<string, number>>
  : {readonly [Limit in Name]?: number}

const FACTORS: Readonly<Record<string, number>> = {'': 1, k: 1000, K: 1000, M: 1_000_000}

/** Reads `NAME=N` for each limit, such as `rpm=1` and `tpm=20k`; a name given twice is an error. */
export function parseConsumption(texts: readonly string[]): Consumption {
  const refuse = (problem: PairProblem, {text, name}: {readonly text: string; readonly name: string}) =>
    unreadable(text, problem === 'duplicate' ? `${name} is given twice` : 'it is not NAME=N')
  const pairs = readPairs(texts, '=:', refuse)
  const amounts = Object.fromEntries(pairs.map(({text, name, value}) => [name, tokensOf(text, value)]))
  checkConsumption(amounts)
  return amounts
}

function tokensOf(text: string, value: string): number {
  const [, digits, suffix = ''] = /^(\d+)([kKM]?)$/.exec(value) ?? []
  if (digits === undefined) throw unreadable(text, 'it is not NAME=N')
  const tokens = Number(digits) * (FACTORS[suffix] as number)
  if (tokens === 0) throw unreadable(text, 'it must be at least 1')
  return tokens
}

function unreadable(text: string, why: string): InvalidInput {
  return new InvalidInput('request.syntax', `Cannot read the amount "${text}": ${why}.`, {
    hint: 'Write a whole number of tokens for each limit, for example rpm=1 tpm=20k.',
    details: {text},
  })
}

/** Amounts to consume: whole, not negative. Zeros are dropped: a limit of which nothing is asked is not checked. */
export function checkConsumption(consume: Consumption): Map<string, bigint> {
  const amounts = signedAmountsOf(consume)
  for (const [name, milli] of amounts) {
    if (milli < 0n)
      throw invalid(name, consume[name] as number, 'must not be negative; use release() to give tokens back')
  }
  return amounts
}

/** Corrections: whole, of either sign. */
export function signedAmountsOf(deltas: Consumption): Map<string, bigint> {
  const amounts = new Map<string, bigint>()
  for (const [name, tokens] of Object.entries(deltas)) {
    checkLimitName(name)
    if (!Number.isSafeInteger(tokens) || Math.abs(tokens) > MAX_TOKENS) {
      throw invalid(name, tokens, `must be a whole number up to ${MAX_TOKENS}`)
    }
    if (tokens !== 0) amounts.set(name, toMilli(tokens))
  }
  return amounts
}

function invalid(name: string, tokens: number, why: string): InvalidInput {
  return new InvalidInput('request.amount', `The amount of "${name}" ${why}, not ${tokens}.`)
}
