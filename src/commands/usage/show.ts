import {string} from '@oclif/core/args'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {timeRange, usageFlags} from '../../lib/cli/flags/time-range.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'
import {
  budgetLines,
  DEFAULT_RANGE_MS,
  parentOnlyLines,
  sparkLines,
  usageFooter,
  usageListing,
  usageScopeJson,
  usageTitle,
} from '../../lib/cli/usage/presenter.js'
import type {UsageShowResult} from '../../lib/cli/usage/results.js'

export default class UsageShow extends StackCommand<typeof UsageShow> {
  static override summary = 'Show usage, window by window'

  static override description =
    'Shows usage of an entity, a resource, or an entity for one resource. On AWS, usage appears within 30 seconds ' +
    'by default, most refusals up to 10 seconds later. For an entity, also shows the rest of each quota, including ' +
    'quotas of its parent, and when it runs out. REFUSED counts requests that exceeded the limit of the row. Other ' +
    'refusals have their own rows: (blocked), (parent) or a shared scope. Totals count a request once, even if ' +
    'it also charges the current parent. If both may have refused requests, the total of refusals is a range.'

  static override args = {entity: string({description: 'Show only usage of this entity.', ignoreStdin: true})}

  static override flags = {...usageFlags, ...listFlags, ...pageFlags}

  static override examples = [
    {command: 'zael usage show user-1', description: 'The last 24 hours, hour by hour'},
    {command: 'zael usage show user-1 --resource gpt-4 --window daily --since 7d', description: 'One week, day by day'},
    {command: 'zael usage show --resource gpt-4 --output csv', description: 'All entities, as CSV'},
  ]

  protected async work(): Promise<UsageShowResult> {
    const {resource, window, limit, all, cursor} = this.flags
    const {entity} = this.args
    const nowMs = this.stack.table.clock()
    const range = timeRange(this.flags, nowMs, DEFAULT_RANGE_MS[window])
    const namespace = await this.stack.namespace()
    const units = await namespace.configs.units()
    const scope = {entity, resource, window, range, units}
    const [{reportUsage}, {quotaBudgets}, {parentOnlyLimits}] = await Promise.all([
      import('../../lib/insight/usage/usage-report.js'),
      import('../../lib/insight/usage/budgets.js'),
      import('../../lib/insight/lookup/family-limits.js'),
    ])
    const page = {limit: all ? undefined : limit, cursor}
    const report = await reportUsage(namespace, {entity, resource, window, ...range}, page)
    const {windows, requests, refused, refusedTwice, totals, next} = report
    const isPart = next !== undefined || cursor !== undefined
    const doubtful = isPart ? null : report.doubtful
    const budgets = await quotaBudgets(namespace, {entity, resource}, nowMs)
    const parentOnly = await parentOnlyLimits(namespace, entity, windows)
    await this.list(usageListing(windows, scope, this.format === 'csv'), usageTitle(scope))
    for (const line of usageFooter(windows, report, {...scope, isPart})) this.log(line)
    if (process.stdout.isTTY) for (const line of sparkLines(windows, totals, scope)) this.log(line)
    this.print([...budgetLines(budgets, entity, units, nowMs), ...parentOnlyLines(parentOnly)])
    this.suggestNextPage(next)
    const counts = {requests, doubtful, refused, refusedTwice, windows, totals}
    return {...usageScopeJson(scope), ...counts, budgets, parentOnly, next: next ?? null}
  }
}
