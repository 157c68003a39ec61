import {classifyError} from '../../dynamo/classify.js'
import {
  Aborted,
  ConditionFailed,
  isUnavailability,
  Throttled,
  TransactionConflict,
  Unavailable,
} from '../../dynamo/errors.js'
import {type Backoff, DEFAULT_ATTEMPTS, pause} from '../../dynamo/retry.js'
import type {Item} from '../../schema/attribute-value.js'
import {type BucketRecord, decodeBucket} from '../../schema/bucket-record.js'
import type {NamespaceTable, Table} from '../table/table.js'
import {planBucket} from './plan.js'
import {type BucketUpdate, carriesMark, markIn, plannedUpdate, type WriteMark} from './writes.js'

export type WriteOutcome =
  /** `isFound`: the item carries the mark of a write whose response was lost. Others may have written since. */
  | {readonly applied: true; readonly item: Item; readonly isFound?: true}
  /** Refused. `isInDoubt`: an earlier, unanswered attempt may have been applied and its mark overwritten since. */
  | {readonly applied: false; readonly item: Item | undefined; readonly isInDoubt: boolean}

interface MarkedWriteOptions {
  /** Ends the wait; a write in flight may still be applied. */
  signal?: AbortSignal | undefined
  /** Bounds all attempts together. */
  timeoutMs?: number
  /** Next try after one that may have been applied; `read` if both could apply. Default: `update`, if idempotent. */
  repetition?: 'read' | (() => BucketUpdate)
}

/**
 * Sends one marked write, with retries, until its outcome is known. An item that already carries the mark shows that an
 * earlier attempt was applied (S6). Throws if the outcome stays unknown; see `mayHaveBeenApplied`.
 */
export async function sendMarked(
  table: Table,
  update: BucketUpdate,
  mark: WriteMark,
  options: MarkedWriteOptions = {},
): Promise<WriteOutcome> {
  const {attempts = DEFAULT_ATTEMPTS} = table.backoff
  const {signal, timeoutMs, repetition} = options
  const deadlineMs = timeoutMs === undefined ? Infinity : performance.now() + timeoutMs
  let leftMs = timeoutMs
  let maybeApplied = false
  let next = update
  for (let attempt = 0; ; attempt++) {
    try {
      const sending = {signal, timeoutMs: leftMs}
      if (maybeApplied && repetition === 'read') {
        const {TableName, Key} = update
        const {Item} = await table.transport.send('GetItem', {TableName, Key, ConsistentRead: true}, sending)
        if (Item && carriesMark(Item, mark)) return {applied: true, item: Item, isFound: true}
        return {applied: false, item: Item, isInDoubt: true}
      }
      const answer = await table.transport.send('UpdateItem', next, sending)
      return {applied: true, item: answer.Attributes ?? {}}
    } catch (error) {
      if (error instanceof ConditionFailed) {
        const {oldItem} = error
        // Also without a lost response: a proxy that repeats requests returns the last response.
        // Planted fault: a refused repetition counts as applied
        // Planted fault: a write that a proxy delivers twice counts as refused
        if (oldItem && carriesMark(oldItem, mark)) return {applied: true, item: oldItem, isFound: true}
        return {applied: false, item: oldItem, isInDoubt: maybeApplied}
      }
      if (error instanceof Unavailable && error.maybeApplied && !maybeApplied) {
        maybeApplied = true
        if (typeof repetition === 'function') next = repetition()
      }
      const isTransient = isUnavailability(error) || error instanceof TransactionConflict
      const isOver = signal?.aborted || performance.now() >= deadlineMs
      if (!isTransient || attempt + 1 >= attempts || isOver) throw withEarlierAttempts(error, maybeApplied)
    }
    await pause(attempt, untilDeadline(table.backoff, deadlineMs), signal).catch(error => {
      throw classifyError(signal?.reason ?? error, 'UpdateItem', {signal, sent: maybeApplied})
    })
    if (timeoutMs === undefined) continue
    leftMs = deadlineMs - performance.now()
    // A deadline that passes between two attempts is an outage, like one during an attempt.
    if (leftMs <= 0) throw new Unavailable('UpdateItem', maybeApplied, new Error(`no response within ${timeoutMs} ms`))
  }
}

function untilDeadline(backoff: Backoff, deadlineMs: number): Backoff {
  const sleep: Backoff['sleep'] = (ms, signal) =>
    backoff.sleep(Math.max(0, Math.min(ms, deadlineMs - performance.now())), signal)
  return {...backoff, sleep}
}

/** Errors of writes that an earlier attempt may have applied. */
const inDoubt = new WeakSet<object>()

export function mayHaveBeenApplied(error: unknown): boolean {
  if (error instanceof Unavailable || error instanceof Aborted) return error.maybeApplied
  return typeof error === 'object' && error !== null && inDoubt.has(error)
}

/** An earlier attempt may have arrived even if the last one did not. A lasting conflict counts as an outage. */
function withEarlierAttempts(error: unknown, maybeApplied: boolean): unknown {
  if (mayHaveBeenApplied(error)) return error
  const isOutage = isUnavailability(error) || error instanceof TransactionConflict
  if (isOutage && maybeApplied) return new Unavailable('UpdateItem', true, error)
  if (error instanceof TransactionConflict) return new Throttled('UpdateItem', error)
  if (maybeApplied && typeof error === 'object' && error !== null) inDoubt.add(error)
  return error
}

/** The part of a write's condition that another write can change to rule out every pending attempt. */
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
  // Planted fault: a write on an unread bucket is repeated
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
export async function ruleOut(
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
    const isInDoubt = inSlot !== slotMark && (basis.kind !== 'refill' || isOfOther(inSlot, mark))
    if (hasMoved(basis, stored.record)) return {applied: false, item: current, isInDoubt}
    const latestMs = basis.kind === 'refill' ? basis.latestMs : 0
    // Planted fault: the refill instant of an unread bucket is not moved past a first try
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

/** Of another process with the same slot. */
const isOfOther = (inSlot: string | undefined, {upTo = ''}: WriteMark): boolean =>
  inSlot !== undefined && !inSlot.startsWith(upTo.slice(0, -1))

function hasMoved(basis: WriteBasis, {limitsRevision, state}: BucketRecord): boolean {
  if (basis.kind === 'revision') return limitsRevision !== basis.revision
  return basis.kind === 'absence' || state.refilledAtMs > basis.latestMs
}
