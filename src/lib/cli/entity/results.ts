import * as z from 'zod'
import {strictObject} from 'zod'
import {alteredLimitsSchema, changedQuotasSchema, confirmationSchema, plannedLossSchema} from '../limits/results.js'
import {
  accessSchema,
  bucketSyncSchema,
  count,
  itemCountsSchema,
  limitChangeSchema,
  limitKindShape,
  limitLevelSchema,
  limitSchema,
  listOf,
  type ResultOf,
  scopeSchema,
  sharedChargeSchema,
  switchEndShape,
  switchSetShape,
  textOrNull,
} from '../output/results.js'

const entitySchema = strictObject({
  id: z.string(),
  name: z.string(),
  parent: textOrNull,
  cascade: z
    .boolean()
    .describe('Whether every admitted request also charges the parent; a cascade policy overrides it'),
  metadata: z.record(z.string(), z.unknown()),
  createdAt: textOrNull.describe('UTC, ISO 8601'),
  version: count.describe('Number of changes; 0 when written by a client that does not count them'),
}).meta({id: 'Entity'})
export type EntityJson = ResultOf<typeof entitySchema>

export const entityChildrenResult = strictObject({
  entities: z.array(entitySchema),
  next: z.null().describe('The list is complete'),
}).meta({title: 'zael entity children'})
export type EntityChildrenResult = ResultOf<typeof entityChildrenResult>

export const entityCreateResult = strictObject(entitySchema.shape).meta({title: 'zael entity create'})
export type EntityCreateResult = ResultOf<typeof entityCreateResult>

export const entityDeleteResult = strictObject({
  id: z.string(),
  dryRun: z.boolean(),
  counts: itemCountsSchema,
  usage: strictObject({
    since: textOrNull.describe('Start of the first month with recorded usage, UTC; null without usage'),
    requests: z.number().describe('Admitted requests'),
    money: listOf({
      limit: z.string(),
      unit: z.string().describe('ISO 4217 currency code'),
      amount: z.string().describe('In the unit, as an exact decimal'),
    }),
  }).describe('Recorded usage that reports and exports lack after the deletion'),
  blocked: listOf({
    ...scopeSchema.shape,
    until: textOrNull.describe('End of a temporary block, UTC, ISO 8601'),
  }).describe('Scopes whose requests stay refused'),
}).meta({title: 'zael entity delete'})
export type EntityDeleteResult = ResultOf<typeof entityDeleteResult>

const keptCopiesSchema = listOf({scope: scopeSchema, limits: z.array(limitSchema)})

export const entityImportResult = strictObject({
  file: z.string(),
  dryRun: z.boolean(),
  listed: z.int().describe('Entities in the file'),
  create: z.int(),
  update: z.int(),
  limits: z.int().describe('Sets of limits to write, one per entity and resource'),
  unchanged: z.int().describe('Unchanged entities'),
  kept: keptCopiesSchema.describe('Unlisted limits of temporary copies; the import makes them permanent'),
  copied: listOf({scope: scopeSchema, from: scopeSchema, limits: z.array(z.string())}).describe(
    'Unlisted limits that the scope copies from the next level; they do not follow later changes there',
  ),
  changed: listOf({
    scope: scopeSchema,
    changes: z.array(limitChangeSchema),
    mayRefuseMore: z.boolean().describe('Whether requests that were admitted may be refused'),
  }).describe('Limits in force that change, of entities with a record, own limits or a bucket'),
  lost: plannedLossSchema,
  altered: alteredLimitsSchema,
  quotas: changedQuotasSchema,
  confirmation: confirmationSchema,
  result: strictObject({
    outcome: z
      .enum(['complete', 'failed', 'interrupted'])
      .describe('interrupted: stopped by a signal, exit code 130 or 143; run again to continue'),
    created: z.int(),
    updated: z.int(),
    limitsSet: z.int().describe('Sets of limits, one per entity and resource'),
    kept: keptCopiesSchema.describe('Limits of temporary copies that are now permanent'),
    failures: listOf({entity: z.string(), code: z.string(), message: z.string()}),
    left: z.int().describe('Changes not tried'),
  })
    .nullable()
    .describe('Null with --dry-run'),
}).meta({title: 'zael entity import'})
export type EntityImportResult = ResultOf<typeof entityImportResult>

export const entityListResult = strictObject({
  entities: z.array(entitySchema),
  deleted: listOf({id: z.string(), deletedAt: z.string().describe('UTC, ISO 8601')}).describe(
    'Deleted entities that stay blocked',
  ),
  next: textOrNull.describe('Value of --cursor for the next page'),
}).meta({title: 'zael entity list'})
export type EntityListResult = ResultOf<typeof entityListResult>

export const entityShowResult = strictObject({
  registered: z.boolean().describe('Whether the entity has a record; limits and buckets work without one'),
  deletedAt: textOrNull.describe('UTC, ISO 8601: deleted while disabled; it stays blocked'),
  ...entitySchema.shape,
  name: textOrNull,
  version: count.nullable(),
  parents: listOf({
    id: z.string(),
    name: z.string(),
    cascade: z.boolean(),
  }).describe('The parent, its parent, and so on'),
  resources: listOf({
    resource: textOrNull.describe('Null for all other resources'),
    source: limitLevelSchema.nullable().describe('The level whose limits apply'),
    cascade: sharedChargeSchema,
    access: strictObject({access: accessSchema.unwrap(), setFor: scopeSchema, ...switchEndShape, ...switchSetShape})
      .nullable()
      .describe('The switch that decides, of the entity or of its charged parent; null if none is set'),
    limits: listOf({
      name: z.string(),
      capacity: z.int().min(1).describe('Whole tokens; slots of an in-flight limit'),
      refillAmount: count.describe('Whole tokens per period; 0 for quotas and in-flight limits'),
      refillPeriodSeconds: z.int().min(1),
      ...limitKindShape,
      available: z
        .int()
        .nullable()
        .describe(
          'Whole tokens now, over all shards; negative in debt, null without a bucket and for in-flight limits',
        ),
      capacityNow: count.describe('Whole tokens that apply now: with a temporary limit, a schedule and top-ups'),
    }),
    shards: count.describe('0 without a bucket'),
  }),
}).meta({title: 'zael entity show'})
export type EntityShowResult = ResultOf<typeof entityShowResult>

export const entityUpdateResult = entitySchema
  .extend({
    changed: z.array(z.enum(['name', 'parent', 'cascade', 'metadata'])),
    buckets: bucketSyncSchema.describe('Live buckets updated after a change of parent or cascade'),
    confirmation: confirmationSchema,
  })
  .meta({title: 'zael entity update'})
export type EntityUpdateResult = ResultOf<typeof entityUpdateResult>
