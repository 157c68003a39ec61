import {z} from 'zod'
import {limitSchema, type ResultOf} from '../output/results.js'

const migrationDifferenceSchema = z
  .strictObject({
    type: z.enum(['entity', 'limits', 'settings', 'registry', 'bucket', 'usage', 'audit', 'version', 'table']),
    key: z.string().describe('Key of the old item, as `zael migrate resolve` takes it'),
    state: z.enum(['behind', 'conflict', 'unmovable']),
    reason: z.string(),
  })
  .meta({id: 'MigrationDifference'})

const unknownItemsSchema = z
  .strictObject({
    count: z.int().min(0),
    shown: z.array(z.string()).describe('The first keys'),
  })
  .describe('Items of a shape that zael does not know; they stay as they are')
  .meta({id: 'UnknownItems'})

const migrationStepSchema = z
  .enum(['indexes', 'namespaces', 'configuration', 'limits', 'data', 'catch-up', 'version'])
  .meta({id: 'MigrationStep'})

const plannedStepSchema = z
  .strictObject({
    id: migrationStepSchema,
    title: z.string(),
    pending: z.boolean(),
    items: z.int().min(0).describe('Old items to move, or parts to add'),
    readUnits: z.int().min(0).describe('Estimate'),
    writeUnits: z.int().min(0).describe('Estimate'),
  })
  .meta({id: 'PlannedStep'})

const blockerSchema = z
  .strictObject({
    blocks: z.enum(['run', 'cleanup']),
    code: z.enum(['running', 'conflicts']),
    reason: z.string(),
  })
  .meta({id: 'Blocker'})

const usageDecisionsSchema = z
  .strictObject({
    untangled: z
      .int()
      .min(0)
      .describe('Days whose first hour was counted together with the day and could be separated'),
    keptAsLabelled: z
      .int()
      .min(0)
      .describe('Days whose first hour may have been counted with the day, and is kept as it calls itself'),
    superseded: z.int().min(0).describe('Buckets in several old places: the one used last counts'),
  })
  .describe('What was decided where old items do not say enough')
  .meta({id: 'UsageDecisions'})
export type UsageDecisionsJson = ResultOf<typeof usageDecisionsSchema>

const oldItemCountsSchema = z
  .strictObject({
    entity: z.int().min(0),
    limits: z.int().min(0),
    settings: z.int().min(0),
    registry: z.int().min(0),
    bucket: z.int().min(0),
    usage: z.int().min(0),
    audit: z.int().min(0),
    version: z.int().min(0),
  })
  .meta({id: 'OldItemCounts'})
export type OldItemCountsJson = ResultOf<typeof oldItemCountsSchema>

const differenceSampleSchema = z
  .strictObject({
    count: z.int().min(0),
    shown: z.array(migrationDifferenceSchema).describe('The first of them'),
  })
  .meta({id: 'MigrationDifferences'})
export type DifferenceSampleJson = ResultOf<typeof differenceSampleSchema>

const limitlessSchema = z
  .strictObject({
    buckets: z.int().min(0).describe('Pairs of an entity and a resource'),
    resources: z.array(
      z.strictObject({
        namespace: z.string().nullable().describe('Id; null for the namespace "default" that is not registered yet'),
        resource: z.string(),
        buckets: z.int().min(0),
        entities: z.array(z.string()).describe('The first of them'),
        common: z
          .array(limitSchema)
          .nullable()
          .describe('The limits that most buckets have, for the whole resource; null if no two have the same'),
        exceptions: z
          .strictObject({
            count: z.int().min(0),
            shown: z
              .array(z.strictObject({entity: z.string(), limits: z.array(limitSchema)}))
              .describe('The first ones'),
          })
          .describe('Buckets with other limits, which need limits of their own'),
        underivable: z.int().min(0).describe('Buckets whose limits cannot be configured as they are'),
      }),
    ),
    unlisted: z.int().min(0).describe('Buckets of resources beyond the first 5,000'),
  })
  .describe('Buckets for which no limits are configured at any level: requests for them fail')
  .meta({id: 'LimitlessBuckets'})
export type LimitlessJson = ResultOf<typeof limitlessSchema>

const planSchema = z
  .strictObject({
    stack: z.string(),
    pending: z.boolean().describe('Whether there is something to do'),
    steps: z.array(plannedStepSchema).describe('In the order in which they are done'),
    items: z.int().min(0).describe('Old items to move'),
    conflicts: z.int().min(0).describe('Old items that differ from the new place and have to be resolved by hand'),
    readUnits: z.int().min(0).describe('Estimate'),
    writeUnits: z.int().min(0).describe('Estimate'),
    writeUnitsPerSecond: z.int().min(1),
    seconds: z.int().min(0).describe('How long the writes take at that pace'),
    blockers: z.array(blockerSchema),
    limitless: limitlessSchema,
    oldItems: z.int().min(0).describe('Items of older layouts, moved or not'),
    unknownItems: z.int().min(0).describe('Items of no known shape, and buckets that cannot be read; left alone'),
  })
  .meta({id: 'MigrationPlan'})

export const migrateCleanupResult = z
  .strictObject({
    stack: z.string(),
    dryRun: z.boolean().describe('Whether nothing was to be deleted; `left` is then what would stay'),
    old: oldItemCountsSchema.describe('Old items that the comparison met, by kind'),
    deleted: oldItemCountsSchema.describe('Old items deleted, by kind'),
    left: differenceSampleSchema.describe(
      'Old records that changed meanwhile or cannot be moved; they are still there',
    ),
    unknown: unknownItemsSchema,
  })
  .meta({title: 'zael migrate cleanup'})
export type MigrateCleanupResult = ResultOf<typeof migrateCleanupResult>

export const migratePlanResult = z.strictObject(planSchema.shape).meta({title: 'zael migrate plan'})
export type MigratePlanResult = ResultOf<typeof migratePlanResult>

export const migrateResolveResult = z
  .strictObject({
    stack: z.string(),
    key: z.string().nullable().describe('Key of the old item; null with --all'),
    kept: z.enum(['old', 'new']),
    settled: z.int().min(0).describe('Conflicts that are settled now'),
    left: differenceSampleSchema.describe('Conflicts that others keep changing; they are not settled'),
  })
  .meta({title: 'zael migrate resolve'})
export type MigrateResolveResult = ResultOf<typeof migrateResolveResult>

export const migrateRunResult = z
  .strictObject({
    stack: z.string(),
    dryRun: z.boolean(),
    plan: planSchema
      .nullable()
      .describe('The plan that was shown for confirmation; null if no confirmation was asked for'),
    result: z
      .strictObject({
        runId: z.string(),
        resumed: z.boolean().describe('Whether an earlier run had begun it'),
        finished: z.boolean().describe('False when it stopped at the step asked for'),
        settled: z.boolean().describe('Whether the last pass found nothing to catch up with'),
        steps: z.array(
          z.strictObject({
            id: migrationStepSchema,
            title: z.string(),
            state: z.enum(['done', 'pending']),
            checked: z.int().min(0).describe('Old items looked at'),
            written: z.int().min(0).describe('New items written or brought up to date'),
            expired: z.int().min(0),
            conflicts: z.int().min(0),
          }),
        ),
        added: z.array(z.string()).describe('What the table lacked and has now'),
        conflicts: differenceSampleSchema.describe('Records that were changed in both places, or that cannot be moved'),
        unknown: unknownItemsSchema,
        decisions: usageDecisionsSchema,
        copiedAgain: oldItemCountsSchema.describe(
          'Records that were not in the new place although an earlier run had finished: made by old clients since, or deleted by clients of today',
        ),
        limitsWritten: z
          .strictObject({
            resources: z.int().min(0).describe('Resources that got limits'),
            entities: z.int().min(0).describe('Single buckets that got limits of their own'),
          })
          .nullable()
          .describe('What --limits-from-buckets wrote; null without it'),
        limitless: limitlessSchema.describe('What is left of them'),
      })
      .nullable()
      .describe('Null in a dry run'),
  })
  .meta({title: 'zael migrate run'})
export type MigrateRunResult = ResultOf<typeof migrateRunResult>

export const migrateStatusResult = z
  .strictObject({
    stack: z.string(),
    pending: z
      .boolean()
      .describe('Whether there is something to move, to resolve or to configure; the exit code is 6 then'),
    items: z.int().min(0).describe('All items of the table'),
    bytes: z.int().min(0),
    schema: z.strictObject({
      recorded: z.string().nullable().describe('Layout in the version record'),
      legacy: z.string().nullable().describe('Layout in the place where tables without namespaces recorded it'),
      accepted: z.boolean().describe('Whether clients of today work on a table with these records'),
    }),
    wire: z
      .strictObject({
        release: z.string().nullable().describe('The release of zae-limiter that wrote the newest of the records'),
        features: z
          .array(
            z.strictObject({
              feature: z.string(),
              since: z.string().describe('The first release of zae-limiter that stores it'),
              supported: z.boolean().describe('Whether zael honours it; records with another one are refused and kept'),
              items: z.int().min(0),
            }),
          )
          .describe('What zae-limiter has added since 0.10, and how many items have it'),
      })
      .describe('Which generation of records the table has'),
    missing: z.strictObject({
      indexes: z.array(z.string()),
      stream: z.boolean(),
      expiry: z.boolean(),
      defaultNamespace: z
        .boolean()
        .describe('Whether the namespace "default" has to be registered for data without a namespace'),
    }),
    old: z
      .array(
        z.strictObject({
          type: z.enum(['entity', 'limits', 'settings', 'registry', 'bucket', 'usage', 'audit', 'version']),
          generation: z.int().min(1).max(5),
          releases: z.string().describe('Releases of the Python system that wrote the shape'),
          items: z.int().min(0),
          records: z.int().min(0).describe("What they are in today's layout"),
          bytes: z.int().min(0),
          pending: z.int().min(0).describe('Not in the new place yet'),
          conflicts: z.int().min(0).describe('Differ from the new place, and neither follows the other'),
          expired: z.int().min(0).describe('Not moved: the table drops them'),
        }),
      )
      .describe('Items of older layouts by kind and generation'),
    current: z
      .strictObject({
        namespace: z.int().min(0),
        ...oldItemCountsSchema.shape,
        migration: z.int().min(0),
        operation: z
          .int()
          .min(0)
          .describe('What zae-limiter 0.17 keeps of resets, top-ups and manifests being applied'),
      })
      .describe("Items of today's layout by kind"),
    unknown: z
      .strictObject({
        items: z.int().min(0),
        keys: z.array(z.string()).describe('The first of them'),
      })
      .describe('Items of no known shape, and buckets that cannot be read; left alone'),
    conflicts: z
      .array(
        z.strictObject({
          key: z.string().describe('For `zael migrate resolve`'),
          reason: z.string(),
        }),
      )
      .describe('The first of them'),
    limitless: limitlessSchema,
    run: z
      .strictObject({
        owner: z.string(),
        running: z.boolean(),
        step: z.string(),
        pass: z.int().min(0),
        startedAt: z.string().describe('UTC, ISO 8601'),
        finishedAt: z.string().nullable().describe('UTC, ISO 8601'),
        failure: z.string().nullable(),
      })
      .nullable()
      .describe('The latest run'),
  })
  .meta({title: 'zael migrate status'})
export type MigrateStatusResult = ResultOf<typeof migrateStatusResult>

export const migrateVerifyResult = z
  .strictObject({
    stack: z.string(),
    clean: z.boolean().describe('Whether every old item is in its new place'),
    checked: oldItemCountsSchema.describe('Old items by kind'),
    expired: z.int().min(0).describe('Old items that need not be moved any more'),
    differences: differenceSampleSchema
      .extend({shown: z.array(migrationDifferenceSchema).describe('The first of them; with --all, every one')})
      .describe('Old records that are not in the new place as they should be'),
    unmovable: z.int().min(0).describe("How many of the differences are records that today's layout cannot hold"),
    unknown: unknownItemsSchema,
    decisions: usageDecisionsSchema,
    limitless: limitlessSchema,
  })
  .meta({title: 'zael migrate verify'})
export type MigrateVerifyResult = ResultOf<typeof migrateVerifyResult>
