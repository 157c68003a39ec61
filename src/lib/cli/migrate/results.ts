import {strictObject, z} from 'zod'
import {count, limitSchema, listOf, type ResultOf, textOrNull} from '../output/results.js'

const migrationDifferenceSchema = strictObject({
  type: z.enum(['entity', 'limits', 'settings', 'registry', 'bucket', 'usage', 'audit', 'version', 'table']),
  key: z.string().describe('Key of the old item, as `zael migrate resolve` takes it'),
  state: z.enum(['behind', 'conflict', 'unmovable']),
  reason: z.string(),
}).meta({id: 'MigrationDifference'})

const unknownItemsSchema = strictObject({
  count: count,
  shown: z.array(z.string()).describe('The first keys'),
})
  .describe('Items of a shape that zael does not know; they stay as they are')
  .meta({id: 'UnknownItems'})

const migrationStepSchema = z
  .enum(['indexes', 'namespaces', 'configuration', 'limits', 'data', 'catch-up', 'version'])
  .meta({id: 'MigrationStep'})

const plannedStepSchema = strictObject({
  id: migrationStepSchema,
  title: z.string(),
  pending: z.boolean(),
  items: count.describe('Old items to move, or parts to add'),
  readUnits: count.describe('Estimate'),
  writeUnits: count.describe('Estimate'),
}).meta({id: 'PlannedStep'})

const blockerSchema = strictObject({
  blocks: z.enum(['run', 'cleanup']),
  code: z.enum(['running', 'conflicts']),
  reason: z.string(),
}).meta({id: 'Blocker'})

const usageDecisionsSchema = strictObject({
  untangled: count.describe('Days whose first hour was counted together with the day and could be separated'),
  keptAsLabelled: count.describe(
    'Days whose first hour may have been counted with the day, and is kept as it calls itself',
  ),
  superseded: count.describe('Buckets in several old places: the one used last counts'),
})
  .describe('What was decided where old items do not say enough')
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
  shown: z.array(migrationDifferenceSchema).describe('The first of them'),
}).meta({id: 'MigrationDifferences'})

const limitlessSchema = strictObject({
  buckets: count.describe('Pairs of an entity and a resource'),
  resources: listOf({
    namespace: textOrNull.describe('Id; null for the namespace "default" that is not registered yet'),
    resource: z.string(),
    buckets: count,
    entities: z.array(z.string()).describe('The first of them'),
    common: z
      .array(limitSchema)
      .nullable()
      .describe('The limits that most buckets have, for the whole resource; null if no two have the same'),
    exceptions: strictObject({
      count: count,
      shown: listOf({entity: z.string(), limits: z.array(limitSchema)}).describe('The first ones'),
    }).describe('Buckets with other limits, which need limits of their own'),
    underivable: count.describe('Buckets whose limits cannot be configured as they are'),
  }),
  unlisted: count.describe('Buckets of resources beyond the first 5,000'),
})
  .describe('Buckets for which no limits are configured at any level: requests for them fail')
  .meta({id: 'LimitlessBuckets'})
export type LimitlessJson = ResultOf<typeof limitlessSchema>

const planSchema = strictObject({
  stack: z.string(),
  pending: z.boolean().describe('Whether there is something to do'),
  steps: z.array(plannedStepSchema).describe('In the order in which they are done'),
  items: count.describe('Old items to move'),
  conflicts: count.describe('Old items that differ from the new place and have to be resolved by hand'),
  readUnits: count.describe('Estimate'),
  writeUnits: count.describe('Estimate'),
  writeUnitsPerSecond: z.int().min(1),
  seconds: count.describe('How long the writes take at that pace'),
  blockers: z.array(blockerSchema),
  limitless: limitlessSchema,
  oldItems: count.describe('Items of older layouts, moved or not'),
  unknownItems: count.describe('Items of no known shape, and buckets that cannot be read; left alone'),
}).meta({id: 'MigrationPlan'})

export const migrateCleanupResult = strictObject({
  stack: z.string(),
  dryRun: z.boolean().describe('Whether nothing was to be deleted; `left` is then what would stay'),
  old: oldItemCountsSchema.describe('Old items that the comparison met, by kind'),
  deleted: oldItemCountsSchema.describe('Old items deleted, by kind'),
  left: differenceSampleSchema.describe('Old records that changed meanwhile or cannot be moved; they are still there'),
  unknown: unknownItemsSchema,
}).meta({title: 'zael migrate cleanup'})
export type MigrateCleanupResult = ResultOf<typeof migrateCleanupResult>

export const migratePlanResult = strictObject(planSchema.shape).meta({title: 'zael migrate plan'})
export type MigratePlanResult = ResultOf<typeof migratePlanResult>

export const migrateResolveResult = strictObject({
  stack: z.string(),
  key: textOrNull.describe('Key of the old item; null with --all'),
  kept: z.enum(['old', 'new']),
  settled: count.describe('Conflicts that are settled now'),
  left: differenceSampleSchema.describe('Conflicts that others keep changing; they are not settled'),
}).meta({title: 'zael migrate resolve'})
export type MigrateResolveResult = ResultOf<typeof migrateResolveResult>

export const migrateRunResult = strictObject({
  stack: z.string(),
  dryRun: z.boolean(),
  plan: planSchema
    .nullable()
    .describe('The plan that was shown for confirmation; null if no confirmation was asked for'),
  result: strictObject({
    runId: z.string(),
    resumed: z.boolean().describe('Whether an earlier run had begun it'),
    finished: z.boolean().describe('False when it stopped at the step asked for'),
    settled: z.boolean().describe('Whether the last pass found nothing to catch up with'),
    steps: listOf({
      id: migrationStepSchema,
      title: z.string(),
      state: z.enum(['done', 'pending']),
      checked: count.describe('Old items looked at'),
      written: count.describe('New items written or brought up to date'),
      expired: count,
      conflicts: count,
    }),
    added: z.array(z.string()).describe('What the table lacked and has now'),
    conflicts: differenceSampleSchema.describe('Records that were changed in both places, or that cannot be moved'),
    unknown: unknownItemsSchema,
    decisions: usageDecisionsSchema,
    copiedAgain: oldItemCountsSchema.describe(
      'Records that were not in the new place although an earlier run had finished: made by old clients since, or deleted by clients of today',
    ),
    limitsWritten: strictObject({
      resources: count.describe('Resources that got limits'),
      entities: count.describe('Single buckets that got limits of their own'),
    })
      .nullable()
      .describe('What --limits-from-buckets wrote; null without it'),
    limitless: limitlessSchema.describe('Buckets without limits after the migration'),
  })
    .nullable()
    .describe('Null in a dry run'),
}).meta({title: 'zael migrate run'})
export type MigrateRunResult = ResultOf<typeof migrateRunResult>

export const migrateStatusResult = strictObject({
  stack: z.string(),
  pending: z
    .boolean()
    .describe('Whether there is something to move, to resolve or to configure; the exit code is 6 then'),
  items: count.describe('All items of the table'),
  bytes: count,
  schema: strictObject({
    recorded: textOrNull.describe('Layout in the version record'),
    legacy: textOrNull.describe('Layout in the place where tables without namespaces recorded it'),
    accepted: z.boolean().describe('Whether clients of today work on a table with these records'),
  }),
  wire: strictObject({
    release: textOrNull.describe('The release of zae-limiter that wrote the newest of the records'),
    features: listOf({
      feature: z.string(),
      since: z.string().describe('The first release of zae-limiter that stores it'),
      supported: z.boolean().describe('Whether zael honours it; records with another one are refused and kept'),
      items: count,
    }).describe('What zae-limiter has added since 0.10, and how many items have it'),
  }).describe('Which generation of records the table has'),
  missing: strictObject({
    indexes: z.array(z.string()),
    stream: z.boolean(),
    expiry: z.boolean(),
    defaultNamespace: z
      .boolean()
      .describe('Whether the namespace "default" has to be registered for data without a namespace'),
  }),
  old: listOf({
    type: z.enum(['entity', 'limits', 'settings', 'registry', 'bucket', 'usage', 'audit', 'version']),
    generation: z.int().min(1).max(5),
    releases: z.string().describe('Releases of the Python system that wrote the shape'),
    items: count,
    records: count.describe("What they are in today's layout"),
    bytes: count,
    pending: count.describe('Not in the new place yet'),
    conflicts: count.describe('Differ from the new place, and neither follows the other'),
    expired: count.describe('Not moved: the table drops them'),
  }).describe('Items of older layouts by kind and generation'),
  current: strictObject({
    namespace: count,
    ...oldItemCountsSchema.shape,
    migration: count,
    operation: count.describe('What zae-limiter 0.17 keeps of resets, top-ups and manifests being applied'),
  }).describe("Items of today's layout by kind"),
  unknown: strictObject({
    items: count,
    keys: z.array(z.string()).describe('The first of them'),
  }).describe('Items of no known shape, and buckets that cannot be read; left alone'),
  conflicts: listOf({
    key: z.string().describe('For `zael migrate resolve`'),
    reason: z.string(),
  }).describe('The first of them'),
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
  clean: z.boolean().describe('Whether every old item is in its new place'),
  checked: oldItemCountsSchema.describe('Old items by kind'),
  expired: count.describe('Old items that need not be moved any more'),
  differences: differenceSampleSchema
    .extend({shown: z.array(migrationDifferenceSchema).describe('The first of them; with --all, every one')})
    .describe('Old records that are not in the new place as they should be'),
  unmovable: count.describe("How many of the differences are records that today's layout cannot hold"),
  unknown: unknownItemsSchema,
  decisions: usageDecisionsSchema,
  limitless: limitlessSchema,
}).meta({title: 'zael migrate verify'})
export type MigrateVerifyResult = ResultOf<typeof migrateVerifyResult>
