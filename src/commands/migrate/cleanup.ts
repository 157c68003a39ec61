import {boolean, integer, string} from '@oclif/core/flags'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import type {MigrateCleanupResult} from '../../lib/cli/migrate/results.js'
import {cleanUpWithProgress, verifyWithProgress} from '../../lib/cli/migrate/run.js'
import {cleanedJson, cleanedLines, cleanUpPlanLines, cleanUpQuestion} from '../../lib/cli/migrate/run-presenter.js'
import {confirmByName} from '../../lib/cli/output/confirm.js'
import {EXIT} from '../../lib/cli/output/exit.js'

export default class MigrateCleanup extends TableCommand<typeof MigrateCleanup> {
  static override summary = 'Permanently delete the items of older layouts'

  static override description =
    'Compares the whole table first and deletes nothing if records differ. Keeps items that change during the run, have an ' +
    'unknown format, or cannot be migrated. Afterwards, clients of an older layout find no data. This cannot be undone.'

  static override flags = {
    confirm: string({description: 'Confirm with the stack name instead of a prompt.', helpValue: 'NAME'}),
    'dry-run': boolean({description: 'Compare and show the plan without deleting anything.'}),
    'rate-limit': integer({description: 'Maximum write units per second.', helpValue: 'WCU', min: 1}),
  }

  static override examples = [
    {command: 'zael migrate cleanup -s prod --dry-run', description: 'Preview'},
    {command: 'zael migrate cleanup -s prod', description: 'Compare, then ask for the stack name'},
    {command: 'zael migrate cleanup -s prod --confirm prod', description: 'In a script'},
  ]

  protected async work(): Promise<MigrateCleanupResult> {
    const {stack, table} = this.stack
    if (this.flags['dry-run']) {
      const verification = await verifyWithProgress(table, {ourVersion: this.config.version, mustBeClean: true})
      this.print(cleanUpPlanLines(stack, verification))
      return cleanedJson(stack, verification, undefined)
    }
    const result = await cleanUpWithProgress(table, stack, {
      ourVersion: this.config.version,
      rateLimit: this.flags['rate-limit'],
      confirm: verification =>
        confirmByName(cleanUpQuestion(stack, verification), stack, {confirm: this.flags.confirm}),
    })
    this.print(cleanedLines(stack, result))
    if (result.left.count > 0) process.exitCode = EXIT.negative
    return cleanedJson(stack, result.verification, result)
  }
}
