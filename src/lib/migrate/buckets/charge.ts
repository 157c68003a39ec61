import type {BucketLimit} from '../../core/buckets/bucket.js'
import {groupBy} from '../../core/group-by.js'
import {refill, shareOfRate} from '../../core/token-math.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {type TransactItem, updateItem} from '../../repository/table/transact.js'
import {type Item, n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type BucketRecord, limitAttribute} from '../../schema/bucket-record.js'
import {keyOf, wireKey} from '../../schema/keys.js'
import {
  type BucketMarks,
  type ChargedBucket,
  encodeBucketMarks,
  type LimitMark,
  MIGRATION_MARK,
} from '../../schema/migration-marks.js'
import {perLimitBalancePath} from '../layouts/old-limit-parts.js'
import {sendConditional, transactConditional} from '../records/conditional.js'
import type {MigrationContext} from '../records/finding.js'
import {balanceAt, type OldBucket, type OldLimit, type OldResidue} from './old-bucket.js'

/** Millitokens by which sums can differ, because fractions are carried between refills. */
const ROUNDING = 1n

type Charges = ReturnType<typeof computeCharges>

/** Old and new bucket are replicas, each charged the other's consumption. Millitokens; negative amounts are refunds. */
export function computeCharges(old: OldBucket, shards: readonly BucketRecord[], before: BucketMarks) {
  /** Consumption of the old bucket, in all its locations. */
  const toNew = new Map<string, bigint>()
  /** Consumption of the new bucket, charged at the location used last. */
  const toOld = new Map<string, bigint>()
  const marks = new Map<string, Map<string, LimitMark>>()
  /** A charge was computed from the new bucket's refill instant, and is wrong for any other. */
  let dependsOnRefill = false
  for (const name of new Set([...old.limits.keys(), ...old.residue.keys()])) {
    const current = sumOfShards(shards, name)
    // A limit that is no longer configured is not in the new bucket.
    if (!current) continue
    const known = before.get(name)
    const after = new Map<string, LimitMark>()
    const latest = old.limits.get(name)
    let oldConsumption = 0n
    for (const limit of latest ? [latest, ...(old.others.get(name) ?? [])] : []) {
      const mark = known?.get(limit.location)
      if (mark) oldConsumption += consumedSince(mark, limit)
      // At first only the location used last determines the balance. A location that appears later was created since.
      else if (limit === latest || known) oldConsumption += initialDeficit(limit, current)
      if (!mark) dependsOnRefill = true
      after.set(limit.location, markOf(limit, mark?.charged))
    }
    for (const residue of old.residue.get(name) ?? []) {
      oldConsumption += (known?.get(residue.location)?.oldTokens ?? 0n) - residue.tokensMilli
      after.set(residue.location, markOfResidue(residue))
    }
    // Without a counter, later passes could not distinguish a charge from consumption.
    if (latest?.countsConsumption) {
      const charged = known?.get(latest.location)?.charged
      if (!charged) dependsOnRefill = true
      const newConsumption = consumedFromNew(charged, current, latest)
      if (newConsumption !== 0n) toOld.set(name, newConsumption)
      const {consumedMilli, tokensMilli, shards: count} = current
      const mark = markOf(latest, {consumedMilli, tokensMilli: tokensMilli - oldConsumption, shards: count})
      after.set(latest.location, {...mark, oldTokens: mark.oldTokens - newConsumption})
    }
    if (oldConsumption !== 0n) toNew.set(name, oldConsumption)
    marks.set(name, after)
  }
  return {toNew, toOld, marks, dependsOnRefill}
}

/** Negative: refunded. If the bucket expired and was recreated full, its whole count is new. In doubt, no refund. */
function consumedSince(mark: LimitMark, {state, refilledAtMs, countsConsumption, isPerLimit}: OldLimit): bigint {
  const {tokensMilli, consumedMilli, capacityMilli, refillAmountMilli, refillPeriodMs} = state
  const elapsedMs = Math.max(0, refilledAtMs - mark.oldRefilledAtMs)
  const unused = refill(state, {tokensMilli: mark.oldTokens, remainder: 0n}, elapsedMs).tokensMilli
  const missing = unused > tokensMilli ? unused - tokensMilli : 0n
  if (!countsConsumption || mark.oldConsumed === undefined) return missing

  const consumed = consumedMilli - mark.oldConsumed
  const earned = (BigInt(elapsedMs) * refillAmountMilli) / BigInt(refillPeriodMs) + ROUNDING
  const couldBeSame = tokensMilli <= mark.oldTokens + earned - consumed
  const couldBeNew = consumedMilli >= 0n && tokensMilli + consumedMilli <= capacityMilli + earned
  // A client that writes whole items may undo zael's charge, which leaves too much in the same bucket.
  if (consumed >= 0n) return couldBeSame || isPerLimit || !couldBeNew ? consumed : consumedMilli
  // Buckets expire long after they are full, so a lower count then means a new bucket rather than a refund.
  const couldHaveExpired = elapsedMs > 0 && unused >= capacityMilli
  const showsRefund = couldBeSame && tokensMilli >= mark.oldTokens - consumed
  if (showsRefund && !(couldHaveExpired && couldBeNew)) return consumed
  return couldBeNew ? consumedMilli : missing
}

interface CurrentLimit extends ChargedBucket {
  readonly refilledAtMs: number
  readonly capacityMilli: bigint
  /** Millitokens that the shards lack at an instant. No shard is refilled backwards in time. */
  readonly deficitAt: (atMs: number) => bigint
}

function sumOfShards(shards: readonly BucketRecord[], name: string): CurrentLimit | undefined {
  const [first] = shards
  const limit = first?.state.limits.get(name)
  if (!first || !limit) return undefined
  const parts = shards.flatMap(({shard, state: {limits, refilledAtMs}}) => {
    const whole = limits.get(name)
    if (!whole) return []
    return [{state: {...whole, ...shareOfRate(name, whole, shard, first.shardCount)}, refilledAtMs}]
  })
  const sum = (amountOf: (part: (typeof parts)[0]) => bigint) =>
    parts.reduce((total, part) => total + amountOf(part), 0n)
  return {
    refilledAtMs: first.state.refilledAtMs,
    tokensMilli: sum(({state}) => state.tokensMilli),
    consumedMilli: sum(({state}) => state.consumedMilli),
    capacityMilli: limit.capacityMilli,
    shards: parts.length,
    deficitAt: atMs => sum(part => part.state.capacityMilli - balanceAt(part, atMs).tokensMilli),
  }
}

/** The old bucket's deficit when a client created the new one full. The new one's refills since show when. */
function initialDeficit(limit: OldLimit, current: CurrentLimit): bigint {
  const createdMs = createdAtMs(current, limit, current.refilledAtMs)
  const deficit = limit.state.capacityMilli - balanceAt(limit, createdMs).tokensMilli
  return deficit > 0n ? deficit : 0n
}

/** When a bucket with this balance and consumption was created full. */
function createdAtMs(
  {tokensMilli, consumedMilli, capacityMilli}: Pick<CurrentLimit, 'tokensMilli' | 'consumedMilli' | 'capacityMilli'>,
  {state: {refillAmountMilli, refillPeriodMs}}: OldLimit,
  refilledAtMs: number,
): number {
  const earned = tokensMilli + consumedMilli - capacityMilli
  return earned > 0n ? refilledAtMs - Number((earned * BigInt(refillPeriodMs)) / refillAmountMilli) : refilledAtMs
}

function consumedFromNew(charged: ChargedBucket | undefined, current: CurrentLimit, limit: OldLimit): bigint {
  if (charged && current.shards >= charged.shards) {
    const consumed = current.consumedMilli - charged.consumedMilli
    if (consumed >= 0n) return consumed
    const restored = charged.tokensMilli - consumed
    const {capacityMilli} = current
    const isRefund = current.tokensMilli >= (restored < capacityMilli ? restored : capacityMilli)
    if (isRefund) return cappedRefund(consumed, limit)
  }
  // The count is unusable. Assume that the old bucket was created full, and charge the new bucket's deficit at that
  // time.
  const deficit = current.deficitAt(createdAtMs(limit.state, limit, limit.refilledAtMs))
  return deficit > 0n ? deficit : 0n
}

function cappedRefund(consumed: bigint, {state}: OldLimit): bigint {
  const room = state.capacityMilli - state.tokensMilli
  return -consumed <= room ? consumed : room > 0n ? -room : 0n
}

type BucketTarget = Pick<BucketRecord, 'namespace' | 'entity' | 'resource' | 'cascade' | 'parent'>

/** At the latest refill instant, so no limit goes back in time. Consumption starts at 0: usage already counts it. */
export function mergeBucket(old: OldBucket, target: BucketTarget): {record: BucketRecord; marks: BucketMarks} {
  const refilledAtMs = Math.max(...[...old.limits.values()].map(limit => limit.refilledAtMs))
  const limits = new Map<string, BucketLimit>()
  const marks = new Map<string, Map<string, LimitMark>>()
  for (const [name, limit] of old.limits) {
    const residues = old.residue.get(name) ?? []
    const balance = balanceAt(limit, refilledAtMs)
    const tokensMilli = residues.reduce((sum, residue) => sum + residue.tokensMilli, balance.tokensMilli)
    limits.set(name, {...limit.state, ...balance, tokensMilli, consumedMilli: 0n})
    const charged = {consumedMilli: 0n, tokensMilli, shards: 1}
    const all = [limit, ...(old.others.get(name) ?? [])]
    marks.set(
      name,
      new Map([
        ...all.map((each): [string, LimitMark] => [each.location, markOf(each, charged)]),
        ...residues.map((residue): [string, LimitMark] => [residue.location, markOfResidue(residue)]),
      ]),
    )
  }
  const record = {...target, shard: 0, shardCount: 1, ttlSeconds: old.ttlSeconds, state: {refilledAtMs, limits}}
  return {record, marks}
}

function markOf({state, refilledAtMs, countsConsumption}: OldLimit, charged: ChargedBucket | undefined): LimitMark {
  return {
    oldConsumed: countsConsumption ? state.consumedMilli : undefined,
    oldTokens: state.tokensMilli,
    oldRefilledAtMs: refilledAtMs,
    charged: countsConsumption ? charged : undefined,
  }
}

/** The new bucket includes the residue, which is never refilled or charged. */
function markOfResidue({tokensMilli}: OldResidue): LimitMark {
  return {oldConsumed: undefined, oldTokens: tokensMilli, oldRefilledAtMs: 0, charged: undefined}
}

/** Balances only: usage already counts consumption. The mark changes in the same write: no charge is repeated. */
export async function applyCharges(
  context: MigrationContext,
  stored: Item,
  old: OldBucket,
  charges: Charges,
): Promise<boolean> {
  const e = chargeNew(stored, charges)
  if (charges.toOld.size === 0) {
    return sendConditional(context, 'UpdateItem', {Key: wireKey(keyOf(stored)), ...e.update()})
  }
  const update = updateItem({TableName: context.table.name, Key: wireKey(keyOf(stored)), ...e.update()})
  return transactConditional(context, [update, ...chargeOld(context, old, charges)])
}

function chargeNew(stored: Item, {toNew, marks, dependsOnRefill}: Charges): ExpressionBuilder {
  const e = new ExpressionBuilder()
  for (const [limit, milli] of toNew) {
    e.add(limitAttribute(limit, 'tokens'), n(-milli))
    e.exists(limitAttribute(limit, 'capacity'))
  }
  e.require(MIGRATION_MARK, stored[MIGRATION_MARK])
  if (dependsOnRefill) e.require(attributes.bucket.refilledAt, stored[attributes.bucket.refilledAt])
  return e.set(MIGRATION_MARK, s(encodeBucketMarks(marks)))
}

function chargeOld(context: MigrationContext, old: OldBucket, {toOld}: Charges): TransactItem[] {
  const charged = [...toOld].map(([name, milli]) => ({name, milli, limit: old.limits.get(name) as OldLimit}))
  return [...groupBy(charged, ({limit}) => JSON.stringify(keyOf(limit.item))).values()].map(parts => {
    const e = new ExpressionBuilder()
    const sets = parts.map(({name, milli, limit}) => {
      const balance = balancePath(name, limit)
        .map(attribute => e.name(attribute))
        .join('.')
      e.condition(`attribute_exists(${balance})`)
      return `${balance} = ${balance} - ${e.value(n(milli))}`
    })
    const {item} = (parts[0] as (typeof parts)[0]).limit
    return {
      Update: {
        TableName: context.table.name,
        Key: wireKey(keyOf(item)),
        UpdateExpression: `SET ${sets.join(', ')}`,
        ...e.write(),
      },
    }
  })
}

const balancePath = (name: string, {isPerLimit, item}: OldLimit): readonly string[] =>
  isPerLimit ? perLimitBalancePath(item) : [limitAttribute(name, 'tokens')]
