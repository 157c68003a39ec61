import {Unavailable} from '../../dynamo/errors.js'
import {pause} from '../../dynamo/retry.js'
import type {Item} from '../../schema/attribute-value.js'
import {type BucketRecord, decodeBucket} from '../../schema/bucket-record.js'
import type {NamespaceTable} from '../table/table.js'
import {sendMarked, type WriteOutcome, withEarlierAttempts} from './marked-write.js'
import {planBucket} from './plan.js'
import {type BucketUpdate, carriesMark, markIn, plannedUpdate, type WriteMark} from './writes.js'

/** The part of a write's condition that another write can change, so that no attempt is applied any more. */
export type WriteBasis =
  | {readonly kind: 'revision'; readonly revision: string | undefined}
  /** Refilled no later than this, in epoch ms. */
  | {readonly kind: 'refill'; readonly latestMs: number}
  | {readonly kind: 'absence'}

/** A charge or refund: at most one attempt may be applied, whenever it arrives (decision 26). */
export interface GuardedWrite {
  readonly update: (mark: WriteMark) => BucketUpdate
  readonly basis: WriteBasis
}

interface GuardedWriteOptions {
  readonly slotMark: string | undefined
  readonly nextMark: () => WriteMark
  readonly timeoutMs: number
}

const MOST_TRIES = 20

/** Sends until the outcome is known. If a repetition is refused too, moving the basis rules out the first attempt. */
export async function sendGuarded(
  table: NamespaceTable,
  write: GuardedWrite,
  mark: WriteMark,
  options: GuardedWriteOptions,
): Promise<WriteOutcome> {
  const {timeoutMs, slotMark} = options
  const {update, basis} = write
  // Planted fault: a write on a bucket that was not seen is repeated
  const repetition = basis.kind === 'refill' ? 'read' : () => update({...mark, repeats: {slotMark}})
  const outcome = await sendMarked(table, update(mark), mark, {timeoutMs, repetition})
  // Planted fault: a first try that may still arrive is not ruled out
  if (outcome.applied || !outcome.isInDoubt) return outcome
  try {
    return await ruleOut(table, basis, mark, outcome.item, options)
  } catch (error) {
    throw withEarlierAttempts(error, true)
  }
}

/** Still in doubt only without a bucket, or if another process may have overwritten the attempt's mark. */
async function ruleOut(
  table: NamespaceTable,
  basis: WriteBasis,
  mark: WriteMark,
  item: Item | undefined,
  {slotMark, nextMark, timeoutMs}: GuardedWriteOptions,
): Promise<WriteOutcome> {
  let current = item
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    // Planted fault: a first try that arrives while it is ruled out counts as refused
    if (carriesMark(current, mark)) return {applied: true, item: current as Item, isFound: true}
    const stored = current && decodeBucket(current)
    const inSlot = markIn(current, mark.slot)
    if (stored?.kind !== 'bucket') return {applied: false, item: current, isInDoubt: true}
    const isInDoubt = basis.kind !== 'refill' && inSlot !== slotMark
    if (hasMoved(basis, stored.record)) return {applied: false, item: current, isInDoubt}
    const latestMs = basis.kind === 'refill' ? basis.latestMs : 0
    // Planted fault: the refill instant of a bucket that was not seen is not moved beyond a first try
    const plan = planBucket(stored, Math.max(table.clock(), latestMs + 1))
    // Guarded by the slot as well, to notice an attempt that arrives just now.
    const fence = {...nextMark(), repeats: {slotMark: inSlot}}
    const update = plannedUpdate(table, plan, {amounts: new Map(), isExact: true}, fence)
    const outcome = await sendMarked(table, update, fence, {timeoutMs})
    if (outcome.applied) return {applied: false, item: outcome.item, isInDoubt}
    current = outcome.item
    await pause(tries, table.backoff)
  }
  throw new Unavailable('UpdateItem', true, new Error('the bucket changes faster than it can be read'))
}

function hasMoved(basis: WriteBasis, {limitsRevision, state}: BucketRecord): boolean {
  if (basis.kind === 'revision') return limitsRevision !== basis.revision
  return basis.kind === 'absence' || state.refilledAtMs > basis.latestMs
}
