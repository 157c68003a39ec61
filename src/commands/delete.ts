import {boolean, string} from '@oclif/core/flags'
import {typedFlags} from '../lib/cli/base/settings.js'
import {WholeStackCommand} from '../lib/cli/base/stack-command.js'
import {confirmByName} from '../lib/cli/output/confirm.js'
import {cloudFormationFlags, parseRoleArn} from '../lib/cli/stack/cloudformation-flags.js'
import {deletionJson, deletionLines, deletionQuestion, stackDeletedLines} from '../lib/cli/stack/delete-presenter.js'
import {deleteWithEvents} from '../lib/cli/stack/delete-run.js'
import type {DeleteResult} from '../lib/cli/stack/results.js'
import {InvalidInput} from '../lib/core/errors.js'

export default class Delete extends WholeStackCommand<typeof Delete> {
  static override summary = 'Delete a stack, keeping its data by default'

  static override description =
    'Shows the plan and asks for the stack name. The table and the audit archive are kept unless you add --delete-table ' +
    'and --empty-archive. If the stack or a table to delete is protected, nothing is deleted.'

  static override flags = {
    'retain-table': boolean({
      description: 'Keep the table. This is the default.',
      exclusive: ['delete-table'],
    }),
    'delete-table': boolean({description: 'Also delete the table with all limits, buckets and usage.'}),
    'empty-archive': boolean({description: 'Also delete the archived audit events and their S3 bucket.'}),
    confirm: string({description: 'Confirm with the stack name instead of a prompt.', helpValue: 'NAME'}),
    'dry-run': boolean({description: 'Show the plan without deleting anything.'}),
    ...cloudFormationFlags,
  }

  static override examples = [
    {command: 'zael delete --stack test --dry-run', description: 'Preview'},
    {command: 'zael delete --stack test', description: 'Delete after you type the name; keep the table'},
    {
      command: 'zael delete --stack test --delete-table --empty-archive --confirm test',
      description: 'Delete everything, in a script',
    },
  ]

  protected async work(): Promise<DeleteResult> {
    const {stack, table, endpoint} = this.stack
    const {interruption} = this
    const {'delete-table': deleteTable = false, 'empty-archive': emptyArchive = false, ...flags} = this.flags
    const cloudFormationRole = parseRoleArn(flags['cloudformation-role'])
    using aws = await this.openAws()
    const {supervisorOf} = await import('../lib/cli/base/local-health.js')
    if (!aws && (await supervisorOf({stack, endpoint}))) {
      throw new InvalidInput('delete.local', 'The stack "local" cannot be deleted, only stopped.', {
        hint: 'To stop it: zael local down. To also delete its data: zael local down --purge',
      })
    }
    const {planDeletion} = await import('../lib/infra/deploy/delete-plan.js')
    const plan = await planDeletion(aws, table, {deleteTable, emptyArchive, cloudFormationRole}, interruption.signal)
    this.print(deletionLines(plan))
    if (flags['dry-run']) return deletionJson(plan, undefined)
    const {signal} = interruption
    await confirmByName(deletionQuestion(plan), table.name, {confirm: flags.confirm, signal})
    const mode = {flags: typedFlags(this.settings), interruption, logToStderr: this.logToStderr.bind(this)}
    const deleted = await deleteWithEvents(aws, table, plan, mode)
    this.print(['', ...stackDeletedLines(plan, deleted)])
    return deletionJson(plan, deleted)
  }
}
