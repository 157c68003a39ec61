import {integer} from '@oclif/core/flags'
import {lineWidth} from '../../lib/cli/base/base-command.js'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand, wholeStackFlags} from '../../lib/cli/base/stack-command.js'
import {migrationPlanJson} from '../../lib/cli/migrate/json.js'
import {migrationPlanLines} from '../../lib/cli/migrate/presenter.js'
import {surveyWithProgress} from '../../lib/cli/migrate/run.js'

export default class MigratePlan extends StackCommand<typeof MigratePlan> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Show the steps of a migration, what they cost and what stands in the way'

  static override description =
    'Looks at every item and writes nothing; the table is read once as a whole. Units and time are estimates: they do not ' +
    'know what traffic changes meanwhile.'

  static override flags = {
    'rate-limit': integer({
      description: 'Write units a second to reckon with; 1000 unless said otherwise.',
      helpValue: 'WCU',
      min: 1,
    }),
  }

  static override examples = [
    {command: 'zael migrate plan -s prod', description: 'Before the first run'},
    {command: 'zael migrate plan -s prod --rate-limit 200', description: 'How long it takes at that pace'},
    {command: 'zael migrate plan -s prod --json', description: 'For programs'},
  ]

  protected async work({stack, table}: StackContext): Promise<object> {
    const survey = await surveyWithProgress(table, this.config.version)
    const {DEFAULT_PACE, planMigration} = await import('../../lib/migrations/plan.js')
    const plan = planMigration(survey, this.flags['rate-limit'] ?? DEFAULT_PACE)
    this.log(migrationPlanLines(stack, survey, plan, lineWidth()).join('\n'))
    return migrationPlanJson(stack, survey, plan)
  }
}
