import {InvalidInput} from '../errors.js'
import {checkLimitName} from '../names.js'
import {toMilli} from '../token-math.js'
import {MAX_TOKENS} from './limit.js'

/** Whole tokens per limit name, as callers write them; `Name` narrows the names that are accepted. */
export type Consumption<Name extends string = string> = string extends Name
  ? Readonly<Record<string, number>>
  : {readonly [Limit in Name]?: number}

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
