import {integer} from '@oclif/core/flags'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import {migrationPlanJson, migrationPlanLines} from '../../lib/cli/migrate/presenter.js'
import type {MigratePlanResult} from '../../lib/cli/migrate/results.js'
import {surveyWithProgress} from '../../lib/cli/migrate/run.js'

export default class MigratePlan extends TableCommand<typeof MigratePlan> {
  static override summary = 'Show the steps, cost and blockers of a migration'

  static override description =
    'Reads the whole table once and writes nothing. The estimates of units and time exclude concurrent traffic. Also lists ' +
    'buckets without configured limits, and the limits that `zael migrate run --limits-from-buckets` would write for them.'

  static override flags = {
    'rate-limit': integer({
      description: 'Write units per second to assume. Default: 1000.',
      helpValue: 'WCU',
      min: 1,
    }),
  }

  static override examples = [
    {command: 'zael migrate plan -s prod', description: 'Before the first run'},
    {command: 'zael migrate plan -s prod --rate-limit 200', description: 'Duration at 200 write units per second'},
    {command: 'zael migrate plan -s prod --json', description: 'As JSON'},
  ]

  protected async work(): Promise<MigratePlanResult> {
    const {stack, table} = this.stack
    const survey = await surveyWithProgress(table, this.config.version)
    const {DEFAULT_PACE, planMigration} = await import('../../lib/migrate/plan.js')
    const plan = planMigration(survey, this.flags['rate-limit'] ?? DEFAULT_PACE)
    this.print(await migrationPlanLines(stack, survey, plan, this.lineWidth))
    return migrationPlanJson(stack, survey, plan)
  }
}
