import {isMap, isScalar, type Node, Scalar} from 'yaml'
import {InvalidInput} from '../core/errors.js'
import {type Limit, MAX_PERIOD_SECONDS, MAX_TOKENS, parseLimit} from '../core/limit.js'
import {checkLimitName} from '../core/names.js'
import {byText} from './manifest.js'
import type {ManifestSource} from './source.js'

const FIELDS = ['capacity', 'burst', 'refill_amount', 'refill_period'] as const

/** The limits of a scope, sorted by name; `undefined` when none of them can be read. */
export function parseManifestLimits(source: ManifestSource, node: Node, path: string): Limit[] | undefined {
  const entries = source.entries(node, path, 'limits')
  if (entries.length === 0) {
    if (isMap(source.resolve(node))) source.report(node, path, 'no limits are given; add one, such as rpm: 100/min')
    return undefined
  }
  const limits = entries.flatMap(({name, key, value}) => {
    const here = `${path}.${name}`
    if (checkedName(source, key, path, name, checkLimitName) === undefined) return []
    const limit = isMap(source.resolve(value))
      ? limitOfMap(source, value, here, name)
      : limitOfText(source, value, here, name)
    return limit ? [limit] : []
  })
  return limits.sort((a, b) => byText(a.name, b.name))
}

/** Checks a name; reports a problem and returns `undefined` if it is invalid. */
export function checkedName(
  source: ManifestSource,
  node: Node,
  path: string,
  name: string,
  check: (name: string) => string,
): string | undefined {
  try {
    return check(name)
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    source.report(node, path, error.message.replace(/\.$/, ''))
    return undefined
  }
}

/** The short syntax without the name: `100k/min:200k`. */
function limitOfText(source: ManifestSource, node: Node, path: string, name: string): Limit | undefined {
  const text = source.text(node, path, 'must be a rate such as 100/min or a mapping with capacity')
  if (text === undefined) return undefined
  try {
    return parseLimit(`${name}=${text}`)
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    const {why, at} = error.details as {why?: string; at?: number}
    const target = source.resolve(node)
    const isPlain = isScalar(target) && target.type === Scalar.PLAIN && target === node
    const offset = isPlain && at !== undefined ? at - name.length - 1 : 0
    source.report(node, path, `${why ?? error.message}; write RATE[/PERIOD][:BURST], such as 100k/min:200k`, offset)
    return undefined
  }
}

/** The Python system's syntax: `burst`, if given, replaces `capacity`, also as the default of the refill. */
function limitOfMap(source: ManifestSource, node: Node, path: string, name: string): Limit | undefined {
  const fields = source.fields(node, path, 'a limit', FIELDS)
  const known = source.problems.length
  const number = (field: (typeof FIELDS)[number], largest: number): number | undefined => {
    const value = fields.get(field)
    return value && wholeNumber(source, value, `${path}.${field}`, largest)
  }
  const stated = number('capacity', MAX_TOKENS)
  const capacity = number('burst', MAX_TOKENS) ?? stated
  const refillAmount = number('refill_amount', MAX_TOKENS) ?? capacity
  const refillPeriodSeconds = number('refill_period', MAX_PERIOD_SECONDS) ?? 60
  if (!fields.has('capacity')) source.report(node, path, 'the capacity is missing')
  if (source.problems.length > known || capacity === undefined || refillAmount === undefined) return undefined
  return {name, capacity, refillAmount, refillPeriodSeconds}
}

function wholeNumber(source: ManifestSource, node: Node, path: string, largest: number): number | undefined {
  const target = source.resolve(node)
  const isPlain = isScalar(target) && target.type === Scalar.PLAIN
  const written = isPlain ? (target.source ?? '') : ''
  // YAML 1.1, which the Python system reads, allows digit groups; YAML versions disagree about a leading zero.
  const value = /^\d[\d_]*$/.test(written) ? Number(written.replaceAll('_', '')) : isPlain ? target.value : undefined
  if (/^0\d/.test(written))
    source.report(node, path, `${written} may be read as an octal number; write it without the leading zero`)
  else if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0 && value <= largest) return value
  else source.report(node, path, `must be a whole number from 1 to ${largest}, not ${source.kindOf(node)}`)
  return undefined
}
