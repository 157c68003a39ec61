import * as z from 'zod'
import {strictObject} from 'zod'
import {count, limitSchema, listOf, type ResultOf, textOrNull} from '../output/results.js'

const migrationDifferenceSchema = strictObject({
  type: z.enum(['entity', 'limits', 'settings', 'registry', 'bucket', 'usage', 'audit', 'version', 'table']),
  key: z.string().describe('Key of the old item, for `zael migrate resolve`'),
  state: z.enum(['behind', 'conflict', 'unmovable']),
  reason: z.string(),
}).meta({id: 'MigrationDifference'})

const unknownItemsSchema = strictObject({
  count: count,
  shown: z.array(z.string()).describe('The first keys'),
})
  .describe('Items of unknown format; unchanged')
  .meta({id: 'UnknownItems'})

const migrationStepSchema = z
  .enum(['indexes', 'namespaces', 'configuration', 'limits', 'data', 'catch-up', 'version'])
  .meta({id: 'MigrationStep'})

const plannedStepSchema = strictObject({
  id: migrationStepSchema,
  title: z.string(),
  pending: z.boolean(),
  items: count.describe('Old items to migrate, or parts to add'),
  readUnits: count.describe('Estimate'),
  writeUnits: count.describe('Estimate'),
}).meta({id: 'PlannedStep'})

const blockerSchema = strictObject({
  blocks: z.enum(['run', 'cleanup']),
  code: z.enum(['running', 'conflicts']),
  reason: z.string(),
}).meta({id: 'Blocker'})

const usageDecisionsSchema = strictObject({
  untangled: count.describe('Days whose first hour included the whole day; now separated'),
  keptAsLabelled: count.describe('Days whose first hour may include the whole day; copied unchanged'),
  superseded: count.describe('Buckets in several old layouts; the last used one is kept'),
})
  .describe('Decisions about ambiguous old items')
  .meta({id: 'UsageDecisions'})
export type UsageDecisionsJson = ResultOf<typeof usageDecisionsSchema>

const oldItemCountsSchema = strictObject({
  entity: count,
  limits: count,
  settings: count,
  registry: count,
  bucket: count,
  usage: count,
  audit: count,
  version: count,
}).meta({id: 'OldItemCounts'})
export type OldItemCountsJson = ResultOf<typeof oldItemCountsSchema>

const differenceSampleSchema = strictObject({
  count: count,
  shown: z.array(migrationDifferenceSchema).describe('The first ones'),
}).meta({id: 'MigrationDifferences'})

const limitlessSchema = strictObject({
  buckets: count.describe('Pairs of an entity and a resource'),
  resources: listOf({
    namespace: textOrNull.describe('Id; null: the namespace "default", not registered yet'),
    resource: z.string(),
    buckets: count,
    entities: z.array(z.string()).describe('The first ones'),
    common: z
      .array(limitSchema)
      .nullable()
      .describe('Most common limits, for the whole resource; null: all buckets differ'),
    exceptions: strictObject({
      count: count,
      shown: listOf({entity: z.string(), limits: z.array(limitSchema)}).describe('The first ones'),
    }).describe('Buckets with other limits, which need their own configuration'),
    underivable: count.describe('Buckets whose limits zael cannot derive'),
  }),
  unlisted: count.describe('Buckets of resources beyond the first 5,000'),
})
  .describe('Buckets without configured limits; requests for them fail')
  .meta({id: 'LimitlessBuckets'})
export type LimitlessJson = ResultOf<typeof limitlessSchema>

const planSchema = strictObject({
  stack: z.string(),
  pending: z.boolean().describe('Whether work is pending'),
  steps: z.array(plannedStepSchema).describe('In order of execution'),
  items: count.describe('Old items to migrate'),
  conflicts: count.describe('Old items that conflict with new ones; resolve them with `zael migrate resolve`'),
  readUnits: count.describe('Estimate'),
  writeUnits: count.describe('Estimate'),
  writeUnitsPerSecond: z.int().min(1),
  seconds: count.describe('Duration of the writes at that rate'),
  blockers: z.array(blockerSchema),
  limitless: limitlessSchema,
  oldItems: count.describe('Items of older layouts, migrated or not'),
  unknownItems: count.describe('Items of unknown format and unreadable buckets; ignored'),
}).meta({id: 'MigrationPlan'})

export const migrateCleanupResult = strictObject({
  stack: z.string(),
  dryRun: z.boolean().describe('True: nothing was deleted; `left` lists the records that would be kept'),
  old: oldItemCountsSchema.describe('Compared old items, by kind'),
  deleted: oldItemCountsSchema.describe('Deleted old items, by kind'),
  left: differenceSampleSchema.describe('Old records that were kept, because they changed or cannot be migrated'),
  unknown: unknownItemsSchema,
}).meta({title: 'zael migrate cleanup'})
export type MigrateCleanupResult = ResultOf<typeof migrateCleanupResult>

export const migratePlanResult = strictObject(planSchema.shape).meta({title: 'zael migrate plan'})
export type MigratePlanResult = ResultOf<typeof migratePlanResult>

export const migrateResolveResult = strictObject({
  stack: z.string(),
  key: textOrNull.describe('Key of the old item; null with --all'),
  kept: z.enum(['old', 'new']),
  settled: count.describe('Resolved conflicts'),
  left: differenceSampleSchema.describe('Conflicts not resolved, because other clients keep changing them'),
}).meta({title: 'zael migrate resolve'})
export type MigrateResolveResult = ResultOf<typeof migrateResolveResult>

export const migrateRunResult = strictObject({
  stack: z.string(),
  dryRun: z.boolean(),
  plan: planSchema.nullable().describe('The plan shown for confirmation; null with --yes'),
  result: strictObject({
    runId: z.string(),
    resumed: z.boolean().describe('Whether this run resumed an earlier one'),
    finished: z.boolean().describe('False: it stopped at the requested step'),
    settled: z.boolean().describe('Whether the last pass found no further changes'),
    steps: listOf({
      id: migrationStepSchema,
      title: z.string(),
      state: z.enum(['done', 'pending']),
      checked: count.describe('Old items checked'),
      written: count.describe('New items written or updated'),
      expired: count,
      conflicts: count,
    }),
    added: z.array(z.string()).describe('Parts added to the table'),
    conflicts: differenceSampleSchema.describe('Records that changed in both layouts or cannot be migrated'),
    unknown: unknownItemsSchema,
    decisions: usageDecisionsSchema,
    copiedAgain: oldItemCountsSchema.describe(
      'Records missing in the new layout after an earlier complete run: created by old clients since, or deleted by new clients',
    ),
    limitsWritten: strictObject({
      resources: count.describe('Resources with new limits'),
      entities: count.describe('Single buckets with new limits'),
    })
      .nullable()
      .describe('Limits that --limits-from-buckets wrote; null without the flag'),
    limitless: limitlessSchema.describe('Buckets without limits after the migration'),
  })
    .nullable()
    .describe('Null in a dry run'),
}).meta({title: 'zael migrate run'})
export type MigrateRunResult = ResultOf<typeof migrateRunResult>

export const migrateStatusResult = strictObject({
  stack: z.string(),
  pending: z.boolean().describe('Whether items must be migrated, resolved or configured; the exit code is then 6'),
  items: count.describe('All items of the table'),
  bytes: count,
  schema: strictObject({
    recorded: textOrNull.describe('Layout in the version record'),
    legacy: textOrNull.describe('Layout in the version record of tables without namespaces'),
    accepted: z.boolean().describe('Whether current clients can use a table with these records'),
  }),
  wire: strictObject({
    release: textOrNull.describe('Newest zae-limiter release that wrote records'),
    features: listOf({
      feature: z.string(),
      since: z.string().describe('First zae-limiter release that stores the feature'),
      supported: z
        .boolean()
        .describe('Whether zael supports it; zael refuses records with unsupported features and keeps them'),
      items: count,
    }).describe('Features that zae-limiter added since 0.10, with item counts'),
  }).describe('Generation of the records in the table'),
  missing: strictObject({
    indexes: z.array(z.string()),
    stream: z.boolean(),
    expiry: z.boolean(),
    defaultNamespace: z
      .boolean()
      .describe('Whether the namespace "default" must be registered, for data without a namespace'),
  }),
  old: listOf({
    type: z.enum(['entity', 'limits', 'settings', 'registry', 'bucket', 'usage', 'audit', 'version']),
    generation: z.int().min(1).max(5),
    releases: z.string().describe('zae-limiter releases that wrote this format'),
    items: count,
    records: count.describe('Records in the current layout'),
    bytes: count,
    pending: count.describe('Not migrated yet'),
    conflicts: count.describe('Differ from the new record, because both changed'),
    expired: count.describe('Not migrated, because they expired'),
  }).describe('Items of older layouts by kind and generation'),
  current: strictObject({
    namespace: count,
    ...oldItemCountsSchema.shape,
    migration: count,
    operation: count.describe('Records of resets, top-ups and manifest applies (zae-limiter 0.17)'),
  }).describe('Items of the current layout by kind'),
  unknown: strictObject({
    items: count,
    keys: z.array(z.string()).describe('The first ones'),
  }).describe('Items of unknown format and unreadable buckets; ignored'),
  conflicts: listOf({
    key: z.string().describe('For `zael migrate resolve`'),
    reason: z.string(),
  }).describe('The first ones'),
  limitless: limitlessSchema,
  run: strictObject({
    owner: z.string(),
    running: z.boolean(),
    step: z.string(),
    pass: count,
    startedAt: z.string().describe('UTC, ISO 8601'),
    finishedAt: textOrNull.describe('UTC, ISO 8601'),
    failure: textOrNull,
  })
    .nullable()
    .describe('The latest run'),
}).meta({title: 'zael migrate status'})
export type MigrateStatusResult = ResultOf<typeof migrateStatusResult>

export const migrateVerifyResult = strictObject({
  stack: z.string(),
  clean: z.boolean().describe('Whether every old item is migrated'),
  checked: oldItemCountsSchema.describe('Old items by kind'),
  expired: count.describe('Expired old items, which are not migrated'),
  differences: differenceSampleSchema
    .extend({shown: z.array(migrationDifferenceSchema).describe('The first ones; with --all, all of them')})
    .describe('Old records that differ from their new record'),
  unmovable: count.describe('Number of differences that the current layout cannot represent'),
  unknown: unknownItemsSchema,
  decisions: usageDecisionsSchema,
  limitless: limitlessSchema,
}).meta({title: 'zael migrate verify'})
export type MigrateVerifyResult = ResultOf<typeof migrateVerifyResult>
