import {strictObject, z} from 'zod'
import {
  accessChangeSchema,
  bucketSyncSchema,
  cascadePolicyChangeSchema,
  count,
  limitChangeSchema,
  limitSchema,
  listOf,
  onUnavailableChangeSchema,
  type ResultOf,
  scopeSchema,
  textOrNull,
} from '../output/results.js'
import {alteredLimitsSchema, impactSchema, plannedLossSchema} from './results.js'

const changeCountsSchema = strictObject({
  create: count,
  update: count,
  delete: count,
  adopt: count,
  unchanged: count,
}).meta({id: 'ChangeCounts'})

const entityFieldsSchema = strictObject({
  name: z.string().optional(),
  parent: textOrNull.optional(),
  cascade: z.boolean().optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
})
  .describe('Only the fields that change')
  .meta({id: 'EntityFields'})

const plannedLimitsSchema = strictObject({
  kind: z.literal('limits'),
  action: z.enum(['create', 'update', 'delete']),
  scope: scopeSchema,
  changes: z.array(limitChangeSchema),
  onUnavailable: onUnavailableChangeSchema.nullable(),
  access: accessChangeSchema.nullable(),
  cascade: cascadePolicyChangeSchema.nullable(),
  adopts: z.boolean().describe('It existed before and was not managed; from now on it is managed'),
}).meta({id: 'PlannedLimits'})

const plannedEntitySchema = strictObject({
  kind: z.literal('entity'),
  action: z.enum(['create', 'update']),
  entity: z.string(),
  before: entityFieldsSchema,
  after: entityFieldsSchema,
}).meta({id: 'PlannedEntity'})

const plannedChangeSchema = z.union([plannedLimitsSchema, plannedEntitySchema]).meta({id: 'PlannedChange'})
export type PlannedChangeJson = ResultOf<typeof plannedChangeSchema>

const differenceSchema = z
  .enum(['missing', 'changed', 'extra'])
  .describe('Stated and not there; there with other values; there and managed, but not stated')
  .meta({id: 'Difference'})

const applyErrorSchema = strictObject({
  code: z.string(),
  message: z.string(),
}).meta({id: 'ApplyError'})

const plannedBoostsSchema = listOf({
  scope: scopeSchema,
  limit: limitSchema.describe('As it is when the manifest is applied, with the key boost'),
  ends: z.boolean().describe('True: applying the manifest ends the boost, because it states no such limit there'),
}).describe('Limits that have other values until an instant, of scopes that are stated or managed')

const planShape = {
  namespace: z.string(),
  changes: z.array(plannedChangeSchema).describe('In the order in which they are applied'),
  adopted: z.array(scopeSchema).describe('As stated already, and managed from now on'),
  counts: changeCountsSchema,
  boosts: plannedBoostsSchema,
  lost: plannedLossSchema,
  altered: alteredLimitsSchema,
}

export const limitsApplyResult = strictObject({
  dryRun: z.boolean(),
  ...planShape,
  result: strictObject({
    outcome: z.enum(['complete', 'failed', 'interrupted']),
    created: count,
    updated: count,
    deleted: count,
    adopted: count,
    left: count.describe('Changes that were not tried'),
    buckets: bucketSyncSchema.describe('Shards of live buckets that the changes concern'),
    failures: listOf({
      change: plannedChangeSchema,
      error: applyErrorSchema,
    }),
    recordFailure: applyErrorSchema
      .nullable()
      .describe('Why the list of what is managed could not be brought up to date'),
  }).nullable(),
}).meta({title: 'zael limits apply'})
export type LimitsApplyResult = ResultOf<typeof limitsApplyResult>

export const limitsDiffResult = strictObject({
  namespace: z.string(),
  drift: z.boolean(),
  differences: z.array(
    z.union([
      strictObject({difference: differenceSchema, ...plannedLimitsSchema.shape}),
      strictObject({difference: differenceSchema, ...plannedEntitySchema.shape}),
    ]),
  ),
  boosts: plannedBoostsSchema,
}).meta({title: 'zael limits diff'})
export type LimitsDiffResult = ResultOf<typeof limitsDiffResult>

export const limitsExportResult = strictObject({
  namespace: z.string(),
  system: z.record(z.string(), z.unknown()).optional(),
  resources: z.record(z.string(), z.unknown()).optional(),
  entities: z.record(z.string(), z.unknown()).optional(),
}).meta({title: 'zael limits export'})
export type LimitsExportResult = ResultOf<typeof limitsExportResult>

export const limitsPlanResult = strictObject({
  ...planShape,
  impact: impactSchema.nullable().describe('With --impact: whom the limits would have stopped'),
}).meta({title: 'zael limits plan'})
export type LimitsPlanResult = ResultOf<typeof limitsPlanResult>

export const limitsValidateResult = strictObject({
  file: z.string(),
  namespace: z.string(),
  system: z.boolean().describe('Whether the file has a system section'),
  resources: count,
  entities: count,
  limits: count,
}).meta({title: 'zael limits validate'})
export type LimitsValidateResult = ResultOf<typeof limitsValidateResult>
