import {string} from '@oclif/core/args'
import {boolean} from '@oclif/core/flags'
import {scopeArguments, scopeFlags, scopeOf} from '../../lib/cli/base/scope.js'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {unsetQuestion} from '../../lib/cli/limits/presenter.js'
import {changeLines, changeQuestion, copyLines, previewJson} from '../../lib/cli/limits/preview.js'
import type {LimitsUnsetResult} from '../../lib/cli/limits/results.js'
import {changeWithProgress} from '../../lib/cli/limits/run.js'
import {changedLines} from '../../lib/cli/limits/set.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'
import {InvalidInput} from '../../lib/core/errors.js'
import type {Limit} from '../../lib/core/limits/limit.js'
import type {ConfigScope} from '../../lib/schema/config-record.js'

export default class LimitsUnset extends StackCommand<typeof LimitsUnset> {
  static override summary = 'Remove one limit, or all limits of a scope'

  static override description =
    'Updates live buckets to the limits that apply afterwards. Asks before live buckets lose a limit, and always ' +
    'before --all. --all with --system also removes the outage policy. --boost ends temporary limits now and ' +
    'removes nothing else.'

  static override args = {
    name: string({description: 'Limit name, such as rpm.', ignoreStdin: true}),
  }

  static override flags = {
    ...scopeFlags,
    all: boolean({description: 'Remove all limits of this scope.'}),
    boost: boolean({
      description: 'End temporary limits now: the named one, or all of this scope.',
      exclusive: ['all'],
    }),
    ...yesFlag,
  }

  static override examples = [
    {command: 'zael limits unset tpm --resource gpt-4', description: 'One limit'},
    {command: 'zael limits unset --boost --entity team-1 --resource gpt-4', description: 'End temporary limits now'},
    {
      command: 'zael limits unset --all --entity team-1 --resource gpt-4 --yes',
      description: 'All limits, without a prompt',
    },
  ]

  protected async work(): Promise<LimitsUnsetResult> {
    const {all = false, boost = false, yes = false} = this.flags
    const {name} = this.args
    const scope = scopeOf(this.flags)
    if (boost) return this.endBoosts(scope, name === undefined ? undefined : [name])
    if (all === (name !== undefined)) {
      throw new InvalidInput('limits.unset', 'Give one limit name, or --all for all limits of the scope.', {
        hint: 'For example `zael limits unset rpm --resource gpt-4`.',
      })
    }
    const namespace = await this.stack.namespace()
    const [{getRemovable}, {previewChange, previewMade}] = await Promise.all([
      import('../../lib/repository/limits/limit-pages.js'),
      import('../../lib/insight/preview/preview.js'),
    ])
    const removed = name === undefined ? await getRemovable(namespace.configs, scope) : undefined
    const previous = removed ?? (await namespace.configs.get(scope))
    const {limits: before = [], copiedUntilMs} = previous ?? {}
    const after = before.filter(limit => removed === undefined && limit.name !== name)
    const planned = {scope, before, after, named: name === undefined ? [] : [name]}
    const preview = await previewChange(namespace, planned, this.stack.table.clock())
    const where = typedFlags(this.settings)
    const kept = after.length < before.length ? after : []
    const question = changeQuestion(scope, preview, {untilMs: copiedUntilMs, limits: kept})
    const isBoosted = before.some(limit => limit.name === name && limit.boost)
    const ending = `To end only its boost: zael limits unset --boost ${name} ${scopeArguments(scope)}${where}`
    const isListed = !yes && (removed !== undefined || question !== undefined)
    const record = removed ? undefined : previous
    const state = ' (nothing written yet)'
    if (isListed) this.print([...changeLines({...planned, previous, record}, preview, {where, state}), ''])
    if (removed) await confirm(unsetQuestion(removed, question), {yes})
    else if (question !== undefined) await confirm(question, {yes, instead: isBoosted ? ending : undefined})
    const change = await changeWithProgress(sync =>
      // Remove only the confirmed limits, not limits that others added since.
      name === undefined
        ? namespace.deleteLimits(scope, {...sync, mayRemove: before.map(limit => limit.name)})
        : namespace.unsetLimit(scope, name, sync),
    )
    const made = await previewMade(namespace, preview, planned, change)
    const lines = isListed && made === preview ? changedLines(change) : changeLines(change, made, {where})
    this.print([...lines, ...copyLines(change.copied, scope, where)])
    return {...previewJson(change, made), buckets: change.buckets}
  }

  private async endBoosts(scope: ConfigScope, names: readonly string[] | undefined): Promise<LimitsUnsetResult> {
    const namespace = await this.stack.namespace()
    const {limits = [], copiedUntilMs} = (await namespace.configs.get(scope)) ?? {}
    const [{withoutBoosts}, {previewChange}] = await Promise.all([
      import('../../lib/repository/limits/boosted-limits.js'),
      import('../../lib/insight/preview/preview.js'),
    ])
    const isEnded = ({name, boost}: Limit) => boost !== undefined && (names?.includes(name) ?? true)
    const {limits: after} = withoutBoosts({scope, limits, copiedUntilMs}, isEnded)
    const planned = {scope, before: limits, after, named: limits.filter(isEnded).map(({name}) => name)}
    const preview = await previewChange(namespace, planned, this.stack.table.clock())
    const question = changeQuestion(scope, preview)
    if (question !== undefined) await confirm(question, {yes: this.flags.yes ?? false})
    const change = await changeWithProgress(sync => namespace.endBoosts(scope, names, sync))
    this.print(changeLines(change, preview, {where: typedFlags(this.settings)}))
    return {...previewJson(change, preview), buckets: change.buckets}
  }
}
