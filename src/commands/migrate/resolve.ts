import {string as stringArg} from '@oclif/core/args'
import {boolean, option, string} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand, wholeStackFlags} from '../../lib/cli/base/stack-command.js'
import {conflictLines, resolvedJson, resolvedLines} from '../../lib/cli/migrate/resolve-presenter.js'
import {resolveAllWithProgress} from '../../lib/cli/migrate/run.js'
import {confirmByName} from '../../lib/cli/output/confirm.js'
import {EXIT, InvalidInput} from '../../lib/core/errors.js'

export default class MigrateResolve extends StackCommand<typeof MigrateResolve> {
  static override baseFlags = wholeStackFlags

  static override summary = 'Settle a record that was changed in the old place and in the new one'

  static override description =
    'A migration never chooses between two changes. With `--keep old` the old record takes the place of the new one; with ' +
    '`--keep new` the change in the old place is passed over. `--all` settles every conflict that there is the same way, ' +
    'and asks for the name of the stack first.'

  static override args = {
    key: stringArg({
      description: 'Key of the old item as `zael migrate verify` shows it, in quotes.',
      ignoreStdin: true,
    }),
  }

  static override flags = {
    all: boolean({description: 'Settle all conflicts.'}),
    confirm: string({
      description: 'With --all: name of the stack once more, instead of typing it.',
      helpValue: 'NAME',
      dependsOn: ['all'],
    }),
    keep: option({options: ['old', 'new'] as const, description: 'Which of the two counts.', required: true})(),
  }

  static override examples = [
    {command: "zael migrate resolve 'ENTITY#user-1 #META' --keep new", description: 'The new record stays as it is'},
    {command: "zael migrate resolve 'SYSTEM# #CONFIG' --keep old", description: 'The old limits count'},
    {command: 'zael migrate resolve --all --keep new', description: 'All new records stay as they are'},
  ]

  protected async work({stack, table}: StackContext): Promise<object> {
    const {keep, all = false} = this.flags
    const {key: spelled} = this.args
    const {version: ourVersion} = this.config
    if (all === (spelled !== undefined)) {
      throw new InvalidInput('migrate.key', 'This takes either the key of one record or --all.', {
        hint: '`zael migrate verify --all` lists the keys of all conflicts.',
      })
    }
    if (spelled === undefined) return this.#all(stack, table)
    const {resolveConflict} = await import('../../lib/migrations/resolve.js')
    const {key} = await resolveConflict(table, spelled, keep, {ourVersion})
    const said = keep === 'old' ? 'the old record has taken the place of the new one' : 'the new record stays as it is'
    this.log(`Settled ${key}: ${said}`)
    return resolvedJson(stack, key, keep)
  }

  async #all(stack: string, table: StackContext['table']): Promise<object> {
    const {keep, confirm: given} = this.flags
    const result = await resolveAllWithProgress(table, keep, {
      ourVersion: this.config.version,
      confirm: conflicts => {
        if (given === undefined) process.stderr.write(`${conflictLines(conflicts).join('\n')}\n`)
        const what = `This keeps the ${keep} one of each of these records of stack "${stack}"`
        return confirmByName(what, stack, {confirm: given})
      },
    })
    this.log(resolvedLines(stack, keep, result).join('\n'))
    if (result.left.count > 0) process.exitCode = EXIT.negative
    return resolvedJson(stack, null, keep, result)
  }
}
