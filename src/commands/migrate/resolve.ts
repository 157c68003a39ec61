import {string as stringArg} from '@oclif/core/args'
import {option} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/context.js'
import {WholeStackCommand} from '../../lib/cli/whole-stack-command.js'

export default class MigrateResolve extends WholeStackCommand<typeof MigrateResolve> {
  static override summary = 'Settle a record that was changed in the old place and in the new one'

  static override description =
    'A migration never chooses between two changes. With `--keep old` the old record takes the place of the new one; with ' +
    '`--keep new` the change in the old place is passed over.'

  static override args = {
    key: stringArg({
      description: 'Key of the old item as `zael migrate verify` shows it, in quotes.',
      required: true,
      ignoreStdin: true,
    }),
  }

  static override flags = {
    keep: option({options: ['old', 'new'] as const, description: 'Which of the two counts.', required: true})(),
  }

  static override examples = [
    {command: "zael migrate resolve 'ENTITY#user-1 #META' --keep new", description: 'The new record stays as it is'},
    {command: "zael migrate resolve 'SYSTEM# #CONFIG' --keep old", description: 'The old limits count'},
  ]

  protected async work({stack, table}: StackContext): Promise<object> {
    const {keep} = this.flags
    const {resolveConflict} = await import('../../lib/migrations/resolve.js')
    const {key} = await resolveConflict(table, this.args.key, keep)
    const said = keep === 'old' ? 'the old record has taken the place of the new one' : 'the new record stays as it is'
    this.log(`Settled ${key}: ${said}`)
    return {stack, key, kept: keep}
  }
}
