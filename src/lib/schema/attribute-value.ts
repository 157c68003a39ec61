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

export type Json = string | number | boolean | null | Json[] | {[key: string]: Json}

export function toJson(value: AttributeValue): Json {
  if ('S' in value) return value.S
  if ('N' in value) return Number(value.N)
  if ('BOOL' in value) return value.BOOL
  if ('M' in value) return Object.fromEntries(Object.entries(value.M).map(([key, each]) => [key, toJson(each)]))
  if ('L' in value) return value.L.map(toJson)
  if ('SS' in value) return value.SS
  if ('NS' in value) return value.NS.map(Number)
  return null
}

export function fromJson(value: Json): AttributeValue {
  if (typeof value === 'string') return {S: value}
  if (typeof value === 'number') return {N: String(value)}
  if (typeof value === 'boolean') return {BOOL: value}
  if (value === null) return {NULL: true}
  if (Array.isArray(value)) return {L: value.map(fromJson)}
  return {M: Object.fromEntries(Object.entries(value).map(([key, each]) => [key, fromJson(each)]))}
}
