import {InvalidInput} from '../core/errors.js'
import {type Amount, parseAmount, tokensIn} from '../core/limits/amount-text.js'
import {checkConsumption} from '../core/limits/limit.js'
import {type BucketName, checkLimitName} from '../core/names.js'
import {parseDuration} from '../core/text/duration.js'
import {readLimitUnits} from '../repository/limits/units.js'
import type {NamespaceTable} from '../repository/table/table.js'
import {type RunRecord, runEntity} from '../schema/run-record.js'
import type {AcquireRequest} from './request/options.js'

/** An amount to move to a run. */
export interface DelegateRequest<Name extends string = string>
  extends BucketName,
    Pick<AcquireRequest<Name>, 'caller' | 'timeoutMs' | 'waitMs' | 'onWait' | 'signal'> {
  /** Whole tokens per limit, as numbers or texts such as `20k`; money as `$2`. */
  readonly amounts: {readonly [Limit in Name]?: number | string}
  /** After this time the rest comes back, such as `90s`, `15min` or `1h`. At most 31 days. */
  readonly for: string
  /** For people. */
  readonly name?: string | undefined
}

const LONGEST_MS = 31 * 86_400_000

const LONGEST_NAME = 200

export function checkedDuration(text: string): number {
  const ms = parseDuration(String(text))
  if (ms <= LONGEST_MS) return ms
  throw new InvalidInput('run.duration', `A run may last 31 days at most, not ${text}.`)
}

export function checkRunName(name: unknown): void {
  if (name === undefined || (typeof name === 'string' && name.length <= LONGEST_NAME)) return
  throw new InvalidInput('run.name', `The name of a run must be a text of at most ${LONGEST_NAME} characters.`)
}

/** Whole tokens. Reads the units of the namespace if an amount is money. */
export async function tokensAsked(
  table: NamespaceTable,
  amounts: {readonly [limit: string]: number | string | undefined},
): Promise<Record<string, number>> {
  const tokens: Record<string, number> = {}
  const texts = new Map<string, Amount>()
  for (const [name, amount] of Object.entries(amounts ?? {})) {
    if (typeof amount === 'string') {
      checkLimitName(name)
      texts.set(
        name,
        parseAmount({whole: amount, text: amount, at: 0}, 'amount', ({text}, why) => unreadable(text, why)),
      )
    } else if (amount !== undefined) tokens[name] = amount
  }
  // Only amounts of money have to be in the unit of their limit.
  const isMoney = [...texts.values()].some(({unit}) => unit !== undefined)
  const units = isMoney ? await readLimitUnits(table) : new Map(Array.from(texts, ([name]) => [name, undefined]))
  Object.assign(tokens, tokensIn(texts, units as ReadonlyMap<string, string>))
  if (checkConsumption(tokens).size === 0)
    throw new InvalidInput('run.amounts', "A run needs an amount of at least one limit, such as {usd: '$2'}.")
  return tokens
}

const unreadable = (text: string, why: string): InvalidInput =>
  new InvalidInput('request.syntax', `Cannot read the amount "${text}": ${why}.`)

/** A sub-run lasts no longer than its parent. */
export type SubRunRequest<Name extends string> = Omit<DelegateRequest<Name>, 'entity' | 'resource' | 'for'> & {
  readonly for?: string | undefined
}

export function subRequest<Name extends string>(
  {id, resource, endsAtMs}: RunRecord,
  request: SubRunRequest<Name>,
  nowMs: number,
): DelegateRequest<Name> {
  const rest = `${Math.max(1, Math.ceil(endsAtMs - nowMs))}ms`
  return {...request, entity: runEntity(id), resource, for: request.for ?? rest} as DelegateRequest<Name>
}
