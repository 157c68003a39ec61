import {shareOfLimit} from '../../core/buckets/shards.js'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {MAX_TOKENS} from '../../core/limits/limit.js'
import {type LimitKind, resetTarget} from '../../core/limits/limit-kind.js'
import {checkLimitName} from '../../core/names.js'
import {floorDivide, MILLI} from '../../core/token-math.js'
import {type BucketPlan, ceilingOf, type PlannedLimit, planBucket} from '../buckets/plan.js'
import {type BucketOperation, limitNames, type OperationBasis, type PlannedOperation, requireKnown} from './record.js'
import {planTopUp} from './top-up.js'

export function topUpOf(amounts: Readonly<Record<string, number>>): BucketOperation {
  const entries = Object.entries(amounts)
  if (entries.length === 0) throw new InvalidInput('bucket.amount', 'A top-up needs an amount for at least one limit.')
  for (const [name, tokens] of entries) {
    checkLimitName(name)
    if (!Number.isSafeInteger(tokens) || tokens < 1 || tokens > MAX_TOKENS)
      throw new InvalidInput(
        'bucket.amount',
        `The amount of "${name}" must be a whole number from 1 to ${MAX_TOKENS}, not ${tokens}.`,
      )
  }
  return {kind: 'top_up', amounts: new Map(entries)}
}

export function resetOf(limits: readonly string[] | undefined): BucketOperation {
  if (!limits) return {kind: 'reset'}
  if (limits.length === 0)
    throw new InvalidInput('bucket.limits', 'The list of limits to reset is empty. Name at least one limit.')
  return {kind: 'reset', limits: new Set(limits.map(checkLimitName))}
}

const KEY = /^[\w.:-]{1,64}$/

/** Other clients accept the same keys. */
export function checkIdempotencyKey(key: string): string {
  if (KEY.test(key)) return key
  throw new InvalidInput('bucket.key', `${JSON.stringify(key)} is not a valid idempotency key.`, {
    hint: 'Use 1 to 64 letters, digits, and . _ : -',
  })
}

export function planOperation(operation: BucketOperation, input: OperationBasis): PlannedOperation {
  return operation.kind === 'top_up' ? planTopUp(operation.amounts, input) : planReset(operation.limits, input)
}

/** Fills limits, cancels debts and starts new quota periods. Consumption counters are unchanged. */
function planReset(named: ReadonlySet<string> | undefined, {shards, limits, nowMs}: OperationBasis): PlannedOperation {
  const plans = shards.map(seen => planBucket(seen, nowMs, limits))
  const names = limitNames(plans)
  requireKnown([...(named ?? [])], names, limits)
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
    // A future refill instant would block refill until then. Keep it if other limits may have been credited.
    return {...plan, changes, refilledAtMs: isWhole ? nowMs : plan.refilledAtMs}
  })
  // The nearest whole token: most of one that was used a second ago is still missing.
  const amounts = new Map([...restored].map(([name, milli]) => [name, Number(floorDivide(milli + MILLI / 2n, MILLI))]))
  return {plans: filled, amounts, isWhole}
}

function fill(name: string, change: PlannedLimit, {seen, nowMs}: BucketPlan): [filled: PlannedLimit, milli: bigint] {
  const {record} = seen
  const stored = record.state.limits.get(name)
  // A limit that is new in the bucket starts full.
  if (!stored) return [change, 0n]
  const before = change.after.tokensMilli
  const after = {...change.after, kind: newPeriod(change.after.kind, record.shardCount, nowMs)}
  // The next use opens the session and restores it; until then nothing of it may be spent twice.
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

interface Whose {
  readonly entity: string
  readonly resource: string
}

export function bucketMissing(entity: string, resource: string): ZaelError {
  return new ZaelError('notFound', 'bucket.missing', `Entity "${entity}" has no bucket for resource "${resource}".`, {
    hint: 'It was never used, or it has expired. The next request starts with a full bucket.',
    details: {entity, resource},
  })
}

export function bucketContended({entity, resource}: Whose): ZaelError {
  const message = `The bucket of "${entity}" for "${resource}" is written too often to be changed as a whole.`
  return new ZaelError('conflict', 'bucket.contended', message, {
    hint: 'Nothing was changed. Try again in a moment.',
    details: {entity, resource},
  })
}

export function tooManyShards({entity, resource}: Whose, shards: number, most: number): ZaelError {
  const message = `The bucket of "${entity}" for "${resource}" has ${shards} shards; at most ${most} can be changed at once.`
  return new ZaelError('conflict', 'bucket.too-many-shards', message, {
    hint: 'Nothing was changed. Send one request for this bucket through zael: it repairs the number of shards.',
    details: {entity, resource, shards, most},
  })
}

export function bucketDisabled({entity, resource}: Whose): ZaelError {
  const message = `"${entity}" has no bucket for "${resource}" yet, and every request is refused: there is nothing to top up.`
  return new ZaelError('conflict', 'bucket.disabled', message, {hint: 'Enable it first.', details: {entity, resource}})
}

export function unknownOutcome({entity, resource}: Whose, idempotencyKey: string, cause: unknown): ZaelError {
  const reason = cause instanceof Error ? `: ${cause.message}` : ''
  return new ZaelError(
    'failed',
    'bucket.unknown-outcome',
    `The bucket of "${entity}" for "${resource}" may or may not have been changed${reason}`,
    {
      hint: `Repeat it with the idempotency key ${idempotencyKey}. Then it is applied exactly once.`,
      details: {entity, resource, idempotencyKey},
      cause,
    },
  )
}
