import {InvalidInput} from '../errors.js'
import {checkLimitName} from '../names.js'
import {type PairProblem, readPairs} from '../text/pairs.js'
import {asSentence} from '../text/text.js'
import {type Amount, parseAmount} from './amount-text.js'

/** Reads `NAME=AMOUNT` for each limit, such as `tpm=5k` or `usd=$5`; a name given twice is an error. */
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
    hint: 'Write an amount for each limit, for example rpm=1 tpm=5k usd=$0.05.',
    details: {text},
  })
}

/** The whole tokens of amounts, each in the unit that its limit has: dollars for a limit in dollars, and nothing else. */
export function tokensIn(
  amounts: ReadonlyMap<string, Amount>,
  units: ReadonlyMap<string, string>,
): Record<string, number> {
  for (const [name, {unit}] of amounts) {
    const wanted = units.get(name)
    if (wanted === unit) continue
    const reason =
      wanted === undefined
        ? `The limit "${name}" is counted in tokens, not in ${unit}.`
        : `The limit "${name}" is counted in ${wanted}, not in ${unit ?? 'tokens'}.`
    throw new InvalidInput('limit.unit', reason, {
      hint: wanted === undefined ? `Write ${name}=5000.` : `Write an amount of money such as ${name}=5${wanted}.`,
      details: {limit: name, unit: unit ?? null, wanted: wanted ?? null},
    })
  }
  return tokensOf(amounts)
}

/** The same where the units are not known: amounts of money count in millionths. */
export function tokensOf(amounts: ReadonlyMap<string, Amount>): Record<string, number> {
  return Object.fromEntries([...amounts].map(([name, {tokens}]) => [name, tokens]))
}
