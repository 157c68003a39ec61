import {string as stringArg} from '@oclif/core/args'
import {boolean, string} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {auditLine, auditListing, auditResult} from '../../lib/cli/data/audit-presenter.js'
import {timeFlags, timeRange} from '../../lib/cli/flags/time-range.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'

export default class AuditList extends StackCommand<typeof AuditList> {
  static override summary = 'List who changed what and when'

  static override description =
    'Newest first; of one entity, or of the whole namespace. Defaults of a resource are changed under the name ' +
    '"$RESOURCE:name", those of the system under "$SYSTEM". With --follow new events are added until Ctrl-C, oldest ' +
    'first; with --json then every line is a document of its own.'

  static override args = {entity: stringArg({description: 'Whom the events are about.', ignoreStdin: true})}

  static override flags = {
    ...timeFlags,
    action: string({description: 'Only events of this kind, such as limits_set.', helpValue: 'ACTION'}),
    follow: boolean({
      char: 'f',
      description: 'Go on with new events until Ctrl-C.',
      exclusive: ['until', 'all', 'cursor', 'columns', 'sort'],
    }),
    ...listFlags,
    ...pageFlags,
  }

  static override examples = [
    {command: 'zael audit list --since 24h', description: 'What happened in the last day'},
    {command: 'zael audit list user-1 --columns time,action,details,id', description: 'Of one entity, with ids'},
    {command: 'zael audit list --action bucket_reset --follow', description: 'Watch for resets'},
  ]

  protected async work(stack: StackContext): Promise<object> {
    const {since, until, action, limit, all, cursor, follow} = this.flags
    const {entity} = this.args
    const range = since === undefined && until === undefined ? {} : timeRange(this.flags, stack.table.clock(), Infinity)
    const {findEvents, watchEvents} = await import('../../lib/inspect/audit-search.js')
    const repository = await stack.namespace()
    const page = {limit: all ? undefined : limit, cursor}
    const {records, next} = await findEvents(repository, {entity, action, ...range, ...page})
    if (follow) {
      const print = this.jsonEnabled() ? (each: object) => JSON.stringify(each) : undefined
      // Ends with the process: Ctrl-C, or a reader that goes away.
      for await (const record of watchEvents(repository, {entity, action}, records, stack.table)) {
        process.stdout.write(`${print ? print(auditResult(record)) : auditLine(record)}\n`)
      }
    }
    this.list(auditListing(records, entity !== undefined && this.format !== 'csv'))
    this.tellMore(next)
    return {events: records.map(auditResult), next: next ?? null}
  }
}
