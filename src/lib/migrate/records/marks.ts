import * as z from 'zod'
import {ZaelError} from '../../core/errors.js'
import {describeIssues} from '../../core/text/text.js'
import type {Item} from '../../schema/attribute-value.js'
import {keyOf, spellKey} from '../../schema/keys.js'
import {
  type BucketMarks,
  type CopyMark,
  type LimitMark,
  MIGRATION_MARK,
  type UsageMarks,
} from '../../schema/migration-marks.js'

export const storedJson = z.string('expected text').transform((text, context): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    context.addIssue(text === '' ? 'it is empty' : 'it is not JSON')
    return z.NEVER
  }
})

/** Millitokens as text, because numbers in JSON are not exact. */
const amountSchema = z
  .string()
  .regex(/^-?\d{1,60}$/, 'expected a whole number in quotes')
  .transform(BigInt)

const stateOfOld = [amountSchema.nullable(), amountSchema, z.int()] as const

const limitMarkSchema = z
  .union([z.tuple(stateOfOld), z.tuple([...stateOfOld, amountSchema, amountSchema, z.int().min(0)])], {
    error: 'expected three or six figures of a bucket',
  })
  .transform(
    ([oldConsumed, oldTokens, oldRefilledAtMs, consumedMilli, tokensMilli, shards]): LimitMark => ({
      oldConsumed: oldConsumed ?? undefined,
      oldTokens,
      oldRefilledAtMs,
      charged:
        consumedMilli === undefined || tokensMilli === undefined || shards === undefined
          ? undefined
          : {consumedMilli, tokensMilli, shards},
    }),
  )

const bucketMarksSchema = storedJson
  .pipe(z.record(z.string(), z.record(z.string(), limitMarkSchema)))
  .transform(
    (limits): BucketMarks =>
      new Map(Object.entries(limits).map(([limit, places]) => [limit, new Map(Object.entries(places))])),
  )

/** Loose: fields of newer versions are written back. */
const usageMarksSchema = storedJson.pipe(
  z.record(z.string(), z.looseObject({counters: z.record(z.string(), z.number()), hours: z.int().min(0)})),
)

const copyMarkSchema = z
  .string()
  .regex(/^[\w-]+\.[\w-]+$/, 'expected two digests')
  .transform((text): CopyMark => ({source: text.slice(0, text.indexOf('.')), copy: text.slice(text.indexOf('.') + 1)}))

/** Empty without a mark. Throws if the mark is damaged, like the others. */
export const bucketMarksOf = (item: Item | undefined): BucketMarks => readMark(item, bucketMarksSchema) ?? new Map()

export const usageMarksOf = (item: Item | undefined): UsageMarks => readMark(item, usageMarksSchema) ?? {}

export const copyMarkOf = (item: Item | undefined): CopyMark | undefined => readMark(item, copyMarkSchema)

/** A damaged mark must not count as none: old records would be counted twice. */
function readMark<T>(item: Item | undefined, schema: z.ZodType<T>): T | undefined {
  const stored = item?.[MIGRATION_MARK]
  if (!item || !stored) return undefined
  const {data, error} = schema.safeParse('S' in stored ? stored.S : undefined)
  if (!error) return data
  const key = spellKey(keyOf(item))
  const message = `The migration mark of ${key} is damaged: ${describeIssues(error.issues)}.`
  throw new ZaelError('failed', 'migrate.mark', message, {
    hint: `The item was not changed. Restore its attribute "${MIGRATION_MARK}" from a backup. Without it, the old record would be counted twice.`,
    details: {key, attribute: MIGRATION_MARK},
  })
}
