import {boolean, string} from '@oclif/core/flags'
import type {StackContext} from '../lib/cli/base/context.js'
import {typedFlags} from '../lib/cli/base/settings.js'
import {StackCommand, wholeStackFlags} from '../lib/cli/base/stack-command.js'
import {confirmByName} from '../lib/cli/output/confirm.js'
import {deletionJson, deletionLines, deletionQuestion, stackDeletedLines} from '../lib/cli/stack/delete-presenter.js'
import {deleteWithEvents} from '../lib/cli/stack/delete-run.js'
import {InvalidInput} from '../lib/core/errors.js'

export default class Delete extends StackCommand<typeof Delete> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Delete a stack; its data stays unless asked for'

  static override description =
    'Shows what goes and what stays, and asks for the name. The table and the archive of audit events stay on AWS: to ' +
    'destroy them takes a flag each. What is protected against deletion is refused before anything is deleted.'

  static override flags = {
    'retain-table': boolean({
      description: 'Keep the table, as without this flag: for scripts that want to say so.',
      exclusive: ['delete-table'],
    }),
    'delete-table': boolean({description: 'Delete the table too, with all limits, buckets and usage in it.'}),
    'empty-archive': boolean({description: 'Delete the archived audit events too, and their bucket.'}),
    confirm: string({description: 'Name of the stack once more, instead of typing it.', helpValue: 'NAME'}),
    'dry-run': boolean({description: 'Show what would go and what would stay; delete nothing.'}),
  }

  static override examples = [
    {command: 'zael delete --stack test --dry-run', description: 'Look first'},
    {command: 'zael delete --stack test', description: 'Asks for the name; the table stays'},
    {
      command: 'zael delete --stack test --delete-table --empty-archive --confirm test',
      description: 'Everything, in a script',
    },
  ]

  protected async work({stack, table, awsServices, endpoint}: StackContext): Promise<object> {
    const {'delete-table': deleteTable = false, 'empty-archive': emptyArchive = false, ...flags} = this.flags
    using aws = await awsServices()
    const {supervisorOf} = await import('../lib/cli/base/local-health.js')
    if (!aws && (await supervisorOf({stack, endpoint}))) {
      throw new InvalidInput('delete.local', 'The stack "local" is not deleted but stopped.', {
        hint: 'To stop it: zael local down. To delete its data too: zael local down --purge',
      })
    }
    const {planDeletion} = await import('../lib/infra/delete/plan.js')
    const plan = await planDeletion(aws, table, {deleteTable, emptyArchive})
    this.log(deletionLines(plan).join('\n'))
    if (flags['dry-run']) return deletionJson(plan, undefined)
    await confirmByName(deletionQuestion(plan), table.name, {confirm: flags.confirm})
    const manner = {flags: typedFlags(this.settings), logToStderr: this.logToStderr.bind(this)}
    const deleted = await deleteWithEvents(aws, table, plan, manner)
    this.log(`\n${stackDeletedLines(plan, deleted).join('\n')}`)
    return deletionJson(plan, deleted)
  }
}
