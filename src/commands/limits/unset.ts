import {string} from '@oclif/core/args'
import {boolean} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {scopeFlags, scopeOf} from '../../lib/cli/flags/scope.js'
import {changeLines, effectJson, effectMade, effectOf, lossQuestion} from '../../lib/cli/limits/effect.js'
import {changeJson} from '../../lib/cli/limits/json.js'
import {unsetQuestion} from '../../lib/cli/limits/presenter.js'
import {changeWithProgress} from '../../lib/cli/limits/run.js'
import {confirm} from '../../lib/cli/output/confirm.js'
import type {LimitsUnsetResult} from '../../lib/cli/results/limits.js'
import {InvalidInput} from '../../lib/core/errors.js'
import type {Limit} from '../../lib/core/limit.js'
import type {ConfigScope} from '../../lib/schema/config-record.js'

export default class LimitsUnset extends StackCommand<typeof LimitsUnset> {
  static override summary = 'Remove one limit, or all limits of a scope'

  static override description =
    'Live buckets are updated to the limits that then apply. Asks before they lose a limit that they are charged for, ' +
    'and before everything is removed. With --all and --system, the outage policy is removed too. With --boost, values that ' +
    'were set with an end are ended now, of one limit or of all, and nothing else is removed.'

  static override args = {
    name: string({description: 'Limit name, such as rpm.', ignoreStdin: true}),
  }

  static override flags = {
    ...scopeFlags,
    all: boolean({description: 'Remove everything that is set for this scope.'}),
    boost: boolean({
      description: 'Only end what was set with --for or --until: of the limit, or of all.',
      exclusive: ['all'],
    }),
    yes: boolean({char: 'y', description: 'Do not ask before removing limits.'}),
  }

  static override examples = [
    {command: 'zael limits unset tpm --resource gpt-4', description: 'One limit'},
    {command: 'zael limits unset --boost --entity team-1 --resource gpt-4', description: 'End a boost now'},
    {
      command: 'zael limits unset --all --entity team-1 --resource gpt-4 --yes',
      description: 'All limits, without a prompt',
    },
  ]

  protected async work(stack: StackContext): Promise<LimitsUnsetResult> {
    const {all = false, boost = false, yes = false} = this.flags
    const {name} = this.args
    const scope = scopeOf(this.flags)
    if (boost) return this.endBoosts(stack, scope, name === undefined ? undefined : [name])
    if (all === (name !== undefined)) {
      throw new InvalidInput('limits.unset', 'give one limit name, or --all for everything in the scope', {
        hint: 'For example `zael limits unset rpm --resource gpt-4`.',
      })
    }
    const namespace = await stack.namespace()
    const {getRemovable} = await import('../../lib/repository/limits/pages.js')
    const removed = name === undefined ? await getRemovable(namespace.configs, scope) : undefined
    const before = (removed ?? (await namespace.configs.get(scope)))?.limits ?? []
    const after = before.filter(limit => removed === undefined && limit.name !== name)
    const effect = await effectOf(namespace, {scope, before, after}, stack.table.clock())
    const loss = lossQuestion(scope, effect)
    if (removed) await confirm(unsetQuestion(removed, loss), {yes})
    else if (loss !== undefined) await confirm(loss, {yes})
    const change = await changeWithProgress(sync =>
      // What others have added since is not what was asked about.
      name === undefined
        ? namespace.deleteLimits(scope, {...sync, mayRemove: before.map(limit => limit.name)})
        : namespace.unsetLimit(scope, name, sync),
    )
    const made = await effectMade(namespace, effect, {before, after}, change)
    this.print(changeLines(change, made, false))
    return {...changeJson(change), ...effectJson(made), buckets: change.buckets}
  }

  private async endBoosts(
    stack: StackContext,
    scope: ConfigScope,
    names: readonly string[] | undefined,
  ): Promise<LimitsUnsetResult> {
    const namespace = await stack.namespace()
    const {limits = [], isForBoost = false} = (await namespace.configs.get(scope)) ?? {}
    const {withoutBoosts} = await import('../../lib/repository/limits/boosting.js')
    const isEnded = ({name}: Limit) => names?.includes(name) ?? true
    const {limits: after} = withoutBoosts({scope, limits, isForBoost}, isEnded)
    const effect = await effectOf(namespace, {scope, before: limits, after}, stack.table.clock())
    const change = await changeWithProgress(sync => namespace.endBoosts(scope, names, sync))
    this.print(changeLines(change, effect, false))
    return {...changeJson(change), ...effectJson(effect), buckets: change.buckets}
  }
}
