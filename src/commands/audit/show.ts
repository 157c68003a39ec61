import {string} from '@oclif/core/args'
import {string as stringFlag} from '@oclif/core/flags'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {auditEventJson, auditFacts} from '../../lib/cli/namespace/audit-presenter.js'
import type {AuditShowResult} from '../../lib/cli/namespace/results.js'

export default class AuditShow extends StackCommand<typeof AuditShow> {
  static override summary = 'Show one audit event with all its details'

  static override description =
    '`zael audit list --columns time,action,id` shows event ids. With --entity, reads one item; without it, searches ' +
    'all events of the namespace.'

  static override args = {
    id: string({description: 'Event id, 26 letters and digits.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    entity: stringFlag({char: 'e', description: 'Entity of the event.', helpValue: 'ID'}),
  }

  static override examples = [
    {command: 'zael audit show 01JCQ3Z7M8X5T0V4K2N6P9R1SB', description: 'Search the whole namespace'},
    {
      command: "zael audit show 01JCQ3Z7M8X5T0V4K2N6P9R1SB --entity '$SYSTEM'",
      description: 'Read it directly by its entity',
    },
  ]

  protected async work(): Promise<AuditShowResult> {
    const {findEvent} = await import('../../lib/insight/lookup/audit-search.js')
    const namespace = await this.stack.namespace()
    const record = await findEvent(namespace, this.args.id, this.flags.entity)
    this.print(auditFacts(record, await namespace.configs.units()))
    return auditEventJson(record)
  }
}
