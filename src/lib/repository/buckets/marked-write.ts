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
import type {Table} from '../table/table.js'
import {type BucketUpdate, carriesMark, type WriteMark} from './writes.js'

export type WriteOutcome =
  /** `isFound` when the mark of an attempt without an answer was found: others may have written since. */
  | {readonly applied: true; readonly item: Item; readonly isFound?: true}
  /**
   * Refused by its condition; with the current item, `undefined` when there is none. In doubt, an earlier attempt without
   * an answer may have been applied all the same: its mark may have been overwritten since.
   */
  | {readonly applied: false; readonly item: Item | undefined; readonly isInDoubt: boolean}

interface MarkedWriteOptions {
  /** Ends the waiting, not the write: one that is in flight may still be applied. */
  signal?: AbortSignal | undefined
  /** Bound of all attempts together. */
  timeoutMs?: number
  /**
   * What follows an attempt that may have been applied: another update with the same mark, or a read where none can be
   * sent without the risk that both are applied. The same update by default, for writes whose effect is the same twice.
   */
  repetition?: 'read' | (() => BucketUpdate)
}

/**
 * Sends one marked write until its outcome is known. Throttling, conflicts, outages and lost answers are retried with the
 * same mark; when the item turns out to carry the mark already, an earlier attempt was applied (S6). When the outcome stays
 * unknown, whatever ended the attempts is thrown; `mayHaveBeenApplied` says whether any of them may have arrived.
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
        // Planted fault: a refused repetition counts as applied
        if (maybeApplied && oldItem && carriesMark(oldItem, mark)) return {applied: true, item: oldItem, isFound: true}
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
    // A deadline that passes between two attempts is an outage, like one that passes during an attempt.
    if (leftMs <= 0) throw new Unavailable('UpdateItem', maybeApplied, new Error(`no answer within ${timeoutMs} ms`))
  }
}

function untilDeadline(backoff: Backoff, deadlineMs: number): Backoff {
  const sleep: Backoff['sleep'] = (ms, signal) =>
    backoff.sleep(Math.max(0, Math.min(ms, deadlineMs - performance.now())), signal)
  return {...backoff, sleep}
}

/** Errors after which an earlier attempt of the same write may have been applied. */
const inDoubt = new WeakSet<object>()

export function mayHaveBeenApplied(error: unknown): boolean {
  if (error instanceof Unavailable || error instanceof Aborted) return error.maybeApplied
  return typeof error === 'object' && error !== null && inDoubt.has(error)
}

/**
 * An earlier attempt may have arrived even if the last one certainly did not, whatever kept it from arriving. A conflict
 * that lasts is an outage: the item is held by others.
 */
export function withEarlierAttempts(error: unknown, maybeApplied: boolean): unknown {
  if (mayHaveBeenApplied(error)) return error
  const isOutage = isUnavailability(error) || error instanceof TransactionConflict
  if (isOutage && maybeApplied) return new Unavailable('UpdateItem', true, error)
  if (error instanceof TransactionConflict) return new Throttled('UpdateItem', error)
  if (maybeApplied && typeof error === 'object' && error !== null) inDoubt.add(error)
  return error
}
