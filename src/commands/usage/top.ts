import {integer, string} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {topFooter, topListing, USUAL_SPAN_MS, usageTitle} from '../../lib/cli/data/usage-presenter.js'
import {topResult} from '../../lib/cli/data/usage-result.js'
import {timeRange} from '../../lib/cli/flags/time-range.js'
import {usageFlags} from '../../lib/cli/flags/usage.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class UsageTop extends StackCommand<typeof UsageTop> {
  static override summary = 'Show the largest consumers of a resource, or of the namespace'

  static override description =
    'Without --resource all resources count that have limits of their own or live buckets. At most 20,000 windows per ' +
    'resource are read, the newest first; it is said when there were more. Parents bear what their cascading children ' +
    'use, so shares can come to more than 100 %.'

  static override flags = {
    ...usageFlags,
    by: string({
      description: 'Rank by "requests", or by the tokens of a limit.',
      default: 'requests',
      helpValue: 'LIMIT',
    }),
    ...listFlags,
    limit: integer({description: 'Most rows to show.', default: 10, min: 1, max: 10_000, helpGroup: 'LIST'}),
  }

  static override examples = [
    {command: 'zael usage top', description: 'Who made the most requests in the last 24 hours'},
    {command: 'zael usage top --resource gpt-4 --by tpm', description: 'Who used the most tokens of a resource'},
    {command: 'zael usage top --window daily --since 30d --limit 50', description: 'A month, fifty rows'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const {resource, window, by, limit} = this.flags
    const range = timeRange(this.flags, stack.table.clock(), USUAL_SPAN_MS[window])
    const scope = {resource, window, range}
    const {topConsumers} = await import('../../lib/inspect/usage-top.js')
    const top = await topConsumers(await stack.namespace(), {resource, window, by, most: limit, ...range})
    this.log(usageTitle(scope))
    this.list(topListing(top, {by, resource, isCsv: this.format === 'csv'}))
    for (const line of topFooter(top, resource)) this.log(line)
    if (!top.complete) this.warn('there was more than is read at once; ask for a shorter time, or name a --resource')
    return topResult(scope, by, top)
  }
}
