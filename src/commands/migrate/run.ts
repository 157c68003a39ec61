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
    'Writes new items next to the old ones, which are kept until `zael migrate cleanup`; clients of both layouts can run in ' +
    'the meantime. After an interruption, a second run continues where the first stopped. The exit code is 6 when records ' +
    'changed in both layouts and must be resolved, or cannot be moved, or when buckets have no limits at any level. ' +
    '`--limits-from-buckets` writes such limits: those that most buckets of a resource have for the resource, others for ' +
    'single entities; what is configured is never changed. Consumption in one layout reaches the other in the next pass: ' +
    '`--follow` repeats passes while clients are switched over.'

  static override flags = {
    'dry-run': boolean({description: 'Show the steps and their cost; write nothing.'}),
    follow: string({
      description: 'After everything is copied, repeat passes over the table for this long.',
      helpValue: 'DURATION',
      exclusive: ['dry-run'],
    }),
    'limits-from-buckets': boolean({
      description: 'Where no limits are configured at any level, write those that the buckets have.',
    }),
    'rate-limit': integer({description: 'Maximum write units per second.', helpValue: 'WCU', min: 1}),
    until: option({options: STEPS, description: 'Stop after this step.'})(),
    yes: boolean({char: 'y', description: 'Do not show the plan and ask for confirmation.'}),
  }

  static override examples = [
    {command: 'zael migrate run -s prod --dry-run', description: 'Preview'},
    {
      command: 'zael migrate run -s prod --rate-limit 200',
      description: 'Limit the write rate to leave room for traffic',
    },
    {command: 'zael migrate run -s prod --follow 30m', description: 'While clients are switched over'},
    {command: 'zael migrate run -s prod --yes --limits-from-buckets', description: 'In a pipeline, from 0.6 or older'},
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
