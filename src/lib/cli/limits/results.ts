import {strictObject, z} from 'zod'
import {
  accessChangeSchema,
  accessSchema,
  bucketSyncSchema,
  cascadePolicyChangeSchema,
  cascadePolicySchema,
  count,
  limitChangeSchema,
  limitLevelSchema,
  limitSchema,
  listOf,
  onUnavailableChangeSchema,
  onUnavailableSchema,
  type ResultOf,
  scopeSchema,
  sharedChargeSchema,
  textOrNull,
} from '../output/results.js'

const resolvedLevelSchema = scopeSchema
  .extend({limits: z.array(limitSchema), applies: z.boolean(), access: accessSchema, cascade: cascadePolicySchema})
  .meta({id: 'ResolvedLevel'})

const resolutionSchema = strictObject({
  source: limitLevelSchema.nullable().describe('The level that applies as a whole; null when nothing is set'),
  limits: z.array(limitSchema),
  access: strictObject({access: accessSchema.unwrap(), level: limitLevelSchema})
    .nullable()
    .describe('The switch that counts; null when none is set'),
  levels: z.array(resolvedLevelSchema).describe('Most specific first'),
})
export type ResolutionJson = ResultOf<typeof resolutionSchema>

const configSchema = scopeSchema
  .extend({
    limits: z.array(limitSchema),
    onUnavailable: onUnavailableSchema.describe('What happens while the table is out of reach; system only'),
    auditRetentionDays: z.int().min(1).nullable().describe('System only'),
    access: accessSchema,
    cascade: cascadePolicySchema,
  })
  .meta({id: 'LimitsConfig'})

const changeSchema = strictObject({
  scope: scopeSchema,
  changes: z.array(limitChangeSchema).describe('Every limit that was there or is there now, by name'),
  onUnavailable: onUnavailableChangeSchema,
  auditRetentionDays: strictObject({before: z.int().nullable(), after: z.int().nullable()}),
})

const appliedLimitsSchema = strictObject({
  scope: scopeSchema.nullable().describe('Where they are set; null when nothing is configured'),
  limits: z.array(limitSchema),
}).meta({id: 'AppliedLimits'})

const copiedSchema = appliedLimitsSchema
  .nullable()
  .describe(
    'Limits taken over from another level, also earlier and only for a boost; later changes there do not reach them',
  )

const newNamesSchema = listOf({
  kind: z.enum(['entity', 'resource', 'limit']),
  name: z.string(),
  nearest: z.array(z.string()).describe('Existing names that it may stand for'),
}).describe('Names that nothing in the namespace has used before')

const lostLimitsSchema = strictObject({
  limits: z.array(z.string()).describe('Limits that live buckets were charged for and that then do not apply to them'),
  buckets: count.describe('Those live buckets'),
  unconfigured: count.describe('Live buckets that then have no limits at any level: their requests fail'),
}).meta({id: 'LostLimits'})

export const plannedLossSchema = lostLimitsSchema
  .extend({complete: z.boolean().describe('False: not all live buckets were looked at; numbers are lower bounds')})
  .meta({id: 'PlannedLoss'})

export const alteredLimitsSchema = z
  .array(
    limitChangeSchema
      .extend({
        resource: z.string(),
        entities: count.describe('Entities with such live buckets'),
        buckets: count.describe('0: a bucket that is used later has them'),
      })
      .meta({id: 'AlteredLimit'}),
  )
  .describe(
    'Limits in force that change although they were not named, or from and to other values than at the scope, because other levels are hidden or uncovered; most live buckets first',
  )

const effectSchema = strictObject({
  effective: strictObject({before: appliedLimitsSchema, after: appliedLimitsSchema}).describe(
    'What applies to the scope as a whole: its own limits, or those of another level',
  ),
  hides: z.array(appliedLimitsSchema).describe('Other levels that applied before and do not any more'),
  uncovers: z.array(appliedLimitsSchema).describe('Other levels that apply from now on'),
  concerned: strictObject({
    entities: count,
    buckets: count,
    complete: z.boolean().describe('False: there are more live buckets than were looked at; numbers are lower bounds'),
  }).describe('Entities with live buckets to which the changed limits apply'),
  lost: lostLimitsSchema,
  altered: alteredLimitsSchema,
  new: newNamesSchema,
})
export type ChangeEffectJson = ResultOf<typeof effectSchema>

export const limitsBoostsResult = strictObject({
  boosts: listOf({
    scope: scopeSchema,
    limit: limitSchema.describe('With the key boost'),
    copied: z
      .boolean()
      .describe(
        'The scope has limits only for the time of its boosts; the one that ends them says so: limit.boost.endsCopy',
      ),
    since: z.string().describe('UTC, ISO 8601: when it was set'),
    by: textOrNull,
  }).describe('The next end first'),
}).meta({title: 'zael limits boosts'})
export type LimitsBoostsResult = ResultOf<typeof limitsBoostsResult>

export const limitsGetResult = strictObject(configSchema.shape).meta({title: 'zael limits get'})
export type LimitsGetResult = ResultOf<typeof limitsGetResult>

export const impactSchema = strictObject({
  window: z.enum(['hourly', 'daily', 'monthly']),
  since: z.string().describe('UTC, ISO 8601'),
  until: z.string().describe('UTC, ISO 8601'),
  entities: z.int().describe('Entities with usage to which the limits would apply'),
  others: z.int().describe('Entities with usage to which more specific limits apply'),
  windows: z.int().describe('Windows with usage that were compared'),
  changed: z.array(z.string()).describe('Limits that would not be as they are now, by name'),
  unrecorded: z
    .array(z.string())
    .describe('Those of them under whose name no usage is recorded: nothing can be said about them'),
  complete: z.boolean().describe('False when there was too much usage to read'),
  found: listOf({
    entity: z.string(),
    resource: z.string(),
    limit: z.string(),
    value: z.string().describe('The limit that would apply'),
    verdict: z
      .enum(['refused', 'possible', 'near', 'fits'])
      .describe('refused: certainly; possible: depends on times that are not recorded; near: above 80 %'),
    refusedTokens: z.number().describe('Exact, or a lower bound'),
    exact: z.boolean(),
    refusedWindows: z.int(),
    possibleWindows: z.int(),
    peak: strictObject({start: z.string(), tokens: z.number(), allowed: z.number()})
      .nullable()
      .describe('The window in which most was used of what was possible'),
    boostedUntil: textOrNull.describe('Until then a boost applies instead, with limits that were copied for it'),
  }).describe('Without those that fit; worst first'),
}).meta({id: 'LimitsImpact'})
export type ImpactJson = ResultOf<typeof impactSchema>

export const limitsImpactResult = strictObject({...impactSchema.shape, new: newNamesSchema}).meta({
  title: 'zael limits impact',
})
export type LimitsImpactResult = ResultOf<typeof limitsImpactResult>

export const limitsListResult = strictObject({
  configs: z.array(configSchema),
  next: textOrNull.describe('Pass as --cursor to go on; null at the end'),
}).meta({title: 'zael limits list'})
export type LimitsListResult = ResultOf<typeof limitsListResult>

export const limitsResolveResult = strictObject({
  entity: z.string(),
  resource: z.string(),
  registered: z.boolean().describe('Whether the entity has a record'),
  ...resolutionSchema.shape,
  onUnavailable: onUnavailableSchema,
  cascade: sharedChargeSchema,
  parent: strictObject({entity: z.string(), ...resolutionSchema.shape})
    .describe('Present where every request is charged to the parent too')
    .nullable(),
}).meta({title: 'zael limits resolve'})
export type LimitsResolveResult = ResultOf<typeof limitsResolveResult>

export const limitsSetResult = strictObject({
  dryRun: z.boolean(),
  ...changeSchema.shape,
  copied: copiedSchema,
  ...effectSchema.shape,
  buckets: bucketSyncSchema.nullable(),
  impact: impactSchema.nullable().describe('With --impact: whom the limits would have stopped'),
}).meta({title: 'zael limits set'})
export type LimitsSetResult = ResultOf<typeof limitsSetResult>

export const limitsUnsetResult = changeSchema
  .extend({copied: copiedSchema, ...effectSchema.shape, buckets: bucketSyncSchema})
  .meta({title: 'zael limits unset'})
export type LimitsUnsetResult = ResultOf<typeof limitsUnsetResult>

const cascadeSchema = strictObject({
  scope: scopeSchema,
  cascade: cascadePolicyChangeSchema,
  buckets: bucketSyncSchema.describe('Live buckets, each stamped with the policy that applies to it'),
})
export type CascadeResult = ResultOf<typeof cascadeSchema>

export const entityCascadeResult = strictObject(cascadeSchema.shape).meta({title: 'zael entity cascade'})
export const resourceCascadeResult = strictObject(cascadeSchema.shape).meta({title: 'zael resource cascade'})

const switchSchema = strictObject({
  scope: scopeSchema,
  access: accessChangeSchema.describe('Null: the next less specific level decides'),
  buckets: bucketSyncSchema.describe('Live buckets, each stamped with the switch that applies to it'),
  exceptions: strictObject({
    found: listOf({
      scope: scopeSchema,
      access: accessSchema,
      command: textOrNull.describe(
        'Does the same there; null where that would open what was switched for one entity alone',
      ),
    }),
    looked: z.int().describe('Configurations of entities that were looked at'),
    complete: z.boolean().describe('Whether these were all; otherwise there may be more exceptions'),
  }).describe('More specific switches that say something else: they count there'),
})
export type SwitchResult = ResultOf<typeof switchSchema>

const titled = (command: string) => strictObject(switchSchema.shape).meta({title: `zael ${command}`})

export const entityBypassResult = titled('entity bypass')
export const entityDisableResult = titled('entity disable')
export const entityEnableResult = titled('entity enable')
export const entityClearResult = titled('entity clear')
export const resourceBypassResult = titled('resource bypass')
export const resourceDisableResult = titled('resource disable')
export const resourceEnableResult = titled('resource enable')
export const resourceClearResult = titled('resource clear')

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
