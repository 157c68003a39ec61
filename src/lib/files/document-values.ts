/** A number or a boolean in YAML, as it is read and as it is written: where a name is expected, 007 stays 007. */
export class WrittenScalar {
  constructor(
    readonly value: unknown,
    readonly text: string,
  ) {}
}

/** A mapping as a schema sees it: without a prototype, so that every name can be a key. */
export interface Mapping {
  [key: string]: unknown
}

export function newMapping(entries: Iterable<readonly [string, unknown]>): Mapping {
  const mapping: Mapping = Object.create(null)
  for (const [name, value] of entries) mapping[name] = value
  return mapping
}

export function isMapping(value: unknown): value is Mapping {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof WrittenScalar)
}

/** Text of a scalar; other values unchanged. */
export function asText(value: unknown): unknown {
  return value instanceof WrittenScalar ? value.text : value
}

/** A scalar as YAML reads it; other values unchanged. */
export function asRead(value: unknown): unknown {
  return value instanceof WrittenScalar ? value.value : value
}

export function describeValue(value: unknown): string {
  if (value === null || value === undefined) return 'empty'
  if (Array.isArray(value)) return 'a list'
  if (isMapping(value)) return 'a mapping'
  return typeof value === 'string' ? `the text ${JSON.stringify(value)}` : String(asText(value))
}
