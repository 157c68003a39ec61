import {string as stringArg} from '@oclif/core/args'
import {boolean, option, string} from '@oclif/core/flags'
import {TableCommand} from '../../lib/cli/base/stack-command.js'
import type {MigrateResolveResult} from '../../lib/cli/migrate/results.js'
import {resolveAllWithProgress} from '../../lib/cli/migrate/run.js'
import {conflictLines, resolvedJson, resolvedLines} from '../../lib/cli/migrate/run-presenter.js'
import {confirmByName} from '../../lib/cli/output/confirm.js'
import {EXIT} from '../../lib/cli/output/exit.js'
import {safeLine} from '../../lib/cli/output/lines.js'
import {InvalidInput} from '../../lib/core/errors.js'

export default class MigrateResolve extends TableCommand<typeof MigrateResolve> {
  static override summary = 'Resolve records that changed in both layouts'

  static override description =
    '`--keep old` replaces the new record with the old one. `--keep new` ignores the change to the old record. `--all` ' +
    'resolves every conflict the same way, after you type the stack name.'

  static override args = {
    key: stringArg({
      description: 'Key of the old item, quoted, as shown by `zael migrate verify`.',
      ignoreStdin: true,
    }),
  }

  static override flags = {
    all: boolean({description: 'Resolve all conflicts.'}),
    confirm: string({
      description: 'With --all: confirm with the stack name instead of a prompt.',
      helpValue: 'NAME',
      dependsOn: ['all'],
    }),
    keep: option({
      options: ['old', 'new'] as const,
      description: 'Record to keep.',
      required: true,
    })(),
  }

  static override examples = [
    {command: "zael migrate resolve 'ENTITY#user-1 #META' --keep new", description: 'Keep the new record'},
    {command: "zael migrate resolve 'SYSTEM# #CONFIG' --keep old", description: 'Keep the old limits'},
    {command: 'zael migrate resolve --all --keep new', description: 'Keep all new records'},
  ]

  protected async work(): Promise<MigrateResolveResult> {
    const {stack, table} = this.stack
    const {keep, all = false} = this.flags
    const {key: spelled} = this.args
    const {version: ourVersion} = this.config
    if (all === (spelled !== undefined)) {
      throw new InvalidInput('migrate.key', 'Give either the key of one record or --all.', {
        hint: '`zael migrate verify --all` lists the keys of all conflicts.',
      })
    }
    if (spelled === undefined) return this.#all()
    const {resolveConflict} = await import('../../lib/migrate/resolve.js')
    const {key} = await resolveConflict(table, spelled, keep, {ourVersion})
    const outcome = keep === 'old' ? 'the old record replaced the new one' : 'the new record is kept'
    this.log(`Resolved ${key}: ${outcome}`)
    return resolvedJson(stack, key, keep)
  }

  async #all(): Promise<MigrateResolveResult> {
    const {stack, table} = this.stack
    const {keep, confirm: given} = this.flags
    const result = await resolveAllWithProgress(table, keep, {
      ourVersion: this.config.version,
      confirm: conflicts => {
        if (given === undefined)
          for (const line of conflictLines(conflicts)) process.stderr.write(`${safeLine(line)}\n`)
        const what = `This keeps the ${keep} version of each of these records of stack "${stack}"`
        return confirmByName(what, stack, {confirm: given})
      },
    })
    this.print(resolvedLines(stack, keep, result))
    if (result.left.count > 0) process.exitCode = EXIT.negative
    return resolvedJson(stack, null, keep, result)
  }
}
