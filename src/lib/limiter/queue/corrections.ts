import {type Amounts, neededUntilSeconds, sumAmounts} from '../../core/buckets/bucket.js'
import {hasOverflowed} from '../../core/buckets/fullness.js'
import {isSamePeriod, type QuotaPeriod} from '../../core/buckets/kind-refill.js'
import {Throttled} from '../../dynamo/errors.js'
import {adjustUpdate} from '../../repository/buckets/adjust-write.js'
import type {GuardedWrite} from '../../repository/buckets/guarded-write.js'
import type {WriteOutcome} from '../../repository/buckets/marked-write.js'
import {planBucket} from '../../repository/buckets/plan.js'
import {type BucketAddress, plannedUpdate, type WriteMark} from '../../repository/buckets/writes.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import {type BucketRecord, decodeBucket} from '../../schema/bucket-record.js'
import {requestCount} from '../request/pending-request.js'
import {type KnownBucket, shareOfRecord} from './known-bucket.js'
import {type Correction, chargesOf} from './riders.js'

const MOST_TRIES = 20

interface CorrectedItem {
  readonly table: NamespaceTable
  readonly address: BucketAddress
  readonly bucket: Pick<KnownBucket, 'state' | 'slotMark' | 'isSlotKnown' | 'lastRecord'>
  readonly ttlMultiplier: number
  readonly read: () => Promise<void>
  readonly write: (write: GuardedWrite) => Promise<WriteOutcome>
}

/** Writes pending settlements in one call, unless they differ in incarnation or quota period, or only count. */
export async function writeCorrections(item: CorrectedItem, corrections: readonly Correction[]): Promise<void> {
  const counted = corrections.filter(({isBypassed}) => isBypassed)
  const taken = corrections.filter(({isBypassed}) => !isBypassed)
  for (const group of [counted, ...byIncarnation(taken)].filter(each => each.length > 0)) {
    try {
      await writeGroup(item, group)
      for (const correction of group) correction.resolve()
    } catch (error) {
      for (const correction of group) correction.reject(error)
    }
  }
}

function returnedPeriods({amounts, periods, isBypassed}: Correction): [string, QuotaPeriod][] {
  if (isBypassed) return []
  return [...periods].filter(([name]) => (amounts.get(name) ?? 0n) < 0n)
}

/** Charges join the first group: they are written whatever the incarnation. */
function byIncarnation(corrections: readonly Correction[]): Correction[][] {
  const groups = new Map<string, Correction[]>()
  for (const correction of corrections.filter(returnsTokens)) {
    const key = JSON.stringify([correction.incarnation, ...returnedPeriods(correction)])
    groups.set(key, [...(groups.get(key) ?? []), correction])
  }
  const [first = [], ...others] = groups.values()
  return [[...first, ...corrections.filter(correction => !returnsTokens(correction))], ...others]
}

const returnsTokens = ({amounts, requests}: Correction): boolean =>
  requests < 0 || [...amounts.values()].some(milli => milli < 0n)

/** Drops settlements of a bucket or limit that is gone. */
async function writeGroup(item: CorrectedItem, corrections: readonly Correction[]): Promise<void> {
  const {table, address, bucket} = item
  const isBypassed = corrections.every(correction => correction.isBypassed)
  let [deltas, requests] = [sumAmounts(corrections), requestCount(corrections)]
  let returning = corrections.find(returnsTokens)
  const periods = new Map(corrections.flatMap(returnedPeriods))
  // Not cached: a refund lost on its first try could not be told from an applied one.
  // Planted fault: a return to a bucket that is not cached is written without a look at it
  if (returning && !bucket.isSlotKnown) await item.read()
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const lapsed = [...dropLapsed(periods, bucket.lastRecord), ...becameQuotas(corrections, bucket.lastRecord)]
    for (const name of lapsed) {
      const charges = chargesOf(corrections).get(name)
      if (charges === undefined) deltas.delete(name)
      else if (deltas.has(name)) deltas.set(name, charges)
    }
    const changes = new Map([...deltas].filter(([, milli]) => milli !== 0n))
    // Charges offset refunds only if these are applied: a write without a change shows whether they are.
    const isSetOff = returning !== undefined && !isBypassed && chargesOf(corrections).size > 0
    if (changes.size === 0 && requests === 0 && !isSetOff) return
    const {limitsRevision, validUntilMs} = bucket.lastRecord ?? {}
    const {slotMark} = bucket
    // Planted fault: tokens are returned to a bucket that was created since
    const returns = returning && {slotMark, incarnation: returning.incarnation, periods, validUntilMs}
    const ttlSeconds = isBypassed ? undefined : expiryForDebt(item, changes)
    const options = {limitsRevision, ttlSeconds, requests, returns, isBypassed}
    const update = (mark: WriteMark) => adjustUpdate(table, address, changes, mark, options)
    const outcome = await item.write({update, basis: {kind: 'revision', revision: limitsRevision}})
    if (outcome.applied) return isBypassed ? undefined : settleOverflow(item, changes)
    const stored = outcome.item && decodeBucket(outcome.item)
    if (stored?.kind !== 'bucket') return
    // Never refund to a quota that may have been reset.
    const isOther = !isBypassed && (stored.record.unsupported || stored.record.incarnation !== returning?.incarnation)
    // Planted fault: a return in doubt is repeated
    if (returning && (outcome.isInDoubt || isOther)) {
      // Don't repeat a refund that may be applied, nor refund to another bucket. Charges remain due.
      // Planted fault: what is charged afterwards is dropped with a return in doubt
      deltas = chargesOf(corrections)
      requests = 0
      returning = undefined
    }
    deltas = new Map([...deltas].filter(([name]) => stored.record.state.limits.has(name)))
  }
  throw new Throttled('UpdateItem', new Error('the bucket changes faster than it can be read'))
}

function dropLapsed(periods: Map<string, QuotaPeriod>, record: BucketRecord | undefined): string[] {
  if (!record || periods.size === 0) return []
  const {limits, refilledAtMs} = record.state
  const lapsed = [...periods].filter(([name, period]) => !isSamePeriod(period, limits.get(name), refilledAtMs))
  for (const [name] of lapsed) periods.delete(name)
  return lapsed.map(([name]) => name)
}

/** Refunded limits that became quotas after the charge: the quota's allowance did not give the tokens. */
function becameQuotas(corrections: readonly Correction[], record: BucketRecord | undefined): string[] {
  const isQuota = (name: string) => record?.state.limits.get(name)?.kind?.quota !== undefined
  return corrections.flatMap(({amounts, periods, isBypassed}) =>
    [...amounts].flatMap(([name, milli]) =>
      milli < 0n && !isBypassed && !periods.has(name) && isQuota(name) ? [name] : [],
    ),
  )
}

/** Moves the refill instant of an overflowed bucket, so that the overflow stays lost (decision 10). Best effort. */
async function settleOverflow({table, bucket, write}: CorrectedItem, taken: Amounts): Promise<void> {
  const {state} = bucket
  const nowMs = table.clock()
  if (!state?.exists || state.seen.record.unsupported || !hasOverflowed(shareOfRecord(state.seen.record), taken, nowMs))
    return
  const plan = planBucket(state.seen, nowMs, undefined, {taken})
  const update = (mark: WriteMark) => plannedUpdate(table, plan, {amounts: new Map()}, mark)
  await write({update, basis: {kind: 'revision', revision: state.seen.record.limitsRevision}}).catch(() => {})
}

/** Epoch seconds to keep a bucket in debt: expiry must not forgive it. `undefined`: the stored expiry suffices. */
function expiryForDebt({table, bucket, ttlMultiplier}: CorrectedItem, deltas: Amounts): number | undefined {
  const record: BucketRecord | undefined = bucket.state?.exists ? bucket.state.seen.record : undefined
  if (record?.ttlSeconds === undefined) return undefined
  const charged = [...shareOfRecord(record).limits].map(([name, limit]) => ({
    ...limit,
    tokensMilli: limit.tokensMilli - (deltas.get(name) ?? 0n),
  }))
  const needed = neededUntilSeconds(charged, ttlMultiplier, table.clock())
  return charged.some(limit => limit.tokensMilli < 0n) && needed > record.ttlSeconds ? needed : undefined
}
