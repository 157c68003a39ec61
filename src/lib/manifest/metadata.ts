import {z} from 'zod'
import {asRead, describeValue, isMapping, type Mapping} from '../files/document-values.js'
import type {ProblemPlace} from '../files/yaml-source.js'
import type {Json} from '../schema/attribute-value.js'

const MAX_VALUES = 1000
// DynamoDB allows 32 levels; the attribute itself is one.
const MAX_DEPTH = 30
// The range of a DynamoDB number.
const LARGEST_NUMBER = 9.9e125
const SMALLEST_NUMBER = 1e-130

/** The metadata of an entity: what a record can store exactly. Read by hand, since z.record leaves `__proto__` out. */
export const metadataSchema = z
  .unknown()
  .meta({type: 'object'})
  .transform((input, ctx): {[key: string]: Json} => {
    if (!isMapping(input)) {
      ctx.addIssue({code: 'custom', message: `metadata must be a mapping, not ${describeValue(input)}`})
      return z.NEVER
    }
    const reader = new MetadataReader(ctx)
    const metadata = reader.object(input, [])
    if (reader.isTooLarge) {
      const most = `${MAX_VALUES} values, ${MAX_DEPTH} levels`
      ctx.addIssue({code: 'custom', message: `there is more metadata than an entity can have (${most})`})
    }
    return metadata
  })

class MetadataReader {
  isTooLarge = false
  #values = 0

  constructor(readonly ctx: z.RefinementCtx) {}

  object(mapping: Mapping, path: PropertyKey[]): {[key: string]: Json} {
    if ('' in mapping) {
      const message = 'a metadata key cannot be empty: DynamoDB does not allow it'
      this.ctx.addIssue({code: 'custom', message, path: [...path, ''], params: {at: 'key'} satisfies ProblemPlace})
    }
    return Object.fromEntries(
      Object.entries(mapping).map(([name, value]) => [name, this.#json(value, [...path, name])]),
    )
  }

  #json(value: unknown, path: PropertyKey[]): Json {
    this.isTooLarge ||= ++this.#values > MAX_VALUES || path.length > MAX_DEPTH
    if (this.isTooLarge) return null
    if (isMapping(value)) return this.object(value, path)
    if (Array.isArray(value)) return value.map((item, at) => this.#json(item, [...path, at]))
    const read = asRead(value)
    if (read === null || typeof read === 'string' || typeof read === 'boolean') return read
    if (typeof read === 'number' && isStorable(read)) return read === 0 ? 0 : read
    this.ctx.addIssue({
      code: 'custom',
      message: `${describeValue(value)} cannot be stored exactly; write it in quotes`,
      path,
    })
    return null
  }
}

function isStorable(value: number): boolean {
  if (Number.isInteger(value)) return Number.isSafeInteger(value)
  const size = Math.abs(value)
  return size <= LARGEST_NUMBER && size >= SMALLEST_NUMBER
}
