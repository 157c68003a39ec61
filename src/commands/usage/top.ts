import {string as stringArg} from '@oclif/core/args'
import {integer, string} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {timeRange, usageFlags} from '../../lib/cli/flags/time-range.js'
import {listFlags} from '../../lib/cli/output/listing.js'
import type {Streamed} from '../../lib/cli/output/results.js'
import {DEFAULT_RANGE_MS, readWithProgress, usageTitle} from '../../lib/cli/usage/presenter.js'
import {consumerJson, topCutText, topFooter, topJson, topListing, topOrder} from '../../lib/cli/usage/top-presenter.js'
import type {TopConsumer} from '../../lib/insight/usage/usage-top.js'

/** Without --limit. */
const ROWS_OF_TABLE = 10

export default class UsageTop extends StackCommand<typeof UsageTop> {
  static override summary = 'Show the largest consumers of a resource or namespace'

  static override description =
    'Without --resource, includes every resource with its own limits or live buckets. Reads at most the newest ' +
    '1,000,000 windows per resource and warns if there are more; --window daily needs fewer. Cascading requests ' +
    'also charge parents, so shares can add up to more than 100 %. With a parent, such as a team, shows its current ' +
    'and former members, and their shares of its use. Use of a limit that only the parent has is recorded for the ' +
    'parent. A table shows ten rows, other formats show all.'

  static override args = {
    parent: stringArg({description: 'Show only the members of this parent.', ignoreStdin: true}),
  }

  static override flags = {
    ...usageFlags,
    by: string({
      description:
        'Rank by requests, refused, or a limit such as tpm. To add up the resources of each entity, give "entity" ' +
        'or put it before the limit, as in entity,tpm. "parent" does the same and shows only parents.',
      default: 'requests',
      helpValue: '[entity,|parent,]LIMIT',
    }),
    ...listFlags,
    limit: integer({
      description: 'Maximum number of rows to show.',
      helpValue: 'N',
      min: 1,
      max: 10_000,
      helpGroup: 'LIST',
    }),
  }

  static override examples = [
    {command: 'zael usage top --resource gpt-4 --by tpm', description: 'Most tokens of a resource'},
    {command: 'zael usage top --by parent,usd --since 30d', description: 'Teams that spent most'},
    {command: 'zael usage top team-a --by usd --since 30d', description: 'Members of a team that spent most'},
    {
      command: 'zael usage top --by entity --since 7d --output csv',
      description: 'Largest entities of a week, for a spreadsheet',
    },
  ]

  protected async work(): Promise<Streamed> {
    const {resource, window} = this.flags
    const {parent} = this.args
    const order = topOrder(this.flags.by)
    const range = timeRange(this.flags, this.stack.table.clock(), DEFAULT_RANGE_MS[window])
    const namespace = await this.stack.namespace()
    const scope = {resource, window, range, units: await namespace.configs.units()}
    const {topConsumers} = await import('../../lib/insight/usage/usage-top.js')
    const isTable = this.format === 'table'
    const most = this.flags.limit ?? (isTable ? ROWS_OF_TABLE : undefined)
    const top = await readWithProgress(onProgress =>
      topConsumers(namespace, {parent, resource, window, ...order, most, ...range}, onProgress),
    )
    if (!top.complete) this.warn('Not all usage was read. Choose a shorter time range, or add --resource.')
    const shown = {...scope, ...order, names: top.names, isCsv: this.format === 'csv'}
    const {before, after} = topJson(scope, order, top)
    const listing = (some: readonly TopConsumer[]) => topListing(some, shown)
    const list = {before, field: 'consumers', items: top.consumers, json: consumerJson, listing}
    await this.listAll(list, {after, title: usageTitle({...scope, entity: parent && `the members of ${parent}`})})
    for (const line of topFooter(top, shown)) this.log(line)
    if (top.count < top.total) {
      this.sayPartlySorted(`--by selects the ${most} rows`)
      if (!isTable) this.logToStderr(topCutText(top))
    }
    return {}
  }
}
