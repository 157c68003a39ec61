import {type Amounts, expiresAtSeconds} from '../core/bucket.js'
import {adjustUpdate, carriesMark} from '../repository/buckets/writes.js'
import {decodeBucket} from '../schema/bucket-record.js'
import type {BucketWriter, Correction} from './bucket-writer.js'
import {requestsOf, total} from './fit.js'
import {shareOfRecord} from './known-bucket.js'

/** Writes all waiting corrections in one call. What concerns a bucket or limit that is gone is dropped. */
export async function sendCorrections(desk: BucketWriter, corrections: readonly Correction[]): Promise<void> {
  try {
    await writeCorrections(desk, total(corrections), requestsOf(corrections))
    for (const correction of corrections) correction.resolve()
  } catch (error) {
    for (const correction of corrections) correction.reject(error)
  }
}

async function writeCorrections(desk: BucketWriter, deltas: Map<string, bigint>, requests: number): Promise<void> {
  const {table} = desk.office
  for (;;) {
    for (const [name, milli] of deltas) if (milli === 0n) deltas.delete(name)
    if (deltas.size === 0 && requests === 0) return
    const mark = desk.office.nextMark()
    const since = desk.slotMark
    const returnsTokens = [...deltas.values()].some(milli => milli < 0n)
    const ttlSeconds = expiryWithDebt(desk, deltas)
    const update = adjustUpdate(table, desk.address, deltas, mark, {ttlSeconds, requests})
    const repetition = returnsTokens
      ? adjustUpdate(table, desk.address, deltas, mark, {ttlSeconds, requests, slotUnchanged: {since}})
      : update
    const {applied, item} = await desk.write(update, mark, repetition)
    if (applied) return desk.settleOverflow(deltas)
    if (carriesMark(item, mark)) return
    const stored = item && decodeBucket(item)
    if (stored?.kind !== 'bucket') return
    const gone = [...deltas.keys()].filter(name => !stored.record.state.limits.has(name))
    // Refused although every limit is there: a repetition that could not prove that the first try was lost.
    if (gone.length === 0) return
    for (const name of gone) deltas.delete(name)
  }
}

/** A debt must not be forgiven by expiry: where one is made, the bucket is kept until it could be repaid. */
function expiryWithDebt({known, office}: BucketWriter, deltas: Amounts): number | undefined {
  if (!known?.exists || known.seen.record.ttlSeconds === undefined) return undefined
  const {ttlSeconds} = known.seen.record
  const charged = [...shareOfRecord(known.seen.record).limits].map(([name, limit]) => ({
    ...limit,
    tokensMilli: limit.tokensMilli - (deltas.get(name) ?? 0n),
  }))
  const needed = expiresAtSeconds(charged, office.settings.bucketTtlMultiplier, office.table.clock())
  return charged.some(limit => limit.tokensMilli < 0n) && needed > ttlSeconds ? needed : undefined
}
