import {string} from '@oclif/core/args'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {timeRange, usageFlags} from '../../lib/cli/flags/time-range.js'
import {listFlags} from '../../lib/cli/output/listing.js'
import {
  budgetLines,
  DEFAULT_RANGE_MS,
  parentOnlyLines,
  partialText,
  readWithProgress,
  summaryFooter,
  summaryListing,
  usageScopeJson,
  usageTitle,
} from '../../lib/cli/usage/presenter.js'
import type {UsageSummaryResult} from '../../lib/cli/usage/results.js'

export default class UsageSummary extends StackCommand<typeof UsageSummary> {
  static override summary = 'Show usage totals, averages and peaks'

  static override description =
    'Shows usage of an entity, of a resource over all entities (--resource), or of an entity for one resource. ' +
    'Averages cover only windows with usage. For an entity, also shows the rest of each quota and when it runs out. ' +
    'REFUSED counts requests that exceeded a limit of that name, also those of parents. A cascading request also ' +
    'charges the parent, but counts once in the total. If an entity and its parent may both have refused requests, ' +
    'the total of refusals is a range. If an entity changed its parent, earlier requests may count twice.'

  static override args = {entity: string({description: 'Show only usage of this entity.', ignoreStdin: true})}

  static override flags = {...usageFlags, ...listFlags}

  static override examples = [
    {command: 'zael usage summary user-1 --since 7d', description: 'One week of an entity, by resource'},
    {command: 'zael usage summary --resource gpt-4 --window daily --since 30d', description: 'One month of a resource'},
  ]

  protected async work(): Promise<UsageSummaryResult> {
    const {resource, window} = this.flags
    const {entity} = this.args
    const nowMs = this.stack.table.clock()
    const range = timeRange(this.flags, nowMs, DEFAULT_RANGE_MS[window])
    const namespace = await this.stack.namespace()
    const units = await namespace.configs.units()
    const scope = {entity, resource, window, range, units}
    const [{totalUsage}, {quotaBudgets}, {parentOnlyLimits}] = await Promise.all([
      import('../../lib/insight/usage/usage-report.js'),
      import('../../lib/insight/usage/budgets.js'),
      import('../../lib/insight/lookup/family-limits.js'),
    ])
    const {totals, requests, doubtful, refused, refusedTwice, windows, complete} = await readWithProgress(onProgress =>
      totalUsage(namespace, {entity, resource, window, ...range}, onProgress),
    )
    const budgets = await quotaBudgets(namespace, {entity, resource}, nowMs)
    const parentOnly = await parentOnlyLimits(namespace, entity, totals)
    await this.list(summaryListing(totals, scope, this.format === 'csv'), usageTitle(scope))
    if (windows > 0)
      this.print(['', ...summaryFooter({requests, doubtful, refused, refusedTwice}, {...scope, windows, complete})])
    this.print([...budgetLines(budgets, entity, units, nowMs), ...parentOnlyLines(parentOnly)])
    if (!complete) this.warn(partialText(windows))
    const counts = {requests, doubtful, refused, refusedTwice, windows, totals}
    return {...usageScopeJson(scope), ...counts, budgets, parentOnly, complete}
  }
}
