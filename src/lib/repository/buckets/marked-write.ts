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
  /** `isFound`: found by its mark after a lost response, so others may have written since. */
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
        // Also without a lost answer: a proxy that repeats requests passes on the last answer.
        // Planted fault: a refused repetition counts as applied
        // Planted fault: what a proxy has delivered twice counts as refused
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

/** An earlier attempt may have arrived even if the last one did not. A lasting conflict counts as an outage. */
export function withEarlierAttempts(error: unknown, maybeApplied: boolean): unknown {
  if (mayHaveBeenApplied(error)) return error
  const isOutage = isUnavailability(error) || error instanceof TransactionConflict
  if (isOutage && maybeApplied) return new Unavailable('UpdateItem', true, error)
  if (error instanceof TransactionConflict) return new Throttled('UpdateItem', error)
  if (maybeApplied && typeof error === 'object' && error !== null) inDoubt.add(error)
  return error
}
