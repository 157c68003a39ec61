import {string} from '@oclif/core/args'
import {boolean} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {scopeFlags, scopeOf} from '../../lib/cli/flags/scope.js'
import {changeJson} from '../../lib/cli/limits/json.js'
import {changeLines, unsetQuestion} from '../../lib/cli/limits/presenter.js'
import {changeWithProgress} from '../../lib/cli/limits/run.js'
import {confirm} from '../../lib/cli/output/confirm.js'
import type {LimitsUnsetResult} from '../../lib/cli/results/limits.js'
import {InvalidInput} from '../../lib/core/errors.js'
import type {LimitsChange} from '../../lib/repository/repository.js'

export default class LimitsUnset extends StackCommand<typeof LimitsUnset> {
  static override summary = 'Remove one limit, or all limits of a scope'

  static override description =
    'Live buckets are updated to the limits that then apply. With --all and --system, the outage policy is removed too.'

  static override args = {
    name: string({description: 'Limit name, such as rpm.', ignoreStdin: true}),
  }

  static override flags = {
    ...scopeFlags,
    all: boolean({description: 'Remove everything that is set for this scope.'}),
    yes: boolean({char: 'y', description: 'Do not ask before removing everything.'}),
  }

  static override examples = [
    {command: 'zael limits unset tpm --resource gpt-4', description: 'One limit'},
    {
      command: 'zael limits unset --all --entity team-1 --resource gpt-4 --yes',
      description: 'All limits, without a prompt',
    },
  ]

  protected async work(stack: StackContext): Promise<LimitsUnsetResult> {
    const {all = false, yes = false} = this.flags
    const {name} = this.args
    const scope = scopeOf(this.flags)
    if (all === (name !== undefined)) {
      throw new InvalidInput('limits.unset', 'give one limit name, or --all for everything in the scope', {
        hint: 'For example `zael limits unset rpm --resource gpt-4`.',
      })
    }
    const namespace = await stack.namespace()
    if (name !== undefined)
      return this.#report(await changeWithProgress(sync => namespace.unsetLimit(scope, name, sync)))
    const {getRemovable} = await import('../../lib/repository/limits/pages.js')
    await confirm(unsetQuestion(await getRemovable(namespace.configs, scope)), {yes})
    return this.#report(await changeWithProgress(sync => namespace.deleteLimits(scope, sync)))
  }

  #report(change: LimitsChange): LimitsUnsetResult {
    this.print(changeLines(change, false))
    return {...changeJson(change), buckets: change.buckets}
  }
}
