import type {LimitState} from '../../core/buckets/bucket.js'
import {isInPeriod} from '../../core/buckets/kind-refill.js'
import {planQuotaGrant, type QuotaGrant, type QuotaSibling, shareOfLimit} from '../../core/buckets/shards.js'
import {grantCountOf, wholeRateAt} from '../../core/limits/limit-kind.js'
import {shareOf} from '../../core/token-math.js'
import type {BucketRecord} from '../../schema/bucket-record.js'

export function grantOfShard(
  name: string,
  limit: LimitState,
  records: readonly BucketRecord[],
  shard: number,
  count: number,
  nowMs: number,
): QuotaGrant {
  const siblings = records.flatMap(({state, shard: index, shardCount}): QuotaSibling[] => {
    const stored = state.limits.get(name)
    if (!stored?.kind?.quota) return []
    const share = shareOfLimit(name, stored, index, shardCount)
    const {capacityMilli} = wholeRateAt(stored, nowMs).rate
    const grantCount = grantCountOf(share, capacityMilli)
    // Planted fault: a missing shard is granted what another one holds for it
    const isCurrent = isInPeriod(stored, state.refilledAtMs, nowMs)
    return [{shard: index, tokensMilli: stored.tokensMilli, grantCount, isCurrent}]
  })
  return planQuotaGrant(siblings, shard, shareOf(wholeRateAt(limit, nowMs).rate.capacityMilli, shard, count))
}

/** A quota that a new shard gets its part of; what was bought stays with the donor. */
export function newlyGranted(limit: LimitState, grantCount: number): LimitState {
  const {kind} = limit
  if (!kind?.quota) return limit
  const session = kind.quota.session && {...kind.quota.session, consumedMarkMilli: undefined}
  const quota = {...kind.quota, grantCount, topUpMilli: undefined, ...(session && {session})}
  return {...limit, kind: {...kind, quota}}
}
