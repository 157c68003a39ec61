import {string} from '@oclif/core/args'
import {boolean, option} from '@oclif/core/flags'
import {scopeFlags, scopeOf} from '../../lib/cli/base/scope.js'
import {StackCommand} from '../../lib/cli/base/stack-command.js'
import {timeFlags, timeRange} from '../../lib/cli/flags/time-range.js'
import {
  IMPACT_MS,
  impactJson,
  impactLines,
  impactListing,
  notableImpacts,
  readImpact,
} from '../../lib/cli/limits/impact.js'
import {newNamesJson, newNamesText, othersLines} from '../../lib/cli/limits/preview.js'
import type {LimitsImpactResult} from '../../lib/cli/limits/results.js'
import {completeLimits, keptJson, keptText} from '../../lib/cli/limits/set.js'
import {listFlags} from '../../lib/cli/output/listing.js'

export default class LimitsImpact extends StackCommand<typeof LimitsImpact> {
  static override summary = 'Replay recorded usage against proposed limits'

  static override description =
    'Compares the usage of the last week with the limits that `zael limits set` would set. Writes nothing, and ' +
    'ignores past refusals. Results for calendar quotas are exact. For other limits, "refused" is certain, and ' +
    '"perhaps" depends on request times, which are not recorded. "in bursts" means that at most half of the ' +
    'allowance was used, so only bursts above twice the average are refused. Usage of the current window counts up ' +
    'to now.'

  static override args = {
    limits: string({description: 'Limits such as rpm=100/min.', required: true, multiple: true, ignoreStdin: true}),
  }

  static override flags = {
    ...scopeFlags,
    only: boolean({description: 'Replay against the given limits only.'}),
    window: option({
      char: 'w',
      options: ['hourly', 'daily', 'monthly'] as const,
      default: 'hourly' as const,
      description: 'Usage windows to compare.',
    })(),
    ...timeFlags,
    ...listFlags,
  }

  static override examples = [
    {
      command: 'zael limits impact --resource gpt-4 tpm=50k/min',
      description: 'Find entities that a lower limit would affect',
    },
    {
      command: "zael limits impact --resource gpt-4 'usd=$5/day@UTC' --since 30d",
      description: 'Check a new daily budget',
    },
  ]

  protected async work(): Promise<LimitsImpactResult> {
    const [{parseLimits}, {calendarCheck}] = await Promise.all([
      import('../../lib/core/limits/limit-text.js'),
      import('../../lib/core/calendar/schedule.js'),
    ])
    const {window, only: replace} = this.flags
    const scope = scopeOf(this.flags)
    parseLimits(this.args.limits, calendarCheck)
    const nowMs = this.stack.table.clock()
    const namespace = await this.stack.namespace()
    const {given} = await completeLimits(namespace, scope, this.args.limits)
    const limits = given.map(({limit}) => limit)
    const preview = await namespace.configs.preview(scope, limits, {replace})
    const asked = {window, ...timeRange(this.flags, nowMs, IMPACT_MS)}
    const {impact, range} = await readImpact(namespace, [preview], nowMs, asked)
    const {newNames} = await import('../../lib/insight/lookup/known-names.js')
    const known = new Set(preview.before.map(({name}) => name))
    const added = limits.flatMap(({name}) => (known.has(name) ? [] : [name]))
    const names = await newNames(namespace, scope, added)
    const isWhole = this.format !== 'table' || this.flags.sort !== undefined
    const {shown, more} = isWhole ? {shown: impact.found, more: []} : notableImpacts(impact)
    await this.list(impactListing(impact, shown))
    const unknown = newNamesText(names)
    const kept = keptText(given)
    this.print([
      ...more,
      '',
      ...impactLines(impact, range),
      ...(impact.entities > 0 ? othersLines(scope, impact, 'with usage') : []),
      ...(kept === undefined ? [] : [`Kept: ${kept}`]),
      ...(unknown ? [`Unknown names: ${unknown}`] : []),
    ])
    return {...impactJson(impact, range), kept: keptJson(given), new: newNamesJson(names)}
  }
}
