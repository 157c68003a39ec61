import {z} from 'zod'
import {
  accessChangeSchema,
  bucketSyncSchema,
  cascadePolicyChangeSchema,
  limitChangeSchema,
  limitSchema,
  onUnavailableChangeSchema,
  type ResultOf,
  scopeSchema,
} from '../output/results.js'
import {alteredLimitsSchema, impactSchema, plannedLossSchema} from './results.js'

const changeCountsSchema = z
  .strictObject({
    create: z.int().min(0),
    update: z.int().min(0),
    delete: z.int().min(0),
    adopt: z.int().min(0),
    unchanged: z.int().min(0),
  })
  .meta({id: 'ChangeCounts'})

const entityFieldsSchema = z
  .strictObject({
    name: z.string().optional(),
    parent: z.string().nullable().optional(),
    cascade: z.boolean().optional(),
    metadata: z.record(z.string(), z.unknown()).optional(),
  })
  .describe('Only the fields that change')
  .meta({id: 'EntityFields'})

const plannedLimitsSchema = z
  .strictObject({
    kind: z.literal('limits'),
    action: z.enum(['create', 'update', 'delete']),
    scope: scopeSchema,
    changes: z.array(limitChangeSchema),
    onUnavailable: onUnavailableChangeSchema.nullable(),
    access: accessChangeSchema.nullable(),
    cascade: cascadePolicyChangeSchema.nullable(),
    adopts: z.boolean().describe('It existed before and was not managed; from now on it is managed'),
  })
  .meta({id: 'PlannedLimits'})

const plannedEntitySchema = z
  .strictObject({
    kind: z.literal('entity'),
    action: z.enum(['create', 'update']),
    entity: z.string(),
    before: entityFieldsSchema,
    after: entityFieldsSchema,
  })
  .meta({id: 'PlannedEntity'})

const plannedChangeSchema = z.union([plannedLimitsSchema, plannedEntitySchema]).meta({id: 'PlannedChange'})
export type PlannedChangeJson = ResultOf<typeof plannedChangeSchema>

const differenceSchema = z
  .enum(['missing', 'changed', 'extra'])
  .describe('Stated and not there; there with other values; there and managed, but not stated')
  .meta({id: 'Difference'})

const applyErrorSchema = z
  .strictObject({
    code: z.string(),
    message: z.string(),
  })
  .meta({id: 'ApplyError'})

const plannedBoostsSchema = z
  .array(
    z.strictObject({
      scope: scopeSchema,
      limit: limitSchema.describe('As it is when the manifest is applied, with the key boost'),
      ends: z.boolean().describe('True: applying the manifest ends the boost, because it states no such limit there'),
    }),
  )
  .describe('Limits that have other values until an instant, of scopes that are stated or managed')

export const limitsApplyResult = z
  .strictObject({
    dryRun: z.boolean(),
    namespace: z.string(),
    changes: z.array(plannedChangeSchema).describe('In the order in which they are applied'),
    adopted: z.array(scopeSchema).describe('As stated already, and managed from now on'),
    counts: changeCountsSchema,
    boosts: plannedBoostsSchema,
    lost: plannedLossSchema,
    altered: alteredLimitsSchema,
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
            change: plannedChangeSchema,
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
export type LimitsApplyResult = ResultOf<typeof limitsApplyResult>

export const limitsDiffResult = z
  .strictObject({
    namespace: z.string(),
    drift: z.boolean(),
    differences: z.array(
      z.union([
        z.strictObject({difference: differenceSchema, ...plannedLimitsSchema.shape}),
        z.strictObject({difference: differenceSchema, ...plannedEntitySchema.shape}),
      ]),
    ),
    boosts: plannedBoostsSchema,
  })
  .meta({title: 'zael limits diff'})
export type LimitsDiffResult = ResultOf<typeof limitsDiffResult>

export const limitsExportResult = z
  .strictObject({
    namespace: z.string(),
    system: z.record(z.string(), z.unknown()).optional(),
    resources: z.record(z.string(), z.unknown()).optional(),
    entities: z.record(z.string(), z.unknown()).optional(),
  })
  .meta({title: 'zael limits export'})
export type LimitsExportResult = ResultOf<typeof limitsExportResult>

export const limitsPlanResult = z
  .strictObject({
    namespace: z.string(),
    changes: z.array(plannedChangeSchema).describe('In the order in which they are applied'),
    adopted: z.array(scopeSchema).describe('As stated already, and managed from now on'),
    counts: changeCountsSchema,
    boosts: plannedBoostsSchema,
    lost: plannedLossSchema,
    altered: alteredLimitsSchema,
    impact: impactSchema.nullable().describe('With --impact: whom the limits would have stopped'),
  })
  .meta({title: 'zael limits plan'})
export type LimitsPlanResult = ResultOf<typeof limitsPlanResult>

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
export type LimitsValidateResult = ResultOf<typeof limitsValidateResult>
