import {z} from 'zod'
import {
  bucketSyncSchema,
  limitChangeSchema,
  limitLevelSchema,
  limitSchema,
  onUnavailableChangeSchema,
  onUnavailableSchema,
  scopeSchema,
} from './shared.js'

export const retentionChangeSchema = z
  .strictObject({
    before: z.int().nullable(),
    after: z.int().nullable(),
  })
  .meta({id: 'RetentionChange'})

export const resolvedLevelSchema = z
  .strictObject({
    level: limitLevelSchema,
    entity: z.string().nullable(),
    resource: z.string().nullable().describe("Null for the system, and for an entity's limits of every resource"),
    limits: z.array(limitSchema),
    applies: z.boolean(),
  })
  .meta({id: 'ResolvedLevel'})

/** zael limits get. */
export const limitsGetResult = z
  .strictObject({
    level: limitLevelSchema,
    entity: z.string().nullable(),
    resource: z.string().nullable().describe("Null for the system, and for an entity's limits of every resource"),
    limits: z.array(limitSchema),
    onUnavailable: onUnavailableSchema.describe('What happens while the table is out of reach; system only'),
    auditRetentionDays: z.int().min(1).nullable().describe('System only'),
  })
  .meta({title: 'zael limits get'})
export type LimitsGetResult = z.infer<typeof limitsGetResult>

/** zael limits list. */
export const limitsListResult = z
  .strictObject({
    configs: z.array(
      z.strictObject({
        level: limitLevelSchema,
        entity: z.string().nullable(),
        resource: z.string().nullable().describe("Null for the system, and for an entity's limits of every resource"),
        limits: z.array(limitSchema),
        onUnavailable: onUnavailableSchema.describe('What happens while the table is out of reach; system only'),
        auditRetentionDays: z.int().min(1).nullable().describe('System only'),
      }),
    ),
    next: z.string().nullable().describe('Pass as --cursor to go on; null at the end'),
  })
  .meta({title: 'zael limits list'})
export type LimitsListResult = z.infer<typeof limitsListResult>

/** zael limits resolve. */
export const limitsResolveResult = z
  .strictObject({
    entity: z.string(),
    resource: z.string(),
    registered: z.boolean().describe('Whether the entity has a record'),
    source: limitLevelSchema.nullable().describe('The level that applies as a whole; null when nothing is set'),
    limits: z.array(limitSchema),
    levels: z.array(resolvedLevelSchema).describe('Most specific first'),
    onUnavailable: onUnavailableSchema,
    parent: z
      .strictObject({
        entity: z.string(),
        source: limitLevelSchema.nullable().describe('The level that applies as a whole; null when nothing is set'),
        limits: z.array(limitSchema),
        levels: z.array(resolvedLevelSchema).describe('Most specific first'),
      })
      .describe('Present where every request is charged to the parent too')
      .nullable(),
  })
  .meta({title: 'zael limits resolve'})
export type LimitsResolveResult = z.infer<typeof limitsResolveResult>

/** zael limits set. */
export const limitsSetResult = z
  .strictObject({
    dryRun: z.boolean(),
    scope: scopeSchema,
    changes: z.array(limitChangeSchema).describe('Every limit that was there or is there now, by name'),
    onUnavailable: onUnavailableChangeSchema,
    auditRetentionDays: retentionChangeSchema,
    buckets: bucketSyncSchema.nullable(),
  })
  .meta({title: 'zael limits set'})
export type LimitsSetResult = z.infer<typeof limitsSetResult>

/** zael limits unset. */
export const limitsUnsetResult = z
  .strictObject({
    scope: scopeSchema,
    changes: z.array(limitChangeSchema).describe('Every limit that was there or is there now, by name'),
    onUnavailable: onUnavailableChangeSchema,
    auditRetentionDays: retentionChangeSchema,
    buckets: bucketSyncSchema,
  })
  .meta({title: 'zael limits unset'})
export type LimitsUnsetResult = z.infer<typeof limitsUnsetResult>
