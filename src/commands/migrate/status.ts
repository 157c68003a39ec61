import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {migrationStatusLines, statusJson} from '../../lib/cli/migrate/presenter.js'
import type {MigrateStatusResult} from '../../lib/cli/migrate/results.js'
import {surveyWithProgress} from '../../lib/cli/migrate/run.js'
import {EXIT} from '../../lib/cli/output/exit.js'

export default class MigrateStatus extends TableCommand<typeof MigrateStatus> {
  static override summary = 'Show the layouts in a table and the pending work'

  static override description =
    'Reads the whole table once and writes nothing. Also lists buckets without configured limits: clients of zae-limiter ' +
    'up to 0.6 passed limits with each request. Exits with 6 if work is pending.'

  static override examples = [
    {command: 'zael migrate status -s prod', description: 'Items by kind and release'},
    {command: 'zael migrate status -s prod --json', description: 'In a pipeline'},
  ]

  protected async work(): Promise<MigrateStatusResult> {
    const {stack, table} = this.stack
    const survey = await surveyWithProgress(table, this.config.version)
    const {DEFAULT_PACE, planMigration} = await import('../../lib/migrate/plan.js')
    const plan = planMigration(survey, DEFAULT_PACE)
    this.print(await migrationStatusLines(stack, survey, plan, this.lineWidth))
    if (plan.isPending) process.exitCode = EXIT.negative
    return statusJson(stack, survey, plan)
  }
}
