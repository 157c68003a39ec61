import type {Json} from '../../src/lib/schema/json-attribute.js'

interface Schema {
  readonly [keyword: string]: unknown
}

type Check = (rule: never, value: never, root: Schema, schema: Schema) => boolean

const isObject = (value: unknown): value is {[key: string]: Json} =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const TYPES: Readonly<Record<string, (value: unknown) => boolean>> = {
  object: isObject,
  string: value => typeof value === 'string',
  integer: value => Number.isInteger(value),
  boolean: value => typeof value === 'boolean',
  null: value => value === null,
}

/** The keywords that limits.schema.json uses; those about one type hold for all other types. */
const KEYWORDS: Readonly<Record<string, Check>> = {
  $ref: (ref: string, value: Json, root) => {
    const target = ref
      .slice(2)
      .split('/')
      .reduce((at, step) => at[step] as Schema, root)
    return accepts(root, value, target)
  },
  type: (type: string, value: Json) => TYPES[type]?.(value) === true,
  enum: (values: Json[], value: Json) => values.includes(value),
  const: (only: Json, value: Json) => only === value,
  pattern: (pattern: string, value: Json) => typeof value !== 'string' || new RegExp(pattern).test(value),
  maxLength: (most: number, value: Json) => typeof value !== 'string' || value.length <= most,
  minimum: (least: number, value: Json) => typeof value !== 'number' || value >= least,
  maximum: (most: number, value: Json) => typeof value !== 'number' || value <= most,
  minProperties: (least: number, value: Json) => !isObject(value) || Object.keys(value).length >= least,
  required: (names: string[], value: Json) => !isObject(value) || names.every(name => name in value),
  anyOf: (schemas: Schema[], value: Json, root) => schemas.some(schema => accepts(root, value, schema)),
  not: (schema: Schema, value: Json, root) => !accepts(root, value, schema),
  propertyNames: (schema: Schema, value: Json, root) =>
    !isObject(value) || Object.keys(value).every(name => accepts(root, name, schema)),
  properties: (properties: Record<string, Schema>, value: Json, root) =>
    !isObject(value) ||
    Object.entries(properties).every(
      ([name, schema]) => !(name in value) || accepts(root, value[name] as Json, schema),
    ),
  additionalProperties: (rule: Schema | false, value: Json, root, {properties = {}}) =>
    !isObject(value) ||
    Object.entries(value)
      .filter(([name]) => !(name in (properties as object)))
      .every(([, each]) => rule !== false && accepts(root, each, rule)),
}

const IGNORED = new Set(['$schema', 'title', 'description', 'definitions'])

/** Whether a value is as the schema wants it; an unknown keyword is an error, so that none is passed over. */
export function accepts(root: Schema, value: Json, schema: Schema = root): boolean {
  return Object.entries(schema).every(([keyword, rule]) => {
    if (IGNORED.has(keyword)) return true
    const check = KEYWORDS[keyword]
    if (!check) throw new Error(`the keyword ${keyword} is not known here`)
    return check(rule as never, value as never, root, schema)
  })
}
