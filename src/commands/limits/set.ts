import {string} from '@oclif/core/args'
import {boolean, integer, option} from '@oclif/core/flags'
import type {StackContext} from '../../lib/cli/base/context.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {scopeFlags, scopeOf} from '../../lib/cli/flags/scope.js'
import {type ChangeOutcome, changeJson} from '../../lib/cli/limits/json.js'
import {changeLines, pythonNameWarning} from '../../lib/cli/limits/presenter.js'
import {changeWithProgress} from '../../lib/cli/limits/run.js'
import type {LimitsSetResult} from '../../lib/cli/results/limits.js'

export default class LimitsSet extends StackCommand<typeof LimitsSet> {
  static override summary = 'Set limits and update live buckets'

  static override description =
    'Other limits of the scope do not change unless --replace is given. Of the levels system, resource, entity, and entity ' +
    'with resource, the most specific one that has limits applies as a whole. See `zael help limit-syntax`.'

  static override args = {
    limits: string({description: 'Limits such as rpm=100/min.', multiple: true, ignoreStdin: true}),
  }

  static override flags = {
    ...scopeFlags,
    replace: boolean({description: 'Remove limits of the scope that are not given.'}),
    'on-unavailable': option({
      options: ['allow', 'block'] as const,
      description: 'Whether to admit requests while the table is unavailable; unchanged unless given.',
      dependsOn: ['system'],
    })(),
    'audit-retention-days': integer({
      description: 'Days to keep new audit events of the namespace; 90 until set.',
      dependsOn: ['system'],
      min: 1,
    }),
    'dry-run': boolean({description: 'Show what would change; write nothing.'}),
  }

  static override examples = [
    {command: 'zael limits set --resource gpt-4 rpm=100/min tpm=20k/min:40k', description: 'For all entities'},
    {command: 'zael limits set --entity team-1 --resource gpt-4 rpm=1000 --dry-run', description: 'Preview'},
    {command: 'zael limits set --entity team-1 rpd=10k/day@Europe/Berlin', description: 'Per calendar day'},
    {command: 'zael limits set --system --on-unavailable allow', description: 'Admit requests during an outage'},
  ]

  protected async work(stack: StackContext): Promise<LimitsSetResult> {
    const {replace, 'on-unavailable': onUnavailable, 'dry-run': dryRun = false} = this.flags
    const {'audit-retention-days': auditRetentionDays} = this.flags
    const {parseLimits} = await import('../../lib/core/syntax/limit-text.js')
    const {calendarCheck} = await import('../../lib/calendar/calendar-check.js')
    const scope = scopeOf(this.flags)
    const limits = parseLimits(this.args.limits ?? [], calendarCheck)
    const options = {replace, onUnavailable, auditRetentionDays}
    const namespace = await stack.namespace()
    const change: ChangeOutcome = dryRun
      ? await namespace.configs.preview(scope, limits, options)
      : await changeWithProgress(sync => namespace.setLimits(scope, limits, {...options, ...sync}))
    this.print(changeLines(change, dryRun))
    const warning = pythonNameWarning(change)
    if (warning !== undefined) this.warn(warning)
    return {dryRun, ...changeJson(change), buckets: change.buckets ?? null}
  }
}
