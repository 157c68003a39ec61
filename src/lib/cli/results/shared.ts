import {z} from 'zod'

type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? {readonly [Key in keyof T]: DeepReadonly<T[Key]>}
    : T

/** The type of a result or of a part of one. Commands import these types only: zod is not loaded when they run. */
export type ResultOf<Schema extends z.ZodType> = DeepReadonly<z.infer<Schema>>

/** What a command returns that printed its documents as they came, one per line. */
export type Streamed = Readonly<Record<string, never>>

export const onUnavailableSchema = z.enum(['allow', 'block']).nullable().meta({id: 'OnUnavailable'})

export const limitLevelSchema = z.enum(['entity', 'entity_default', 'resource', 'system']).meta({id: 'LimitLevel'})

export const limitSchema = z
  .strictObject({
    name: z.string(),
    capacity: z.int().min(1).describe('Whole tokens it holds at most; the burst'),
    refillAmount: z.int().min(1).describe('Whole tokens per period'),
    refillPeriodSeconds: z.int().min(1),
    text: z.string().describe('As `zael limits set` reads it'),
  })
  .meta({id: 'Limit'})
export type LimitJson = ResultOf<typeof limitSchema>

export const scopeSchema = z
  .strictObject({
    level: limitLevelSchema,
    entity: z.string().nullable(),
    resource: z.string().nullable().describe("Null for the system, and for an entity's limits of every resource"),
  })
  .meta({id: 'Scope'})
export type ScopeJson = ResultOf<typeof scopeSchema>

export const limitChangeSchema = z
  .strictObject({
    name: z.string(),
    before: limitSchema.nullable(),
    after: limitSchema.nullable(),
  })
  .meta({id: 'LimitChange'})
export type LimitChangeJson = ResultOf<typeof limitChangeSchema>

export const onUnavailableChangeSchema = z
  .strictObject({
    before: onUnavailableSchema,
    after: onUnavailableSchema,
  })
  .meta({id: 'OnUnavailableChange'})

export const bucketSyncSchema = z
  .strictObject({
    checked: z.int().min(0),
    updated: z.int().min(0),
    failed: z.int().min(0),
  })
  .describe('Shards of live buckets that the change concerns')
  .meta({id: 'BucketSync'})

export const itemCountsSchema = z
  .strictObject({
    entities: z.int().min(0),
    entityLimits: z.int().min(0),
    resourceLimits: z.int().min(0),
    systemLimits: z.int().min(0),
    buckets: z.int().min(0),
    usage: z.int().min(0),
    audit: z.int().min(0),
    registries: z.int().min(0),
    provisioner: z.int().min(0),
    other: z.int().min(0),
    total: z.int().min(0),
  })
  .describe('Items that were deleted or, in a dry run, would be')
  .meta({id: 'ItemCounts'})
export type ItemCountsJson = ResultOf<typeof itemCountsSchema>
