import {LATEST_EXPIRY_SECONDS} from '../core/buckets/bucket.js'

/** Declared here rather than imported from the SDK, so that `schema` stays below `dynamo`. */
export type AttributeValue =
  | {S: string}
  | {N: string}
  | {BOOL: boolean}
  | {NULL: true}
  | {M: Record<string, AttributeValue>}
  | {L: AttributeValue[]}
  | {SS: string[]}
  | {NS: string[]}
  | {B: Uint8Array}
  | {BS: Uint8Array[]}

export type Item = Record<string, AttributeValue>

export interface Key {
  PK: string
  SK: string
}

export const NULL: AttributeValue = {NULL: true}

export const s = (value: string): {S: string} => ({S: value})

export function texts(values: Readonly<Record<string, string>>): Item {
  const item: Item = {}
  for (const name in values) item[name] = s(values[name] as string)
  return item
}

export const bool = (value: boolean): {BOOL: boolean} => ({BOOL: value})

/** Integers only: other clients fail on a decimal or an exponent. */
export function n(value: number | bigint): {N: string} {
  if (typeof value === 'number' && !Number.isSafeInteger(value)) {
    throw new RangeError(`not an exact integer: ${value}`)
  }
  return {N: String(value)}
}

/** Tolerant, like all readers here: an attribute of another type counts as absent. */
export function readString(item: Item, name: string): string | undefined {
  const value = item[name]
  return value && 'S' in value ? value.S : undefined
}

export function readBoolean(item: Item, name: string): boolean | undefined {
  const value = item[name]
  return value && 'BOOL' in value ? value.BOOL : undefined
}

export function readBigInt(item: Item, name: string): bigint | undefined {
  const value = item[name]
  return value && 'N' in value ? integerOf(value.N) : undefined
}

export function readNumber(item: Item, name: string): number | undefined {
  const value = item[name]
  if (!value || !('N' in value)) return undefined
  const number = Number(value.N)
  return Number.isSafeInteger(number) ? number : Number(integerOf(value.N))
}

/** Other clients store any number of seconds. */
export function readExpiry(item: Item, name: string): number | undefined {
  const seconds = readNumber(item, name)
  return seconds === undefined ? undefined : Math.min(seconds, LATEST_EXPIRY_SECONDS)
}

/** Up to this length, no number with a fraction reads as an integer. */
const EXACT_DIGITS = 15

/** Rounds down: other clients may have stored decimals or an exponent. */
export function integerOf(text: string): bigint {
  if (text.length <= EXACT_DIGITS) {
    const number = Number(text)
    if (Number.isSafeInteger(number)) return BigInt(number)
  }
  if (/^-?\d+$/.test(text)) return BigInt(text)
  const match = /^(-?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/.exec(text)
  if (!match) throw new RangeError(`not a number: ${text}`)
  const [, sign, whole = '', fraction = '', exponent = '0'] = match
  const point = whole.length + Number(exponent)
  const digits = whole + fraction
  const integer = BigInt(digits.slice(0, Math.max(0, point)).padEnd(point, '0') || '0')
  const hasFraction = /[1-9]/.test(digits.slice(Math.max(0, point)))
  return sign === '-' ? -integer - (hasFraction ? 1n : 0n) : integer
}

/** Largest instant of `Date`; a client may have stored any number. */
const LATEST_MS = 8.64e15

export function isoSeconds(ms: number): string {
  return isoMilliseconds(ms).replace(/\.\d+Z$/, 'Z')
}

export function isoMilliseconds(ms: number): string {
  return new Date(Math.min(Math.max(ms, -LATEST_MS), LATEST_MS)).toISOString()
}
