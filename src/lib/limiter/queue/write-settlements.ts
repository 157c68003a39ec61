import {type Amounts, neededUntilSeconds, sumAmounts} from '../../core/buckets/bucket.js'
import {hasOverflowed} from '../../core/buckets/fullness.js'
import {isSamePeriod, type QuotaPeriod} from '../../core/buckets/kind-refill.js'
import {divideByRoom} from '../../core/buckets/shards.js'
import {Throttled, Unavailable} from '../../dynamo/errors.js'
import {adjustUpdate} from '../../repository/buckets/adjust-write.js'
import {mayHaveBeenApplied} from '../../repository/buckets/marked-write.js'
import {ceilingOf, planBucket} from '../../repository/buckets/plan.js'
import {readShards} from '../../repository/buckets/split.js'
import {plannedUpdate, type WriteMark} from '../../repository/buckets/writes.js'
import {type BucketRecord, decodeBucket} from '../../schema/bucket-record.js'
import type {ChargedItem} from '../request/grant.js'
import {requestCount} from '../request/pending-request.js'
import type {BucketItem} from './bucket-item.js'
import {shareOfRecord} from './known-bucket.js'
import {chargesOf, type FailedWrite, type Settlement} from './settlements.js'

const MOST_TRIES = 20

/** Part of a refund that another shard has room for. */
interface OthersPart {
  readonly shard: number
  readonly amounts: Amounts
  readonly charged: ChargedItem
}

/**
 * Writes pending settlements in one call, unless they differ in incarnation or quota period, or only count. Returns the
 * writes that failed; at most the last of them may have been applied.
 */
export async function writeSettlements(item: BucketItem, settlements: readonly Settlement[]): Promise<FailedWrite[]> {
  const counted = settlements.filter(({isBypassed}) => isBypassed)
  const taken = settlements.filter(({isBypassed}) => !isBypassed)
  const groups = [counted, ...byIncarnation(taken)].filter(each => each.length > 0)
  const failed: FailedWrite[] = []
  for (const [at, group] of groups.entries()) {
    const others: OthersPart[] = []
    try {
      await writeGroup(item, group, others)
      finish(item, group, others)
    } catch (error) {
      if (!mayHaveBeenApplied(error)) {
        failed.push({settlements: group, error})
        continue
      }
      // Another write would replace the mark that shows whether this one was applied.
      const unwritten = groups.slice(at + 1).flat()
      const notSent = new Unavailable('UpdateItem', false, error)
      if (unwritten.length > 0) failed.push({settlements: unwritten, error: notSent})
      return [...failed, {settlements: group, error, onApplied: () => finish(item, group, others)}]
    }
  }
  return failed
}

/** Resolves written settlements, after their refunds to other shards. */
function finish(item: BucketItem, group: readonly Settlement[], others: readonly OthersPart[]): void {
  const written = others.map(({shard, amounts, charged}) =>
    item.services.refund({...charged, address: {...item.address, shard}, heldMilli: amounts, requests: 0}),
  )
  // Not awaited here: the requests of this shard need not wait for another.
  if (written.length > 0) void Promise.all(written).then(() => resolveAll(group))
  else resolveAll(group)
}

function resolveAll(settlements: readonly Settlement[]): void {
  for (const {resolve} of settlements) resolve()
}

function returnedPeriods({amounts, periods, isBypassed}: Settlement): [string, QuotaPeriod][] {
  if (isBypassed) return []
  return [...periods].filter(([name]) => (amounts.get(name) ?? 0n) < 0n)
}

/** Charges join the first group: they are written whatever the incarnation. */
function byIncarnation(settlements: readonly Settlement[]): Settlement[][] {
  const groups = new Map<string, Settlement[]>()
  for (const settlement of settlements.filter(returnsTokens)) {
    const key = JSON.stringify([settlement.incarnation, ...returnedPeriods(settlement)])
    groups.set(key, [...(groups.get(key) ?? []), settlement])
  }
  const [first = [], ...others] = groups.values()
  return [[...first, ...settlements.filter(settlement => !returnsTokens(settlement))], ...others]
}

const returnsTokens = ({amounts, requests}: Settlement): boolean =>
  requests < 0 || [...amounts.values()].some(milli => milli < 0n)

/** Drops settlements of a bucket or limit that is gone. Adds the refunds for other shards to `others`. */
async function writeGroup(item: BucketItem, settlements: readonly Settlement[], others: OthersPart[]): Promise<void> {
  const {table, address, bucket} = item
  const isBypassed = settlements.every(settlement => settlement.isBypassed)
  const periods = new Map(settlements.flatMap(returnedPeriods))
  const charges = chargesOf(settlements)
  let returning = settlements.find(returnsTokens)
  const moved = new Map<string, bigint>()
  let isThere = (_name: string) => true
  // Without the slot, a lost first try of a refund looks like an applied one, and a charge may be repeated in vain.
  const isRetry = settlements.some(({failures}) => failures !== undefined)
  // Planted fault: a refund to an unread bucket is written without a read
  if ((returning || isRetry) && !bucket.isSlotKnown) await item.read()
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const lapsed = new Set([...lapsedIn(periods, bucket.lastRecord), ...becameQuotas(settlements, bucket.lastRecord)])
    // Don't repeat a refund that may be applied, nor refund to another bucket. Charges remain due.
    // Planted fault: an uncertain refund drops the charges batched with it
    const due = returning ? sumAmounts([...settlements, {amounts: moved}]) : charges
    const requests = returning ? requestCount(settlements) : 0
    const changes = new Map<string, bigint>()
    for (const [name, sum] of due) {
      const milli = lapsed.has(name) ? (charges.get(name) ?? 0n) : sum
      if (milli !== 0n && isThere(name)) changes.set(name, milli)
    }
    // Charges offset refunds only if these are applied: a write without a change shows whether they are.
    const isSetOff = returning !== undefined && !isBypassed && charges.size > 0
    if (changes.size === 0 && requests === 0 && !isSetOff) return
    const current = new Map([...periods].filter(([name]) => !lapsed.has(name)))
    const charged = returning && {...returning, periods: current}
    const highestMilli = charged && (await leaveToOthers(item, charged, changes, moved, others))
    const {limitsRevision, validUntilMs} = bucket.lastRecord ?? {}
    const {slotMark} = bucket
    // Planted fault: a refund goes to a newer incarnation of the bucket
    const target = returning && {slotMark, incarnation: returning.incarnation, periods: current, validUntilMs}
    const returns = target && {...target, highestMilli}
    const ttlSeconds = isBypassed ? undefined : expiryForDebt(item, changes)
    const options = {limitsRevision, ttlSeconds, requests, returns, isBypassed}
    const update = (mark: WriteMark) => adjustUpdate(table, address, changes, mark, options)
    const {outcome} = await item.write({update, basis: {kind: 'revision', revision: limitsRevision}})
    if (outcome.applied) {
      if (!isBypassed) await settleOverflow(item, changes)
      return
    }
    const stored = outcome.item && decodeBucket(outcome.item)
    if (stored?.kind !== 'bucket') return
    // Never refund to a quota that may have been reset.
    const isOther = !isBypassed && (stored.record.unsupported || stored.record.incarnation !== returning?.incarnation)
    // Planted fault: an uncertain refund is repeated
    if (returning && (outcome.isInDoubt || isOther)) returning = undefined
    isThere = name => stored.record.state.limits.has(name)
  }
  throw new Throttled('UpdateItem', new Error('the bucket changes faster than it can be read'))
}

/**
 * After a split, a shard only has room for its part of a quota, but may have given more before. Moves the excess from
 * `changes` to `others` that have room. Resolves to the highest balance that each refund still fits in.
 */
async function leaveToOthers(
  {table, address, bucket, services}: BucketItem,
  charged: ChargedItem,
  changes: Map<string, bigint>,
  moved: Map<string, bigint>,
  others: OthersPart[],
): Promise<ReadonlyMap<string, bigint>> {
  const highestMilli = new Map<string, bigint>()
  const {lastRecord} = bucket
  const {shardCount = 1, state} = lastRecord ?? {}
  if (!lastRecord || charged.isBypassed || shardCount === 1 || shardCount > services.settings.maxShards)
    return highestMilli
  let shards: ReadonlyMap<number, BucketRecord> | undefined
  for (const [name, milli] of changes) {
    const [period, limit] = [charged.periods.get(name), state?.limits.get(name)]
    if (milli > 0n || !period || !limit) continue
    const nowMs = table.clock()
    const fitsIn = ceilingOf(name, limit, lastRecord, nowMs) + milli
    const excess = limit.tokensMilli - fitsIn
    if (excess <= 0n) highestMilli.set(name, fitsIn)
    else {
      shards ??= await readShards(table, address.entity, address.resource, shardCount)
      const siblings = [...shards.values()].filter(
        ({shard, incarnation}) => shard !== address.shard && incarnation === charged.incarnation,
      )
      const rooms = siblings.map(record => roomFor(name, period, record, nowMs))
      // Planted fault: a shard keeps a refund above its ceiling
      const parts = divideByRoom(excess < -milli ? excess : -milli, rooms)
      for (const [at, part] of parts.entries())
        if (part > 0n)
          others.push({shard: (siblings[at] as BucketRecord).shard, amounts: new Map([[name, part]]), charged})
      const sum = parts.reduce((total, part) => total + part, 0n)
      moved.set(name, (moved.get(name) ?? 0n) + sum)
      changes.set(name, milli + sum)
      if (sum >= excess) highestMilli.set(name, fitsIn + sum)
    }
  }
  return highestMilli
}

function roomFor(name: string, period: QuotaPeriod, record: BucketRecord, nowMs: number): bigint {
  const limit = record.state.limits.get(name)
  if (!limit || !isSamePeriod(period, limit, record.state.refilledAtMs)) return 0n
  const room = ceilingOf(name, limit, record, nowMs) - limit.tokensMilli
  return room > 0n ? room : 0n
}

function lapsedIn(periods: ReadonlyMap<string, QuotaPeriod>, record: BucketRecord | undefined): string[] {
  if (!record) return []
  const {limits, refilledAtMs} = record.state
  return [...periods].flatMap(([name, period]) => (isSamePeriod(period, limits.get(name), refilledAtMs) ? [] : [name]))
}

/** Refunded limits that became quotas after the charge: the quota's allowance did not give the tokens. */
function becameQuotas(settlements: readonly Settlement[], record: BucketRecord | undefined): string[] {
  const isQuota = (name: string) => record?.state.limits.get(name)?.kind?.quota !== undefined
  return settlements.flatMap(({amounts, periods, isBypassed}) =>
    [...amounts].flatMap(([name, milli]) =>
      milli < 0n && !isBypassed && !periods.has(name) && isQuota(name) ? [name] : [],
    ),
  )
}

/** Moves the refill instant of an overflowed bucket, so that the overflow stays lost (decision 10). Best effort. */
async function settleOverflow(item: BucketItem, taken: Amounts): Promise<void> {
  const {table, bucket} = item
  const {state} = bucket
  const nowMs = table.clock()
  if (!state?.exists || state.seen.record.unsupported || !hasOverflowed(shareOfRecord(state.seen.record), taken, nowMs))
    return
  const plan = planBucket(state.seen, nowMs, undefined, {taken})
  const update = (mark: WriteMark) => plannedUpdate(table, plan, {amounts: new Map()}, mark)
  await item.write({update, basis: {kind: 'revision', revision: state.seen.record.limitsRevision}}).catch(() => {})
}

/** Epoch seconds to keep a bucket in debt: expiry must not forgive it. `undefined`: the stored expiry suffices. */
function expiryForDebt({table, bucket, services}: BucketItem, deltas: Amounts): number | undefined {
  const record: BucketRecord | undefined = bucket.state?.exists ? bucket.state.seen.record : undefined
  if (record?.ttlSeconds === undefined) return undefined
  const charged = [...shareOfRecord(record).limits].map(([name, limit]) => ({
    ...limit,
    tokensMilli: limit.tokensMilli - (deltas.get(name) ?? 0n),
  }))
  const needed = neededUntilSeconds(charged, services.settings.bucketTtlMultiplier, table.clock())
  return charged.some(limit => limit.tokensMilli < 0n) && needed > record.ttlSeconds ? needed : undefined
}
