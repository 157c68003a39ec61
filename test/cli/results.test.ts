import {readFileSync} from 'node:fs'
import {join} from 'node:path'
import {describe, expect, expectTypeOf, it} from 'vitest'
import {z} from 'zod'
import type {SupervisorFacts} from '../../src/lib/cli/base/local-health.js'
import type {BucketListResult} from '../../src/lib/cli/bucket/results.js'
import type {CostResult} from '../../src/lib/cli/cost/results.js'
import type {EntityDeleteResult} from '../../src/lib/cli/entity/results.js'
import type {VersionResult} from '../../src/lib/cli/help/results.js'
import type {
  ImpactJson,
  LimitsApplyResult,
  LimitsPlanResult,
  LimitsSetResult,
} from '../../src/lib/cli/limits/results.js'
import type {
  MigratePlanResult,
  MigrateResolveResult,
  MigrateRunResult,
  MigrateStatusResult,
  MigrateVerifyResult,
  OldItemCountsJson,
} from '../../src/lib/cli/migrate/results.js'
import type {KindCounts} from '../../src/lib/cli/output/kind-counts.js'
import type {TableFacts} from '../../src/lib/cli/stack/local-presenter.js'
import type {
  DeleteResult,
  DeployResult,
  DoctorResult,
  ListResult,
  LocalLogsResult,
  LocalStatusResult,
  StatusResult,
} from '../../src/lib/cli/stack/results.js'
import type {UsageShowResult} from '../../src/lib/cli/usage/results.js'
import type {Deleted} from '../../src/lib/infra/deploy/delete.js'
import type {DeletionPlan} from '../../src/lib/infra/deploy/delete-plan.js'
import type {ExportedFile} from '../../src/lib/infra/deploy/export.js'
import type {DeployPlan} from '../../src/lib/infra/deploy/plan.js'
import type {ChangeSet} from '../../src/lib/infra/deploy/planned-change.js'
import type {Check} from '../../src/lib/infra/doctor/machine-checks.js'
import type {StackHealth} from '../../src/lib/infra/health/health.js'
import type {StackList} from '../../src/lib/infra/stack/list-stacks.js'
import type {CostReport} from '../../src/lib/insight/cost/report.js'
import type {EntityImpact, Impact} from '../../src/lib/insight/preview/impact.js'
import type {LimitTotal, UsageWindow} from '../../src/lib/insight/usage/usage-report.js'
import type {Known} from '../../src/lib/live/model/model.js'
import type {WatchResult} from '../../src/lib/live/results.js'
import type {LogEntry} from '../../src/lib/local/state-dir/log.js'
import type {StackEnd} from '../../src/lib/local/state-dir/state.js'
import type {AggregatorStatus} from '../../src/lib/local/supervisor/control.js'
import type {ApplyResult} from '../../src/lib/manifest/apply.js'
import type {Plan} from '../../src/lib/manifest/plan.js'
import type {MigrationPlan, PlannedStep} from '../../src/lib/migrate/plan.js'
import type {CurrentRecordType, OldRecordType} from '../../src/lib/migrate/records/classify.js'
import type {MigrationResult} from '../../src/lib/migrate/run.js'
import type {SurveyCounts} from '../../src/lib/migrate/survey.js'
import type {Verification} from '../../src/lib/migrate/verify-migration.js'
import type {RecordDifference, Sample} from '../../src/lib/migrate/walk/report.js'
import type {BucketLevels} from '../../src/lib/repository/buckets/view.js'
import type {SyncResult} from '../../src/lib/repository/limits/bucket-sync.js'
import {RESULTS} from '../../src/lib/results.js'
import {ROOT} from '../e2e/zael.js'

describe('the schemas of results', () => {
  const {error: _, ...ofCommands} = RESULTS

  it('exist for exactly the existing commands', () => {
    const {commands} = JSON.parse(readFileSync(join(ROOT, 'oclif.manifest.json'), 'utf8'))
    const names = Object.keys(commands).map(id => id.replaceAll(':', ' '))
    expect(Object.keys(ofCommands).sort()).toEqual(names.sort())
  })

  it.each(Object.entries(RESULTS))('allow no unknown key at the top of %s', (_command, schema) => {
    const published = z.toJSONSchema(schema)
    const variants = published.anyOf ?? [published]
    expect(variants.map(({type, additionalProperties}) => ({type, additionalProperties}))).toEqual(
      variants.map(() => ({type: 'object', additionalProperties: false})),
    )
  })
})

describe('the types of results', () => {
  it('refuse an extra, a missing and a wrong key', () => {
    const version: VersionResult = {version: '1', platform: 'linux', arch: 'x64', node: 'v20'}
    // @ts-expect-error: a key that the schema does not have
    const extra: VersionResult = {...version, planted: 1}
    // @ts-expect-error: without node
    const missing: VersionResult = {version: '1', platform: 'linux', arch: 'x64'}
    // @ts-expect-error: not a number
    const wrong: VersionResult = {...version, node: 20}
    expect([extra, missing, wrong]).toHaveLength(3)
  })

  /** TypeScript finds extra keys only in object literals; these objects come from other rooms and are passed on whole. */
  it('equal the types of values passed on unchanged', () => {
    type Item<T> = NonNullable<T> extends readonly (infer Each)[] ? Each : never
    expectTypeOf<BucketLevels>().toEqualTypeOf<BucketListResult['buckets'][number]>()
    expectTypeOf<KindCounts>().toEqualTypeOf<EntityDeleteResult['counts']>()
    expectTypeOf<SyncResult>().toEqualTypeOf<NonNullable<LimitsSetResult['buckets']>>()
    expectTypeOf<Plan['counts']>().toEqualTypeOf<LimitsPlanResult['counts']>()
    expectTypeOf<UsageWindow>().toEqualTypeOf<Item<UsageShowResult['windows']>>()
    expectTypeOf<LimitTotal>().toEqualTypeOf<Item<UsageShowResult['totals']>>()
    expectTypeOf<Known>().toEqualTypeOf<WatchResult['known']>()

    expectTypeOf<OldRecordType>().toEqualTypeOf<keyof OldItemCountsJson>()
    expectTypeOf<CurrentRecordType>().toEqualTypeOf<keyof MigrateStatusResult['current']>()
    expectTypeOf<SurveyCounts['unknown']>().toEqualTypeOf<MigrateStatusResult['unknown']>()
    expectTypeOf<SurveyCounts['conflicts']>().toEqualTypeOf<MigrateStatusResult['conflicts']>()
    expectTypeOf<keyof SurveyCounts['old'][number]>().toEqualTypeOf<keyof Item<MigrateStatusResult['old']> | 'groups'>()
    expectTypeOf<MigrationPlan['blockers']>().toEqualTypeOf<MigratePlanResult['blockers']>()
    expectTypeOf<Sample<string>>().toEqualTypeOf<MigrateVerifyResult['unknown']>()
    expectTypeOf<Sample<RecordDifference>>().toEqualTypeOf<MigrateResolveResult['left']>()
    expectTypeOf<keyof MigrationResult>().toEqualTypeOf<keyof NonNullable<MigrateRunResult['result']>>()
    expectTypeOf<keyof Verification | 'stack'>().toEqualTypeOf<keyof MigrateVerifyResult>()
    expectTypeOf<Exclude<keyof MigrationPlan, 'isPending' | 'leftovers'>>().toEqualTypeOf<
      Exclude<keyof MigratePlanResult, 'stack' | 'pending' | 'oldItems' | 'unknownItems'>
    >()
    expectTypeOf<Exclude<keyof PlannedStep, 'isPending'> | 'pending'>().toEqualTypeOf<
      keyof Item<MigratePlanResult['steps']>
    >()
    expectTypeOf<keyof ApplyResult>().toEqualTypeOf<keyof NonNullable<LimitsApplyResult['result']>>()
    expectTypeOf<keyof CostReport | 'prices'>().toEqualTypeOf<keyof CostResult>()
    expectTypeOf<Exclude<keyof Impact, 'isComplete' | 'openMs'> | 'complete' | 'open'>().toEqualTypeOf<
      Exclude<keyof ImpactJson, 'window' | 'since' | 'until'>
    >()
    expectTypeOf<Exclude<keyof EntityImpact, 'isExact' | 'boostedUntilMs'>>().toEqualTypeOf<
      Exclude<keyof Item<ImpactJson['found']>, 'value' | 'exact' | 'boostedUntil'>
    >()
    expectTypeOf<Exclude<keyof StackHealth, 'isHealthy'> | 'healthy' | 'local'>().toEqualTypeOf<keyof StatusResult>()

    expectTypeOf<Check>().toEqualTypeOf<Item<DoctorResult['checks']>>()
    expectTypeOf<StackList>().toEqualTypeOf<Pick<ListResult, 'stacks' | 'refused' | 'notEnabled'>>()
    expectTypeOf<DeployPlan['parameters']>().toEqualTypeOf<DeployResult['parameters']>()
    expectTypeOf<ChangeSet['changes']>().toEqualTypeOf<DeployResult['changes']>()
    expectTypeOf<ExportedFile>().toEqualTypeOf<Item<DeployResult['files']>>()
    expectTypeOf<Deleted>().toEqualTypeOf<NonNullable<DeleteResult['result']>>()
    expectTypeOf<keyof NonNullable<DeletionPlan['table']> | 'delete'>().toEqualTypeOf<
      keyof NonNullable<DeleteResult['table']>
    >()

    type Passed = 'cloudFormation' | 'table' | 'mapping' | 'traffic' | 'deadLetters' | 'alarms' | 'unknown' | 'findings'
    expectTypeOf<Pick<StackHealth, Passed>>().toEqualTypeOf<Pick<StatusResult, Passed>>()
    expectTypeOf<keyof NonNullable<StackHealth['aggregator']>>().toEqualTypeOf<
      Exclude<keyof NonNullable<StatusResult['aggregator']>, 'ownCode'> | 'isOurCode'
    >()
    expectTypeOf<keyof NonNullable<StackHealth['versions']>>().toEqualTypeOf<
      Exclude<keyof NonNullable<StatusResult['versions']>, 'migrationDue'> | 'isMigrationDue'
    >()
    expectTypeOf<SupervisorFacts>().toEqualTypeOf<NonNullable<StatusResult['local']>>()

    type Running = Extract<LocalStatusResult, {running: true}>
    type Stopped = Extract<LocalStatusResult, {running: false}>
    expectTypeOf<AggregatorStatus | null>().toEqualTypeOf<Running['aggregator']>()
    expectTypeOf<TableFacts | null>().toEqualTypeOf<Running['table']>()
    expectTypeOf<StackEnd | null>().toEqualTypeOf<Stopped['lastEnd']>()
    expectTypeOf<LogEntry>().toEqualTypeOf<Item<LocalLogsResult['entries']>>()
  })
})
