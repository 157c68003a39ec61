import {z} from 'zod'
import {bucketSyncSchema, limitChangeSchema, onUnavailableChangeSchema, scopeSchema} from './shared.js'

export const changeCountsSchema = z
  .strictObject({
    create: z.int().min(0),
    update: z.int().min(0),
    delete: z.int().min(0),
    adopt: z.int().min(0),
    unchanged: z.int().min(0),
  })
  .meta({id: 'ChangeCounts'})

export const entityFieldsSchema = z
  .strictObject({
    name: z.string().optional(),
    parent: z.string().nullable().optional(),
    cascade: z.boolean().optional(),
    metadata: z.record(z.string(), z.unknown()).optional(),
  })
  .describe('Only the fields that change')
  .meta({id: 'EntityFields'})

export const plannedLimitsSchema = z
  .strictObject({
    kind: z.literal('limits'),
    action: z.enum(['create', 'update', 'delete']),
    scope: scopeSchema,
    changes: z.array(limitChangeSchema),
    onUnavailable: onUnavailableChangeSchema.nullable(),
    adopts: z.boolean().describe('It existed before and was not managed; from now on it is managed'),
  })
  .meta({id: 'PlannedLimits'})

export const plannedEntitySchema = z
  .strictObject({
    kind: z.literal('entity'),
    action: z.enum(['create', 'update']),
    entity: z.string(),
    before: entityFieldsSchema,
    after: entityFieldsSchema,
  })
  .meta({id: 'PlannedEntity'})

export const applyErrorSchema = z
  .strictObject({
    code: z.string(),
    message: z.string(),
  })
  .meta({id: 'ApplyError'})

/** zael limits apply. */
export const limitsApplyResult = z
  .strictObject({
    dryRun: z.boolean(),
    namespace: z.string(),
    changes: z
      .array(z.union([plannedLimitsSchema, plannedEntitySchema]))
      .describe('In the order in which they are applied'),
    adopted: z.array(scopeSchema).describe('As stated already, and managed from now on'),
    counts: changeCountsSchema,
    result: z
      .strictObject({
        outcome: z.enum(['complete', 'failed', 'interrupted']),
        created: z.int().min(0),
        updated: z.int().min(0),
        deleted: z.int().min(0),
        adopted: z.int().min(0),
        left: z.int().min(0).describe('Changes that were not tried'),
        buckets: bucketSyncSchema.describe('Shards of live buckets that the changes concern'),
        failures: z.array(
          z.strictObject({
            change: z.union([plannedLimitsSchema, plannedEntitySchema]),
            error: applyErrorSchema,
          }),
        ),
        recordFailure: applyErrorSchema
          .nullable()
          .describe('Why the list of what is managed could not be brought up to date'),
      })
      .nullable(),
  })
  .meta({title: 'zael limits apply'})
export type LimitsApplyResult = z.infer<typeof limitsApplyResult>

/** zael limits diff. */
export const limitsDiffResult = z
  .strictObject({
    namespace: z.string(),
    drift: z.boolean(),
    differences: z.array(
      z.union([
        z.strictObject({
          difference: z
            .enum(['missing', 'changed', 'extra'])
            .describe('Stated and not there; there with other values; there and managed, but not stated'),
          kind: z.literal('limits'),
          action: z.enum(['create', 'update', 'delete']),
          scope: scopeSchema,
          changes: z.array(limitChangeSchema),
          onUnavailable: onUnavailableChangeSchema.nullable(),
          adopts: z.boolean().describe('It existed before and was not managed; from now on it is managed'),
        }),
        z.strictObject({
          difference: z
            .enum(['missing', 'changed', 'extra'])
            .describe('Stated and not there; there with other values; there and managed, but not stated'),
          kind: z.literal('entity'),
          action: z.enum(['create', 'update']),
          entity: z.string(),
          before: entityFieldsSchema,
          after: entityFieldsSchema,
        }),
      ]),
    ),
  })
  .meta({title: 'zael limits diff'})
export type LimitsDiffResult = z.infer<typeof limitsDiffResult>

/** zael limits export. */
export const limitsExportResult = z
  .strictObject({
    namespace: z.string(),
    system: z.record(z.string(), z.unknown()).optional(),
    resources: z.record(z.string(), z.unknown()).optional(),
    entities: z.record(z.string(), z.unknown()).optional(),
  })
  .meta({title: 'zael limits export'})
export type LimitsExportResult = z.infer<typeof limitsExportResult>

/** zael limits plan. */
export const limitsPlanResult = z
  .strictObject({
    namespace: z.string(),
    changes: z
      .array(z.union([plannedLimitsSchema, plannedEntitySchema]))
      .describe('In the order in which they are applied'),
    adopted: z.array(scopeSchema).describe('As stated already, and managed from now on'),
    counts: changeCountsSchema,
  })
  .meta({title: 'zael limits plan'})
export type LimitsPlanResult = z.infer<typeof limitsPlanResult>

/** zael limits validate. */
export const limitsValidateResult = z
  .strictObject({
    file: z.string(),
    namespace: z.string(),
    system: z.boolean().describe('Whether the file has a system section'),
    resources: z.int().min(0),
    entities: z.int().min(0),
    limits: z.int().min(0),
  })
  .meta({title: 'zael limits validate'})
export type LimitsValidateResult = z.infer<typeof limitsValidateResult>
