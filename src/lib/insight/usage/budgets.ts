import {resetsOf} from '../../core/calendar/kind-definition.js'
import {isSessionReset, type Limit} from '../../core/limits/limit.js'
import type {LimitLevel} from '../../repository/buckets/view.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {bucketsOf} from '../lookup/bucket-search.js'

const DAY_MS = 86_400_000

/** A quota in its current period, in whole tokens. */
export interface QuotaBudget {
  readonly resource: string
  readonly name: string
  /** Includes top-ups. */
  readonly allowance: number
  /** More than the allowance if a soft quota is in debt. */
  readonly used: number
  readonly left: number
  readonly share: number
  /** Start of the period; `null` if the quota is not configured. */
  readonly since: string | null
  readonly resetsAt: string
  readonly daysLeft: number
  /** At the average rate of this period; `null`: not before the reset, or already used up. */
  readonly exhaustsAt: string | null
}

/** Quotas of an entity that were used in their current period, by resource and name. Read from live buckets. */
export async function quotaBudgets(
  repository: NamespaceRepository,
  {entity, resource}: {readonly entity?: string | undefined; readonly resource?: string | undefined},
  nowMs: number,
): Promise<QuotaBudget[]> {
  if (entity === undefined) return []
  const budgets: QuotaBudget[] = []
  for (const bucket of await bucketsOf(repository, entity, undefined, nowMs)) {
    const quotas = bucket.limits.filter(({quota}) => quota !== undefined)
    if (quotas.length === 0 || (resource !== undefined && bucket.resource !== resource)) continue
    const {limits} = await repository.configs.resolve({entity, resource: bucket.resource})
    for (const level of quotas) {
      const limit = limits.find(({name}) => name === level.name)
      const budget = budgetOf(level, limit, nowMs)
      if (budget) budgets.push({resource: bucket.resource, ...budget})
    }
  }
  return budgets.sort((a, b) => (`${a.resource} ${a.name}` < `${b.resource} ${b.name}` ? -1 : 1))
}

/** `undefined` for a session that is not open, and if the balance does not tell the use. */
function budgetOf(
  {name, level, capacity, resetsAt, used}: LimitLevel,
  limit: Limit | undefined,
  nowMs: number,
): Omit<QuotaBudget, 'resource'> | undefined {
  if (resetsAt === undefined || used === undefined) return undefined
  const resetMs = Date.parse(resetsAt)
  const sinceMs = limit && periodStartMs(limit, resetMs, nowMs)
  const left = Math.floor(level)
  const perMs = sinceMs === undefined || sinceMs >= nowMs ? 0 : used / (nowMs - sinceMs)
  const exhaustsMs = left > 0 && perMs > 0 ? nowMs + left / perMs : Number.POSITIVE_INFINITY
  return {
    ...{name, allowance: capacity, used, left: Math.max(0, left), share: used / capacity},
    since: sinceMs === undefined ? null : isoSeconds(sinceMs),
    resetsAt,
    daysLeft: Math.round(((resetMs - nowMs) / DAY_MS) * 10) / 10,
    exhaustsAt: exhaustsMs < resetMs ? isoSeconds(exhaustsMs) : null,
  }
}

function periodStartMs(limit: Limit, resetMs: number, nowMs: number): number | undefined {
  return isSessionReset(limit.reset) ? resetMs - limit.reset.afterSeconds * 1000 : resetsOf(limit)?.lastReset(nowMs)
}
