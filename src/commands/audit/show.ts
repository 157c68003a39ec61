import {string} from '@oclif/core/args'
import {string as stringFlag} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {auditFacts, auditResult} from '../../lib/cli/data/audit-presenter.js'

export default class AuditShow extends StackCommand<typeof AuditShow> {
  static override summary = 'Show one audit event with all its details'

  static override description =
    'The id is in the column "id" of `zael audit list --columns time,action,id`. With --entity one item is read; without ' +
    'it the keys of the events in the namespace are looked through.'

  static override args = {
    id: string({description: 'Id of the event, 26 letters and digits.', required: true, ignoreStdin: true}),
  }

  static override flags = {
    entity: stringFlag({char: 'e', description: 'Whom the event is about.', helpValue: 'ENTITY'}),
  }

  static override examples = [
    {command: 'zael audit show 01JCQ3Z7M8X5T0V4K2N6P9R1SB', description: 'Find it, whomever it is about'},
    {
      command: "zael audit show 01JCQ3Z7M8X5T0V4K2N6P9R1SB --entity '$SYSTEM'",
      description: 'Where it is known whom it is about',
    },
  ]

  protected async work(stack: StackContext): Promise<object> {
    const {findEvent} = await import('../../lib/inspect/audit-search.js')
    const record = await findEvent(await stack.namespace(), this.args.id, this.flags.entity)
    this.log(auditFacts(record).join('\n'))
    return auditResult(record)
  }
}
