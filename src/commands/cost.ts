import {integer} from '@oclif/core/flags'
import {TableCommand} from '../lib/cli/base/stack-command.js'
import type {CostResult} from '../lib/cli/cost/results.js'

export default class Cost extends TableCommand<typeof Cost> {
  static override summary = 'Show the cost per day and per million decisions'

  static override description =
    'Combines the usage counters of all namespaces with CloudWatch metrics of the table, its indexes and the aggregator. ' +
    'Each figure is marked as measured or estimated. Writes nothing. Reads at most about 50,000 read units from the ' +
    'table and reports how many.'

  static override flags = {
    days: integer({
      description: 'Number of past days (UTC) to include besides today.',
      default: 7,
      min: 1,
      max: 90,
      helpValue: 'N',
    }),
  }

  static override examples = [
    {command: 'zael cost --stack prod', description: 'The last seven days and today'},
    {command: 'zael cost --stack prod --days 30 --json', description: 'A month, as JSON'},
  ]

  protected async work(): Promise<CostResult> {
    const {stack, endpoint, table, awsServices} = this.stack
    const [{reportCost}, {costJson, costLines}, {supervisorOf}] = await Promise.all([
      import('../lib/insight/cost/report.js'),
      import('../lib/cli/cost/presenter.js'),
      import('../lib/cli/base/local-health.js'),
    ])
    using aws = await awsServices()
    const local = await supervisorOf({stack, endpoint})
    const runsAggregator = local ? local.aggregator !== null : undefined
    const found = await reportCost({table, aws, dayCount: this.flags.days, runsAggregator})
    const report = {...found, notes: this.withTypedFixes(found.notes)}
    this.print(await costLines(report, this.lineWidth))
    return costJson(report)
  }
}
