import {string as stringArg} from '@oclif/core/args'
import {boolean, option} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {timeFlags, timeRange} from '../../lib/cli/flags/time-range.js'
import {auditEventJson, auditLine, auditListing} from '../../lib/cli/namespace/audit-presenter.js'
import type {AuditListResult} from '../../lib/cli/namespace/results.js'
import {jsonText} from '../../lib/cli/output/json-text.js'
import {writeLines} from '../../lib/cli/output/lines.js'
import {listFlags, pageFlags} from '../../lib/cli/output/listing.js'

const AUDIT_ACTIONS = [
  'bucket_reset',
  'bucket_topped_up',
  'entity_created',
  'entity_deleted',
  'entity_parent_changed',
  'entity_updated',
  'holder_released',
  'run_ended',
  'limits_boost_ended',
  'limits_deleted',
  'limits_set',
  'verify_repaired',
] as const

export const actionFlag = option({
  options: AUDIT_ACTIONS,
  description: 'List only events with this action, such as limits_set.',
  helpValue: 'ACTION',
})

export default class AuditList extends StackCommand<typeof AuditList> {
  static override summary = 'List audit events: who changed what and when'

  static override description =
    'Lists events of one entity or of the whole namespace, newest first. Changes to resource limits have the entity ' +
    '"$RESOURCE:name", changes to system limits "$SYSTEM". --follow prints new events until Ctrl-C, oldest first, and ' +
    'survives network outages; with --json, one JSON document per line.'

  static override args = {entity: stringArg({description: 'List only events of this entity.', ignoreStdin: true})}

  static override flags = {
    ...timeFlags,
    action: actionFlag(),
    follow: boolean({
      char: 'f',
      description: 'Print new events until Ctrl-C.',
      exclusive: ['until', 'all', 'cursor', 'columns', 'sort'],
    }),
    ...listFlags,
    ...pageFlags,
  }

  static override examples = [
    {command: 'zael audit list --since 24h', description: 'Events of the last day'},
    {command: 'zael audit list user-1 --columns time,action,details,id', description: 'Events of one entity, with ids'},
    {command: 'zael audit list --action bucket_reset --follow', description: 'Follow bucket resets'},
  ]

  protected async work(): Promise<AuditListResult> {
    const {since, until, action, limit, all, cursor, follow} = this.flags
    const {table} = this.stack
    const range = since === undefined && until === undefined ? {} : timeRange(this.flags, table.clock(), Infinity)
    const {findEvents, typedSubject, watchEvents} = await import('../../lib/insight/lookup/audit-search.js')
    const entity = this.args.entity && typedSubject(this.args.entity)
    const repository = await this.stack.namespace()
    const units = await repository.configs.units()
    const page = {limit: all ? undefined : limit, cursor}
    const {records, next} = await findEvents(repository, {entity, action, ...range, ...page})
    if (follow) {
      const isJson = this.jsonEnabled()
      const onOutage = (error: Error | undefined) =>
        this.logToStderr(error ? `${error.message}; retrying until Ctrl-C.` : 'Reconnected to the table.')
      // Runs until the process ends: Ctrl-C or a closed pipe.
      for await (const record of watchEvents(repository, {entity, action}, records, table, onOutage)) {
        await writeLines([isJson ? jsonText(auditEventJson(record)) : auditLine(record, units)])
      }
    }
    await this.list(auditListing(records, entity !== undefined && this.format !== 'csv', units))
    this.suggestNextPage(next)
    return {events: records.map(auditEventJson), next: next ?? null}
  }
}
