import * as z from 'zod'
import {strictObject} from 'zod'
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
  switchEndShape,
  textOrNull,
} from '../output/results.js'

const resolvedLevelSchema = scopeSchema
  .extend({limits: z.array(limitSchema), applies: z.boolean(), access: accessSchema, cascade: cascadePolicySchema})
  .meta({id: 'ResolvedLevel'})

const resolutionSchema = strictObject({
  source: limitLevelSchema.nullable().describe('The level that applies as a whole; null when no limits are set'),
  limits: z.array(limitSchema),
  access: strictObject({access: accessSchema.unwrap(), level: limitLevelSchema, ...switchEndShape})
    .nullable()
    .describe('The switch that applies; null when none is set'),
  levels: z.array(resolvedLevelSchema).describe('Most specific first'),
})
export type ResolutionJson = ResultOf<typeof resolutionSchema>

const configSchema = scopeSchema
  .extend({
    limits: z.array(limitSchema),
    onUnavailable: onUnavailableSchema.describe('Policy while the table is unavailable; system only'),
    auditRetentionDays: z.int().min(1).nullable().describe('System only'),
    access: accessSchema,
    accessUntil: switchEndShape.until,
    accessReason: switchEndShape.reason,
    cascade: cascadePolicySchema,
  })
  .meta({id: 'LimitsConfig'})

const changeSchema = strictObject({
  scope: scopeSchema,
  changes: z.array(limitChangeSchema).describe('Every limit before or after the change, by name'),
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
    'Limits copied from another level, now or earlier, perhaps for a temporary limit; they do not follow later changes there',
  )

const newNamesSchema = listOf({
  kind: z.enum(['entity', 'resource', 'limit']),
  name: z.string(),
  nearest: z.array(z.string()).describe('Similar existing names'),
}).describe('Names that are new in the namespace')

const lostLimitsSchema = strictObject({
  limits: z.array(z.string()).describe('Limits of live buckets that no longer apply to them'),
  buckets: count.describe('Live buckets that lose these limits'),
  unconfigured: count.describe('Live buckets left without limits at any level; their requests fail'),
}).meta({id: 'LostLimits'})

export const plannedLossSchema = lostLimitsSchema
  .extend({complete: z.boolean().describe('False: not all live buckets were read; numbers are lower bounds')})
  .meta({id: 'PlannedLoss'})

export const alteredLimitsSchema = z
  .array(
    limitChangeSchema
      .extend({
        resource: z.string(),
        entities: count.describe('Entities with these live buckets'),
        entityIds: z.array(z.string()).describe('Ids of the entities, also of those without a live bucket'),
        buckets: count.describe('0: only future buckets are affected'),
      })
      .meta({id: 'AlteredLimit'}),
  )
  .describe(
    'Effective limits that you did not name, or that get values other than those of the scope. They change because other levels become hidden or visible. Most live buckets first',
  )

export const changedQuotasSchema = listOf({
  entity: z.string(),
  resource: z.string(),
  limit: z.string(),
  used: z
    .number()
    .nullable()
    .describe('In this period, in tokens; null: not known, so the balance stays until the reset'),
  left: strictObject({before: z.number(), after: z.number()}).describe('In tokens; negative until the next reset'),
  resetsAt: z.string().describe('UTC, ISO 8601'),
  refusedUntil: textOrNull.describe('The reset, if nothing is left after the change; UTC, ISO 8601'),
}).describe(
  'Changed quotas of live buckets, when the change was previewed. Refused quotas first, then by tokens left, ascending',
)

export const confirmationSchema = textOrNull.describe('Question that the command asks without --yes; null: none')

const effectSchema = strictObject({
  effective: strictObject({before: appliedLimitsSchema, after: appliedLimitsSchema}).describe(
    'Limits that apply to the scope: its own, or the limits of another level',
  ),
  hides: z.array(appliedLimitsSchema).describe('Levels that no longer apply'),
  uncovers: z.array(appliedLimitsSchema).describe('Levels that apply from now on'),
  concerned: strictObject({
    entities: count,
    buckets: count,
    others: count.describe('Entities with live buckets that keep more specific limits'),
    complete: z.boolean().describe('False: not all live buckets were read; numbers are lower bounds'),
  }).describe('Entities with live buckets to which the changed limits apply'),
  quotas: changedQuotasSchema,
  lost: lostLimitsSchema,
  altered: alteredLimitsSchema,
  new: newNamesSchema,
})
export type ChangeEffectJson = ResultOf<typeof effectSchema>

export const limitsBoostsResult = strictObject({
  boosts: listOf({
    scope: scopeSchema,
    limit: limitSchema.describe('With the key boost'),
    copied: z.boolean().describe('The scope has limits only until its boosts expire; see limit.boost.endsCopy'),
    since: z.string().describe('When it was set; UTC, ISO 8601'),
    by: textOrNull,
  }).describe('By expiry'),
}).meta({title: 'zael limits boosts'})
export type LimitsBoostsResult = ResultOf<typeof limitsBoostsResult>

export const limitsGetResult = strictObject(configSchema.shape).meta({title: 'zael limits get'})
export type LimitsGetResult = ResultOf<typeof limitsGetResult>

export const impactSchema = strictObject({
  window: z.enum(['hourly', 'daily', 'monthly']),
  since: z.string().describe('UTC, ISO 8601'),
  until: z.string().describe('UTC, ISO 8601'),
  entities: z.int().describe('Entities with usage that the limits would apply to'),
  others: z.int().describe('Entities with usage that more specific limits apply to'),
  windows: z.int().describe('Compared usage windows'),
  open: textOrNull.describe('Start of a window that has not ended; rates are compared with their allowance until now'),
  changed: z.array(z.string()).describe('Names of limits that would change'),
  unrecorded: z.array(z.string()).describe('Changed limits without recorded usage; they cannot be compared'),
  inFlight: z
    .array(z.string())
    .describe('Changed in-flight limits; they cannot be compared, because usage does not record concurrency'),
  complete: z.boolean().describe('False when not all usage was read'),
  found: listOf({
    entity: z.string(),
    resource: z.string(),
    limit: z.string(),
    value: z.string().describe('The limit that would apply'),
    verdict: z
      .enum(['refused', 'possible', 'bursts', 'near', 'fits'])
      .describe(
        'refused: certain; possible: depends on request times, which are not recorded; bursts: a rate that refuses only ' +
          'bursts above twice the average of the window; near: above 80 %',
      ),
    refusedTokens: z.number().describe('Exact, or a lower bound'),
    exact: z.boolean(),
    refusedWindows: z.int(),
    possibleWindows: z.int(),
    peak: strictObject({start: z.string(), tokens: z.number(), allowed: z.number()})
      .nullable()
      .describe('The window with the highest share of the allowed amount'),
    boostedUntil: textOrNull.describe('Until then a temporary copy of limits applies instead'),
  }).describe('Worst first; omits entities that fit'),
}).meta({id: 'LimitsImpact'})
export type ImpactJson = ResultOf<typeof impactSchema>

const keptSchema = z
  .array(strictObject({limit: z.string(), text: z.string().describe('As in "/month@UTC, windows, soft"')}))
  .describe('Limits given as an amount alone, and what each keeps of the limit in force')

export const limitsImpactResult = strictObject({...impactSchema.shape, kept: keptSchema, new: newNamesSchema}).meta({
  title: 'zael limits impact',
})
export type LimitsImpactResult = ResultOf<typeof limitsImpactResult>

export const limitsListResult = strictObject({
  configs: z.array(configSchema),
  next: textOrNull.describe('Value of --cursor for the next page; null at the end'),
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
    .describe('Null unless every request also charges the parent')
    .nullable(),
  parents: z
    .array(strictObject({entity: z.string(), ...resolutionSchema.shape}))
    .describe('All parents that every request also charges, nearest first'),
}).meta({title: 'zael limits resolve'})
export type LimitsResolveResult = ResultOf<typeof limitsResolveResult>

export const limitsSetResult = strictObject({
  dryRun: z.boolean(),
  kept: keptSchema,
  ...changeSchema.shape,
  copied: copiedSchema,
  ...effectSchema.shape,
  buckets: bucketSyncSchema.nullable(),
  confirmation: confirmationSchema,
  impact: impactSchema.nullable().describe('With --impact: the replay of recorded usage'),
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
  access: accessChangeSchema.describe('Null: the next level decides'),
  ...switchEndShape,
  buckets: bucketSyncSchema.describe('Live buckets, each stamped with the switch that applies to it'),
  exceptions: strictObject({
    found: listOf({
      scope: scopeSchema,
      access: accessSchema,
      command: textOrNull.describe(
        'Command that sets the same switch there; null if it would lift a switch set for one entity only',
      ),
    }),
    looked: z.int().describe('Entity configurations that were read'),
    complete: z.boolean().describe('False: not all were read; more exceptions may exist'),
  }).describe('More specific switches with a different setting; each applies to its own scope'),
})
export type SwitchResult = ResultOf<typeof switchSchema>

const titled = (command: string) => strictObject(switchSchema.shape).meta({title: `zael ${command}`})

export const entityBypassResult = titled('entity bypass')
export const entityDisableResult = titled('entity disable')
export const entityEnableResult = titled('entity enable')
export const entityExemptResult = titled('entity exempt')
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
  adopts: z.boolean().describe('It existed unmanaged before and is managed from now on'),
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
  .describe('missing: only in the manifest; changed: different values; extra: managed, but no longer in the manifest')
  .meta({id: 'Difference'})

const applyErrorSchema = strictObject({
  code: z.string(),
  message: z.string(),
}).meta({id: 'ApplyError'})

const plannedBoostsSchema = listOf({
  scope: scopeSchema,
  limit: limitSchema.describe('The limit after apply, with the key boost'),
  ends: z.boolean().describe('True: apply ends the boost, because the manifest does not list this limit'),
}).describe('Temporary limits of listed or managed scopes')

const planShape = {
  namespace: z.string(),
  changes: z.array(plannedChangeSchema).describe('In order of application'),
  adopted: z.array(scopeSchema).describe('Unchanged scopes that are managed from now on'),
  counts: changeCountsSchema,
  boosts: plannedBoostsSchema,
  lost: plannedLossSchema,
  altered: alteredLimitsSchema,
  quotas: changedQuotasSchema,
}

export const planFileSchema = strictObject({
  zaelPlan: z.literal(1),
  namespace: z.string(),
  namespaceId: z.string(),
  createdAt: z.string().describe('UTC, ISO 8601'),
  seen: z.string().describe('Fingerprint of the manifest and the changes; an apply refuses an edited file'),
  counts: planShape.counts,
  changes: planShape.changes,
  adopted: planShape.adopted,
  ended: plannedBoostsSchema.describe('Temporary limits that the apply ends'),
  manifest: z.string().describe('The text of the manifest'),
  source: textOrNull.optional().describe('File of the manifest; null: standard input'),
}).meta({id: 'PlanFile'})
export type PlanFileJson = ResultOf<typeof planFileSchema>

export const limitsApplyResult = strictObject({
  dryRun: z.boolean(),
  ...planShape,
  result: strictObject({
    outcome: z.enum(['complete', 'failed', 'interrupted']),
    created: count,
    updated: count,
    deleted: count,
    adopted: count,
    left: count.describe('Changes not tried'),
    buckets: bucketSyncSchema.describe('Affected shards of live buckets'),
    failures: listOf({
      change: plannedChangeSchema,
      error: applyErrorSchema,
    }),
    mismatches: z
      .array(plannedChangeSchema)
      .describe('Changes needed again: another client changed these records while the manifest was applied'),
    stopped: applyErrorSchema.nullable().describe('Why the run ended early, such as a lost lock'),
    recordFailure: applyErrorSchema.nullable().describe('Why the list of managed scopes was not updated'),
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
  unlisted: count.describe('Scopes in the table that are not in the manifest and not managed; no drift'),
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
  impact: impactSchema.nullable().describe('With --impact: the replay of recorded usage'),
}).meta({title: 'zael limits plan'})
export type LimitsPlanResult = ResultOf<typeof limitsPlanResult>

export const limitsUnlockResult = strictObject({
  namespace: z.string(),
  lock: strictObject({
    holder: z.string(),
    since: z.string().describe('UTC, ISO 8601'),
    expires: z.string().describe('UTC, ISO 8601; then another run may take the lock'),
  })
    .nullable()
    .describe('The lock that was removed; null if there was none'),
  buckets: bucketSyncSchema.nullable().describe('Live buckets that the run had left with former limits'),
}).meta({title: 'zael limits unlock'})
export type LimitsUnlockResult = ResultOf<typeof limitsUnlockResult>

export const limitsValidateResult = strictObject({
  file: z.string(),
  namespace: z.string(),
  system: z.boolean().describe('Whether the file has a system section'),
  resources: count,
  entities: count,
  limits: count,
}).meta({title: 'zael limits validate'})
export type LimitsValidateResult = ResultOf<typeof limitsValidateResult>
