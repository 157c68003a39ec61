import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {migrationStatusLines, statusJson} from '../../lib/cli/migrate/presenter.js'
import type {MigrateStatusResult} from '../../lib/cli/migrate/results.js'
import {surveyWithProgress} from '../../lib/cli/migrate/run.js'
import {EXIT} from '../../lib/cli/output/exit.js'

export default class MigrateStatus extends TableCommand<typeof MigrateStatus> {
  static override summary = 'Show which layouts a table contains, and what is pending'

  static override description =
    'Reads the whole table once, regardless of the version record, and writes nothing. Lists buckets without limits at any ' +
    'level too: releases up to 0.6 took the limits with each request. The exit code is 0 when nothing is pending and 6 ' +
    'otherwise.'

  static override examples = [
    {command: 'zael migrate status -s prod', description: 'Items by kind and by the releases that wrote them'},
    {command: 'zael migrate status -s prod --json', description: 'In a pipeline, with the exit code'},
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
