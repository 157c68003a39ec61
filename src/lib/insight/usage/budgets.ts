import {resetsOf} from '../../core/calendar/kind-definition.js'
import {isSessionReset, type Limit} from '../../core/limits/limit.js'
import type {BucketName} from '../../core/names.js'
import type {BucketLevels, LimitLevel} from '../../repository/buckets/view.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {isoMilliseconds, isoSeconds} from '../../schema/attribute-value.js'
import {bucketOf, bucketsOf} from '../lookup/bucket-search.js'
import {chargedAncestors, sharedCharge} from '../lookup/family-limits.js'

const DAY_MS = 86_400_000

/**
 * Quotas that requests of an entity are charged to, its own and those of its parents, if they were used in their current
 * period. By resource and name, the parents last. Read from live buckets.
 */
export async function quotaBudgets(
  repository: NamespaceRepository,
  {entity, resource}: {readonly entity?: string | undefined; readonly resource?: string | undefined},
  nowMs: number,
): Promise<QuotaBudget[]> {
  if (entity === undefined) return []
  const record = await repository.entities.get(entity)
  const budgets: QuotaBudget[] = []
  for (const bucket of await bucketsOf(repository, entity, undefined, nowMs)) {
    if (resource !== undefined && bucket.resource !== resource) continue
    const {limits, cascade} = await repository.configs.resolve({entity, resource: bucket.resource})
    budgets.push(...(await budgetsIn(repository, bucket, limits, nowMs)))
    const name = {entity, resource: bucket.resource}
    const {parents} = await chargedAncestors(repository, name, sharedCharge(record, cascade))
    for (const {entity: parent, resolution} of parents) {
      const above = await bucketOf(repository, parent, bucket.resource, nowMs)
      if (above) budgets.push(...(await budgetsIn(repository, above, resolution.limits, nowMs)))
    }
  }
  const order = (budget: QuotaBudget) => `${budget.resource} ${budget.name} ${budget.entity === entity ? 0 : 1}`
  // Stable: nearer parents stay before others.
  return budgets.sort((a, b) => (order(a) === order(b) ? 0 : order(a) < order(b) ? -1 : 1))
}

async function budgetsIn(
  repository: NamespaceRepository,
  bucket: BucketLevels,
  limits: readonly Limit[],
  nowMs: number,
): Promise<QuotaBudget[]> {
  const {entity, resource, bypassedUntil} = bucket
  const budgets: QuotaBudget[] = []
  for (const level of bucket.limits) {
    const period = level.quota === undefined ? undefined : openPeriod(level, limits, nowMs)
    if (!period) continue
    const average = await averageUse(repository, {entity, resource}, period, nowMs)
    budgets.push({entity, resource, ...budgetOf(period, average, nowMs, bypassedUntil !== null)})
  }
  return budgets
}

interface OpenPeriod {
  readonly level: LimitLevel
  /** `undefined`: the balance does not show it. */
  readonly used: number | undefined
  readonly resetMs: number
  /** Epoch ms; `undefined` if the quota is not configured. */
  readonly sinceMs: number | undefined
  readonly isSession: boolean
}

/** `undefined` for a session that is not open. */
function openPeriod(level: LimitLevel, limits: readonly Limit[], nowMs: number): OpenPeriod | undefined {
  const {name, resetsAt, used} = level
  if (resetsAt === undefined) return undefined
  const resetMs = Date.parse(resetsAt)
  const limit = limits.find(each => each.name === name)
  const isSession = isSessionReset(limit?.reset)
  const sinceMs = isSessionReset(limit?.reset)
    ? resetMs - limit.reset.afterSeconds * 1000
    : limit && resetsOf(limit)?.lastReset(nowMs)
  return {level, used, resetMs, sinceMs, isSession}
}

interface AverageUse {
  readonly sinceMs: number
  readonly perMs: number
  /** Tokens; 0 if unknown. */
  readonly perRequest: number
}

/** Records that hold less of the use than this do not show when it began. */
const MOST_USE = 0.9

/** Since the first use, or its hour. A session begins with its first use. */
async function averageUse(
  {usage}: NamespaceRepository,
  of: {readonly entity: string; readonly resource: string},
  {level: {name}, used, sinceMs, isSession}: OpenPeriod,
  nowMs: number,
): Promise<AverageUse | undefined> {
  if (used === undefined || sinceMs === undefined || sinceMs >= nowMs) return undefined
  let [firstMs, recorded, perRequest] = [nowMs, 0, 0]
  if (used > 0) {
    for await (const record of usage.records({...of, window: 'hourly', sinceMs, untilMs: nowMs})) {
      const tokens = record.tokens.get(name) ?? 0
      const startMs = Date.parse(record.start)
      if (tokens <= 0) continue
      // Newest first: of the latest hour.
      perRequest ||= tokens / Math.max(1, record.totalEvents)
      if (isSession) break
      firstMs = Math.max(sinceMs, record.firstAtMs ?? startMs)
      // An hour that the reset divides belongs to two periods.
      if (startMs >= sinceMs) recorded += tokens
    }
  }
  const isKnown = firstMs < nowMs && recorded >= MOST_USE * used
  // After a reset of the bucket, more is recorded than its balance shows.
  return isKnown
    ? {sinceMs: firstMs, perMs: Math.max(used, recorded) / (nowMs - firstMs), perRequest}
    : {sinceMs, perMs: used / (nowMs - sinceMs), perRequest}
}

/** A quota in its current period, in whole tokens, as the schema of `zael usage show` describes it. */
export type QuotaBudget = BucketName & Readonly<ReturnType<typeof budgetOf>>

function budgetOf(
  {level: {name, level, capacity, soft}, used, resetMs, sinceMs}: OpenPeriod,
  average: AverageUse | undefined,
  nowMs: number,
  isBypassed: boolean,
) {
  const left = Math.floor(level)
  const usedUp = !soft && !isBypassed && (left <= 0 || left < (average?.perRequest ?? 0))
  const exhaustsMs =
    left > 0 && !usedUp && average && average.perMs > 0 ? nowMs + left / average.perMs : Number.POSITIVE_INFINITY
  return {
    ...{name, allowance: capacity, used: used ?? null, left, share: used === undefined ? null : used / capacity},
    since: sinceMs === undefined ? null : isoSeconds(sinceMs),
    resetsAt: isoMilliseconds(resetMs),
    daysLeft: Math.round(((resetMs - nowMs) / DAY_MS) * 10) / 10,
    averageSince: average ? isoSeconds(average.sinceMs) : null,
    exhaustsAt: exhaustsMs < resetMs ? isoSeconds(exhaustsMs) : null,
    usedUp,
  }
}
