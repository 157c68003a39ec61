import type {Consumption} from '../core/limits/limit.js'
import type {LimitNames} from './guard.js'
import type {ModelUsage, TokenKind, UsageWeights} from './model-usage.js'

/**
 * Names of the limits that a call is charged to, by what they count. Requests and tokens have defaults, `rpm` and `tpm`.
 * If you set `input` or `output`, `tokens` has no default.
 */
export interface CallLimits extends LimitNames {
  /** Limit of input tokens, such as `itpm`. */
  readonly input?: string
  /** Limit of output tokens, such as `otpm`. */
  readonly output?: string
  /** Limit in money; needs a `price`. @default `usd` if there is a price */
  readonly cost?: string
}

/** The quantity that a limit of a call counts. */
export type CallLimit = keyof CallLimits

export function namedLimits({requests = 'rpm', tokens, input, output, cost}: CallLimits): [CallLimit, string][] {
  const all = tokens ?? (input === undefined && output === undefined ? 'tpm' : undefined)
  const named: Readonly<Record<CallLimit, string | undefined>> = {requests, tokens: all, input, output, cost}
  return Object.entries(named).flatMap(([limit, name]) => (name ? [[limit as CallLimit, name]] : []))
}

/** Whole tokens by limit. `cost` is in millionths of the currency. */
export function callAmounts(
  usage: ModelUsage,
  cost: number,
  names: CallLimits,
  weights: UsageWeights = {},
): Consumption {
  const weighted = (...kinds: TokenKind[]) =>
    Math.ceil(kinds.reduce((sum, kind) => sum + usage[kind] * (weights[kind] ?? 1), 0))
  const counts: Readonly<Record<CallLimit, number>> = {
    requests: 1,
    tokens: weighted('input', 'cachedInput', 'cacheWrite', 'output'),
    input: weighted('input', 'cachedInput', 'cacheWrite', ...(names.input === names.output ? ['output' as const] : [])),
    output: weighted('output'),
    cost,
  }
  const amounts: Record<string, number> = {}
  for (const [limit, name] of namedLimits(names)) amounts[name] = Math.max(amounts[name] ?? 0, counts[limit])
  return amounts
}

/** The largest amount that a limiter accepts; no limit has as much. */
const MOST_TOKENS = 9_007_199_254_740

/** A call can ask for any number. Too many are refused as more than the limit. */
export function reservable(amounts: Consumption): Consumption {
  return Object.fromEntries(Object.entries(amounts).map(([name, amount]) => [name, Math.min(amount, MOST_TOKENS)]))
}

/** The difference from `before` to `after`. */
export function amountsBetween(before: Consumption, after: Consumption): Consumption {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  const deltas = names.map(name => [name, (after[name] ?? 0) - (before[name] ?? 0)] as const)
  return Object.fromEntries(deltas.filter(([, delta]) => delta !== 0))
}

/** The part of a reservation that the call has not used yet. A price need not grow with the usage. */
export function amountsBeyond(used: Consumption, reserved: Consumption): Consumption {
  return Object.fromEntries(Object.entries(amountsBetween(used, reserved)).filter(([, delta]) => delta > 0))
}
