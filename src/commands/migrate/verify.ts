import {boolean} from '@oclif/core/flags'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import type {MigrateVerifyResult} from '../../lib/cli/migrate/results.js'
import {verifyWithProgress} from '../../lib/cli/migrate/run.js'
import {verificationJson, verificationLines} from '../../lib/cli/migrate/run-presenter.js'
import {EXIT} from '../../lib/cli/output/exit.js'

export default class MigrateVerify extends TableCommand<typeof MigrateVerify> {
  static override summary = 'Compare every old item with its new one'

  static override description =
    'Reads the whole table and writes nothing. Exits with 6 if records differ, or if a bucket has no configured limits, ' +
    'since its requests would fail. While clients of an older layout run, their latest changes may show as differences.'

  static override flags = {
    all: boolean({description: 'List all differences instead of the first ones.'}),
  }

  static override examples = [
    {command: 'zael migrate verify -s prod', description: 'Check that everything is migrated'},
    {command: 'zael migrate verify -s prod --all', description: 'List every record that differs'},
    {command: 'zael migrate verify -s prod --json', description: 'In a pipeline'},
  ]

  protected async work(): Promise<MigrateVerifyResult> {
    const {stack, table} = this.stack
    const verification = await verifyWithProgress(table, {ourVersion: this.config.version, all: this.flags.all})
    this.print(await verificationLines(stack, verification, this.lineWidth))
    if (!verification.clean || verification.limitless.buckets > 0) process.exitCode = EXIT.negative
    return verificationJson(stack, verification)
  }
}
