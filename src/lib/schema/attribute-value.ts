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
