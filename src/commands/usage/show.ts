import {string} from '@oclif/core/args'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {sparkLines, USUAL_SPAN_MS, usageFooter, usageListing, usageTitle} from '../../lib/cli/data/usage-presenter.js'
import {usageResult} from '../../lib/cli/data/usage-result.js'
import {timeRange} from '../../lib/cli/flags/time-range.js'
import {usageFlags} from '../../lib/cli/flags/usage.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'

export default class UsageShow extends StackCommand<typeof UsageShow> {
  static override summary = 'Show what was used, window by window'

  static override description =
    'Of an entity, of a resource over all entities (--resource), or of both. Consumption is counted by the aggregator, a ' +
    'moment after it happens. The bar compares it with what the limits in force now give in such a window. A request ' +
    'that cascades is charged to its parent too; totals over several entities count it once.'

  static override args = {entity: string({description: 'Who used it.', ignoreStdin: true})}

  static override flags = {...usageFlags, ...listFlags, ...pageFlags}

  static override examples = [
    {command: 'zael usage show user-1', description: 'The last 24 hours, hour by hour'},
    {command: 'zael usage show user-1 --resource gpt-4 --window daily --since 7d', description: 'A week, day by day'},
    {command: 'zael usage show --resource gpt-4 --output csv', description: 'All entities, for a spreadsheet'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const {resource, window, limit, all, cursor} = this.flags
    const {entity} = this.args
    const range = timeRange(this.flags, stack.table.clock(), USUAL_SPAN_MS[window])
    const scope = {entity, resource, window, range}
    const {reportUsage} = await import('../../lib/inspect/usage-report.js')
    const page = {limit: all ? undefined : limit, cursor}
    const report = await reportUsage(await stack.namespace(), {entity, resource, window, ...range}, page)
    const {windows, requests, totals, next} = report
    this.log(usageTitle(scope))
    this.list(usageListing(windows, scope, this.format === 'csv'))
    for (const line of usageFooter(windows, report, {window, isPart: next !== undefined})) this.log(line)
    if (process.stdout.isTTY) for (const line of sparkLines(windows, totals, window)) this.log(line)
    this.tellMore(next)
    return {...usageResult(scope), requests, windows, totals, next: next ?? null}
  }
}
