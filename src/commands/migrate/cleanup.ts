import {boolean, integer, string} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand, wholeStackFlags} from '../../lib/cli/base/stack-command.js'
import {cleanedJson, cleanedLines, cleanUpPlanLines, cleanUpQuestion} from '../../lib/cli/migrate/cleanup-presenter.js'
import {cleanUpWithProgress, compareWithProgress} from '../../lib/cli/migrate/run.js'
import {confirmByName} from '../../lib/cli/output/confirm.js'
import {EXIT} from '../../lib/core/errors.js'

export default class MigrateCleanup extends StackCommand<typeof MigrateCleanup> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Delete the items of older layouts, for good'

  static override description =
    'Compares the whole table first and deletes nothing when something differs. An item that changes meanwhile stays, and ' +
    'so does everything of an unknown shape or that cannot be moved. After this, clients of an older layout find nothing; ' +
    'there is no way back.'

  static override flags = {
    confirm: string({description: 'Name of the stack once more, instead of typing it.', helpValue: 'NAME'}),
    'dry-run': boolean({char: 'n', description: 'Compare and show what would be deleted; delete nothing.'}),
    'rate-limit': integer({description: 'Write units a second at most.', helpValue: 'WCU', min: 1}),
  }

  static override examples = [
    {command: 'zael migrate cleanup -s prod --dry-run', description: 'Look first'},
    {command: 'zael migrate cleanup -s prod', description: 'Compares, then asks for the name of the stack'},
    {command: 'zael migrate cleanup -s prod --confirm prod', description: 'In a script'},
  ]

  protected async work({stack, table}: StackContext): Promise<object> {
    if (this.flags['dry-run']) {
      const verification = await compareWithProgress(table, this.config.version)
      this.log(cleanUpPlanLines(stack, verification).join('\n'))
      return cleanedJson(stack, verification, undefined)
    }
    const result = await cleanUpWithProgress(table, stack, {
      ourVersion: this.config.version,
      rateLimit: this.flags['rate-limit'],
      confirm: verification =>
        confirmByName(cleanUpQuestion(stack, verification), stack, {confirm: this.flags.confirm}),
    })
    this.log(cleanedLines(stack, result).join('\n'))
    if (result.left.count > 0) process.exitCode = EXIT.negative
    return cleanedJson(stack, result.verification, result)
  }
}
