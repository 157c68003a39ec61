import {shareOfLimit} from '../../core/buckets/shards.js'
import {type LimitKind, resetTarget} from '../../core/limits/limit-kind.js'
import {floorDivide, MILLI} from '../../core/token-math.js'
import {type BucketPlan, ceilingOf, type PlannedLimit, planBucket} from '../buckets/plan.js'
import {limitNames, type OperationBasis, type PlannedOperation, requireKnown} from './plan.js'

/** Fills limits, which also cancels debts, and starts a new period of quotas. What was consumed stays counted. */
export function planReset(
  named: ReadonlySet<string> | undefined,
  {shards, limits, nowMs}: OperationBasis,
): PlannedOperation {
  const plans = shards.map(seen => planBucket(seen, nowMs, limits))
  const names = limitNames(plans)
  requireKnown([...(named ?? [])], names)
  const isNamed = (name: string) => named?.has(name) ?? true
  const isWhole = [...names].every(isNamed)
  const restored = new Map<string, bigint>([...names].flatMap(name => (isNamed(name) ? [[name, 0n]] : [])))
  const filled = plans.map(plan => {
    const changes = new Map(plan.changes)
    for (const [name, before] of restored) {
      const change = plan.changes.get(name)
      if (!change || change.kind === 'remove') continue
      const [full, milli] = fill(name, change, plan)
      changes.set(name, full)
      restored.set(name, before + milli)
    }
    // A refill instant ahead of time would keep a full bucket from refilling until then; others may have been credited.
    return {...plan, changes, refilledAtMs: isWhole ? nowMs : plan.refilledAtMs}
  })
  const amounts = new Map([...restored].map(([name, milli]) => [name, Number(floorDivide(milli, MILLI))]))
  return {plans: filled, amounts, isWhole}
}

function fill(name: string, change: PlannedLimit, {seen, nowMs}: BucketPlan): [filled: PlannedLimit, milli: bigint] {
  const {record} = seen
  const stored = record.state.limits.get(name)
  // A limit that is new in the bucket starts full.
  if (!stored) return [change, 0n]
  const before = change.after.tokensMilli
  const after = {...change.after, kind: newPeriod(change.after.kind, record.shardCount, nowMs)}
  // A session starts with its next use, which restores it; until then nothing of it may be spent twice.
  if (after.kind?.quota?.session) {
    const target = resetTarget(shareOfLimit(name, after, record.shard, record.shardCount), nowMs)
    return [{...change, after}, target - before]
  }
  const tokensMilli = ceilingOf(name, after, record, nowMs)
  const creditMilli = tokensMilli - stored.tokensMilli
  return [{...change, creditMilli, after: {...after, tokensMilli, remainder: 0n}}, tokensMilli - before]
}

function newPeriod(kind: LimitKind | undefined, grantCount: number, nowMs: number): LimitKind | undefined {
  if (!kind?.quota) return kind
  const {session, resetNumber = 0} = kind.quota
  if (!session)
    return {
      ...kind,
      quota: {...kind.quota, grantCount, topUpMilli: undefined, resetNumber: resetNumber + 1, heldMs: undefined},
    }
  const endedMs = nowMs - session.lengthMs
  const ended = {...session, startMs: endedMs, appliedMs: endedMs, consumedMarkMilli: undefined}
  return {...kind, quota: {...kind.quota, session: ended, heldMs: undefined}}
}
