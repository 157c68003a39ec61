import {boolean, integer, option, string} from '@oclif/core/flags'
import {lineWidth} from '../../lib/cli/base/base-command.js'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand, wholeStackFlags} from '../../lib/cli/base/stack-command.js'
import {migrationPlanJson} from '../../lib/cli/migrate/json.js'
import {migrationPlanLines} from '../../lib/cli/migrate/presenter.js'
import {followMsOf, migrateWithProgress, surveyWithProgress} from '../../lib/cli/migrate/run.js'
import {runJson, runLines} from '../../lib/cli/migrate/run-presenter.js'
import {confirm} from '../../lib/cli/output/confirm.js'
import {EXIT} from '../../lib/core/errors.js'

const STEPS = ['indexes', 'namespaces', 'configuration', 'data', 'catch-up', 'version'] as const

export default class MigrateRun extends StackCommand<typeof MigrateRun> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Bring a table of an older layout up to date'

  static override description =
    'New items are written beside the old ones, which stay until `zael migrate cleanup`; clients of both layouts may go ' +
    'on working. Interrupted at any instant, a second run goes on where the first stopped. The exit code is 6 when ' +
    'records were changed in both places and somebody has to choose, or cannot be moved. What one side admits the other ' +
    'learns in the next pass: `--follow` keeps passing while clients are switched over.'

  static override flags = {
    'dry-run': boolean({char: 'n', description: 'Show the steps and what they cost; write nothing.'}),
    follow: string({
      description: 'Once everything is copied, go over the table again and again for this long.',
      helpValue: 'DURATION',
      exclusive: ['dry-run'],
    }),
    'rate-limit': integer({description: 'Write units a second at most.', helpValue: 'WCU', min: 1}),
    until: option({options: STEPS, description: 'Stop after this step.'})(),
    yes: boolean({char: 'y', description: 'Do not show the plan and ask first.'}),
  }

  static override examples = [
    {command: 'zael migrate run -s prod --dry-run', description: 'Look first'},
    {command: 'zael migrate run -s prod --rate-limit 200', description: 'Leave room for traffic'},
    {command: 'zael migrate run -s prod --follow 30m', description: 'While clients are switched over'},
    {command: 'zael migrate run -s prod --yes', description: 'In a pipeline'},
  ]

  protected async work({stack, table}: StackContext): Promise<object> {
    const {'dry-run': dryRun = false, 'rate-limit': rateLimit, until, yes = false} = this.flags
    const followMs = followMsOf(this.flags.follow, until)
    const {version: ourVersion} = this.config
    const plan = dryRun || !yes ? await this.#plan(stack, table, rateLimit) : null
    if (dryRun) return {stack, dryRun, plan, result: null}
    await confirm(`This writes to the table of stack "${stack}"`, {yes})
    const result = await migrateWithProgress(table, stack, {ourVersion, rateLimit, until, followMs})
    this.log(runLines(stack, result, lineWidth()).join('\n'))
    if (result.conflicts.count > 0) process.exitCode = EXIT.negative
    return {stack, dryRun, plan, result: runJson(result)}
  }

  async #plan(stack: string, table: StackContext['table'], rateLimit: number | undefined): Promise<object> {
    const survey = await surveyWithProgress(table, this.config.version)
    const {DEFAULT_PACE, planMigration} = await import('../../lib/migrations/plan.js')
    const plan = planMigration(survey, rateLimit ?? DEFAULT_PACE)
    this.log(migrationPlanLines(stack, survey, plan, lineWidth()).join('\n'))
    return migrationPlanJson(stack, survey, plan)
  }
}
