import {string} from '@oclif/core/args'
import {boolean, integer, option} from '@oclif/core/flags'
import {scopeFlags, scopeOf} from '../../lib/cli/base/scope.js'
import {typedFlags} from '../../lib/cli/base/settings.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {untilFlags, untilOf} from '../../lib/cli/flags/until.js'
import {asBoosted} from '../../lib/cli/limits/boost.js'
import {impactFlags, impactJson, impactText, readImpact} from '../../lib/cli/limits/impact.js'
import {pythonNameWarning} from '../../lib/cli/limits/presenter.js'
import {previewJson} from '../../lib/cli/limits/preview.js'
import type {LimitsSetResult} from '../../lib/cli/limits/results.js'
import {
  askedLines,
  completeLimits,
  keptJson,
  memberLines,
  previewSet,
  setAsPreviewed,
  setLines,
  setQuestion,
} from '../../lib/cli/limits/set.js'
import {confirm, yesFlag} from '../../lib/cli/output/confirm.js'

export default class LimitsSet extends StackCommand<typeof LimitsSet> {
  static override summary = 'Set limits and update live buckets'

  static override description =
    "Limits you don't name are kept; --only removes them. An amount alone, such as tpm=200k, keeps the period, " +
    'burst ratio, time zone and windows. A scope without limits starts with a copy of the limits that apply there. ' +
    "Asks first if the change affects limits you don't name, or takes a limit or the rest of a quota from live " +
    'buckets. Also asks if a limit changes its kind (rate, calendar quota, session quota), or if an amount of money ' +
    'has no currency or period. Syntax: `zael help limit-syntax`.'

  static override args = {
    limits: string({description: 'Limits such as rpm=100/min.', multiple: true, ignoreStdin: true}),
  }

  static override flags = {
    ...scopeFlags,
    only: boolean({
      description: 'Remove all other limits of the scope; copy none.',
      aliases: ['replace'],
      deprecateAliases: true,
    }),
    ...untilFlags,
    'on-unavailable': option({
      options: ['allow', 'block'] as const,
      description: 'Admit or refuse requests while the table is unavailable.',
      dependsOn: ['system'],
    })(),
    'audit-retention-days': integer({
      description: 'Days to keep audit events. Default: 90.',
      helpValue: 'DAYS',
      dependsOn: ['system'],
      min: 1,
    }),
    ...impactFlags,
    'dry-run': boolean({description: 'Show the changes; write nothing.'}),
    ...yesFlag,
  }

  static override examples = [
    {command: 'zael limits set --resource gpt-4 rpm=100/min tpm=20k/min:40k', description: 'For all entities'},
    {command: 'zael limits set --entity team-1 --resource gpt-4 rpm=1000 --dry-run', description: 'Preview'},
    {command: 'zael limits set --entity team-1 --resource gpt-4 tpm=400k --for 24h', description: 'For one day'},
    {command: 'zael limits set --system --on-unavailable allow', description: 'Admit requests during an outage'},
  ]

  protected async work(): Promise<LimitsSetResult> {
    const {only: replace, 'on-unavailable': onUnavailable, 'dry-run': dryRun = false, yes = false} = this.flags
    const {'audit-retention-days': auditRetentionDays} = this.flags
    const {clock} = this.stack.table
    const {parseLimits} = await import('../../lib/core/limits/limit-text.js')
    const {calendarCheck} = await import('../../lib/core/calendar/schedule.js')
    const scope = scopeOf(this.flags)
    const texts = this.args.limits ?? []
    // Before any read: a syntax error needs no table.
    parseLimits(texts, calendarCheck)
    const until = untilOf(this.flags, clock())
    const options = {replace, onUnavailable, auditRetentionDays, until}
    const where = typedFlags(this.settings)
    const namespace = await this.stack.namespace()
    const given = await completeLimits(namespace, scope, texts, {isTemporary: until !== undefined})
    const request = {scope, ...given, options, words: this.words()}
    const previewed = await previewSet(namespace, request, clock())
    const {planned, preview} = previewed
    const seen = this.flags.impact ? await readImpact(namespace, [asBoosted(planned)], clock()) : undefined
    if (seen) this.print([...(await impactText(seen, this.lineWidth)), ''])
    const asked = setQuestion(request, previewed, where)
    const isListed = asked !== undefined && !dryRun && !yes
    if (isListed) this.print(askedLines(previewed, request, where))
    if (asked && !dryRun) await confirm(asked.question, {yes, instead: asked.instead})
    const {change, made}: Awaited<ReturnType<typeof setAsPreviewed>> = dryRun
      ? {change: planned, made: preview}
      : await setAsPreviewed(namespace, request, previewed)
    this.print([
      ...setLines(change, made, request, {dryRun, isListed: isListed && made === preview, where, asked}),
      ...(await memberLines(namespace, request, planned, where)),
    ])
    const warning = pythonNameWarning(change)
    if (warning !== undefined) this.warn(warning)
    const impact = seen ? impactJson(seen.impact, seen.range) : null
    return {
      dryRun,
      kept: keptJson(request.given),
      ...previewJson(change, made),
      buckets: change.buckets ?? null,
      confirmation: asked?.question ?? null,
      impact,
    }
  }

  private words(): string[] {
    const {for: span, until} = this.flags
    const end = span !== undefined ? ['--for', span] : until !== undefined ? ['--until', until] : []
    return [...(this.args.limits ?? []), ...end]
  }
}
