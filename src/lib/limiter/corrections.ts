import {adjustUpdate, carriesMark, markIn} from '../repository/bucket-writes.js'
import {decodeBucket} from '../schema/bucket-record.js'
import type {Correction, Counter} from './counter.js'
import {total} from './fit.js'

/** Writes all waiting corrections in one call. What concerns a bucket or limit that is gone is dropped. */
export async function sendCorrections(desk: Counter, corrections: readonly Correction[]): Promise<void> {
  try {
    await writeCorrections(desk, total(corrections))
    for (const correction of corrections) correction.resolve()
  } catch (error) {
    for (const correction of corrections) correction.reject(error)
  }
}

async function writeCorrections(desk: Counter, deltas: Map<string, bigint>): Promise<void> {
  const {space} = desk.office
  for (;;) {
    for (const [name, milli] of deltas) if (milli === 0n) deltas.delete(name)
    if (deltas.size === 0) return
    const mark = desk.office.nextMark()
    const since = desk.known?.exists ? markIn(desk.known.item, mark.slot) : undefined
    const returnsTokens = [...deltas.values()].some(milli => milli < 0n)
    const update = adjustUpdate(space, desk.address, deltas, mark)
    const repetition = returnsTokens ? adjustUpdate(space, desk.address, deltas, mark, {since}) : update
    const {applied, item} = await desk.write(update, mark, repetition)
    if (applied || carriesMark(item, mark)) return
    const stored = item && decodeBucket(item)
    if (stored?.kind !== 'bucket') return
    const gone = [...deltas.keys()].filter(name => !stored.record.state.limits.has(name))
    // Refused although every limit is there: a repetition that could not prove that the first try was lost.
    if (gone.length === 0) return
    for (const name of gone) deltas.delete(name)
  }
}
