import {resetBucket, resetQuestion} from '../../cli/bucket/operations.js'
import {factLines} from '../../cli/output/facts.js'
import {formatNumber, formatTokens} from '../../core/text/text.js'
import {bucketsOf} from '../../insight/lookup/bucket-search.js'
import type {LimitLevel} from '../../repository/buckets/view.js'
import type {ActionQuestion, ActionTarget} from '../state/actions.js'
import type {ActionSource} from './action-source.js'

export async function askReset(
  {namespace, nowMs}: ActionSource,
  {entity, resource}: ActionTarget,
): Promise<ActionQuestion> {
  const [[bucket], units] = await Promise.all([
    bucketsOf(namespace, entity, resource, nowMs),
    namespace.configs.units(),
  ])
  const levels = (bucket?.limits ?? []).map(limit => [limit.name, levelChange(limit, units.get(limit.name))])
  return {
    command: ['bucket', 'reset', entity, '--resource', resource],
    lines: [
      ...factLines(`${resetQuestion({entity, resource})}:`, Object.fromEntries(levels)),
      ...(bucket?.limits.some(({quota}) => quota) ? ['A quota starts a new period, without what was topped up.'] : []),
      'Recorded usage does not change.',
    ],
    perform: async () => (await resetBucket(namespace, {entity, resource})).lines,
  }
}

function levelChange({level, capacity}: LimitLevel, unit: string | undefined): string {
  const text = (tokens: number) =>
    unit === undefined ? formatNumber(tokens, 'down') : formatTokens(Math.floor(tokens), unit)
  return level === capacity ? `${text(level)}, full already` : `${text(level)} → ${text(capacity)}`
}
