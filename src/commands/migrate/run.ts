import {boolean, integer, option, string} from '@oclif/core/flags'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {offerLimits} from '../../lib/cli/migrate/limitless-presenter.js'
import {migrationPlanJson, migrationPlanLines} from '../../lib/cli/migrate/presenter.js'
import type {MigrateRunResult} from '../../lib/cli/migrate/results.js'
import {followMsOf, migrateWithProgress, surveyWithProgress} from '../../lib/cli/migrate/run.js'
import {runJson, runLines} from '../../lib/cli/migrate/run-presenter.js'
import {confirm} from '../../lib/cli/output/confirm.js'
import {EXIT} from '../../lib/cli/output/exit.js'

const STEPS = ['indexes', 'namespaces', 'configuration', 'limits', 'data', 'catch-up', 'version'] as const

type SurveyOfTable = Awaited<ReturnType<typeof surveyWithProgress>>

export default class MigrateRun extends TableCommand<typeof MigrateRun> {
  static override summary = 'Migrate a table to the current layout'

  static override description =
    'Copies old items to the new layout. Old items stay until `zael migrate cleanup`, and clients of both layouts keep ' +
    'working. Run again after an interruption to resume. Exits with 6 if a record changed in both layouts, a record cannot ' +
    'be migrated, or a bucket has no configured limits. `--follow` copies consumption between the layouts while you ' +
    'switch clients over.'

  static override flags = {
    'dry-run': boolean({description: 'Show the steps and their cost without writing anything.'}),
    follow: string({
      description: 'Repeat passes over the table for this long after the copy.',
      helpValue: 'DURATION',
      exclusive: ['dry-run'],
    }),
    'limits-from-buckets': boolean({
      description:
        'Write limits for buckets without configured limits, taken from the buckets. Existing limits never change.',
    }),
    'rate-limit': integer({description: 'Maximum write units per second.', helpValue: 'WCU', min: 1}),
    until: option({options: STEPS, description: 'Stop after this step.'})(),
    yes: boolean({char: 'y', description: 'Skip the plan and confirmation.'}),
  }

  static override examples = [
    {command: 'zael migrate run -s prod --dry-run', description: 'Preview'},
    {
      command: 'zael migrate run -s prod --rate-limit 200',
      description: 'Limit the write rate',
    },
    {command: 'zael migrate run -s prod --follow 30m', description: 'While clients are switched over'},
    {
      command: 'zael migrate run -s prod --yes --limits-from-buckets',
      description: 'In a pipeline, from zae-limiter 0.6 or older',
    },
  ]

  protected async work(): Promise<MigrateRunResult> {
    const {stack, table, principal} = this.stack
    const {'dry-run': dryRun = false, 'rate-limit': rateLimit, until, yes = false} = this.flags
    const followMs = followMsOf(this.flags.follow, until)
    const {version: ourVersion} = this.config
    const survey = dryRun || !yes ? await surveyWithProgress(table, ourVersion) : undefined
    const plan = survey ? await this.#plan(stack, survey) : null
    const isDone = plan !== null && !plan.pending && followMs === undefined
    if (dryRun || isDone) return {stack, dryRun, plan, result: null}
    const writesLimits = this.flags['limits-from-buckets'] || (await offerLimits(survey?.limitless))
    await confirm(`This writes to the table of stack "${stack}"`, {yes})
    const limitsFromBuckets = writesLimits ? {agreed: survey?.limitless, principal} : undefined
    const result = await migrateWithProgress(table, stack, {ourVersion, rateLimit, until, followMs, limitsFromBuckets})
    this.print(await runLines(stack, result, this.lineWidth))
    if (result.conflicts.count > 0 || result.limitless.buckets > 0) process.exitCode = EXIT.negative
    return {stack, dryRun, plan, result: runJson(result)}
  }

  async #plan(stack: string, survey: SurveyOfTable): Promise<MigrateRunResult['plan']> {
    const {'limits-from-buckets': limitsFromBuckets = false, 'rate-limit': rateLimit} = this.flags
    const {DEFAULT_PACE, planMigration} = await import('../../lib/migrate/plan.js')
    const plan = planMigration(survey, rateLimit ?? DEFAULT_PACE, {limitsFromBuckets})
    this.print(await migrationPlanLines(stack, survey, plan, this.lineWidth))
    return migrationPlanJson(stack, survey, plan)
  }
}
