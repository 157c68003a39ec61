import type {TopConsumers} from '../../inspect/usage-top.js'
import type {UsageScope} from './usage-presenter.js'

/** What was looked at, for programs. */
export function usageResult({window, range, entity, resource}: UsageScope) {
  return {
    window,
    since: new Date(range.sinceMs).toISOString(),
    until: new Date(range.untilMs).toISOString(),
    entity: entity ?? null,
    resource: resource ?? null,
  }
}

/** The largest consumers, for programs. */
export function topResult(scope: UsageScope, by: string, {consumers, total, resources, complete}: TopConsumers) {
  const {entity: _, ...rest} = usageResult(scope)
  return {
    ...rest,
    by,
    consumers: consumers.map(({limits, ...consumer}) => ({
      ...consumer,
      limits: Array.from(limits, ([name, tokens]) => ({name, tokens})),
    })),
    total,
    resources,
    complete,
  }
}
