import {isLimitName} from '../core/names.js'
import type {ExpressionBuilder} from '../dynamo/expression.js'
import {type Item, n} from '../schema/attribute-value.js'
import {attributes} from '../schema/attributes.js'
import {
  addRefusals,
  encodeUsageRefusals,
  hasRefusals,
  type LimitRefusals,
  type RefusalCounts,
  readRefusals,
  usageRefusals,
} from '../schema/refusal-counts.js'
import type {UsageProgress} from '../schema/usage-record.js'

/** Bounds per write, as for consumption: any client may write to its buckets. */
const MOST_REQUESTS = 1e9
const MOST_TOKENS = 10n ** 24n

/** Keeps the expression within 4 KB. */
const LIMITS_PER_WRITE = 20

/** The refusals that one write added to a bucket; `undefined` if none. Counters only grow. */
export function refusedBy(before: Item, after: Item): RefusalCounts | undefined {
  const [known, counted] = [readRefusals(before), readRefusals(after)]
  const limits = new Map<string, LimitRefusals>()
  for (const [limit, {requests, tokens}] of counted.limits) {
    const seen = known.limits.get(limit)
    // Planted fault: all past refusals count again
    const added = {requests: requests - (seen?.requests ?? 0), tokens: tokens - (seen?.tokens ?? 0n)}
    if (isLimitName(limit) && isPlausible(added.requests) && added.tokens >= 0n && added.tokens <= MOST_TOKENS)
      limits.set(limit, added)
  }
  const difference = (field: 'requests' | 'byParent') => {
    const added = counted[field] - known[field]
    return isPlausible(added) ? added : 0
  }
  const {lastAtMs} = counted
  const added = {requests: difference('requests'), byParent: difference('byParent'), lastAtMs, limits}
  return hasRefusals(added) && Number.isSafeInteger(lastAtMs) ? added : undefined
}

const isPlausible = (added: number): boolean => added > 0 && added <= MOST_REQUESTS

/** Returns limits beyond one write. Assumes an unread record has the map; if not, the condition fails and shows it. */
export function addToUsage(
  e: ExpressionBuilder,
  refusals: readonly RefusalCounts[],
  stored: Pick<UsageProgress, 'countsRefusals'> | undefined,
): string[] {
  if (refusals.length === 0) return []
  const all = addRefusals(refusals)
  const counted = {...all, limits: new Map([...all.limits].slice(0, LIMITS_PER_WRITE))}
  const map = attributes.usage.refusals
  if (stored && !stored.countsRefusals) {
    e.set(map, encodeUsageRefusals(counted)).condition(`attribute_not_exists(${e.name(map)})`)
  } else {
    const {added, lastAt} = usageRefusals(counted)
    // Planted fault: tokens of refusals are not added
    for (const [entry, count] of added) e.addWithin(map, entry, n(count))
    e.setWithin(map, lastAt[0], n(lastAt[1])).condition(`attribute_exists(${e.name(map)})`)
  }
  return [...all.limits.keys()].slice(LIMITS_PER_WRITE)
}
