import {Throttled, TransactionCancelled, TransactionConflict, Unavailable} from '../../dynamo/errors.js'
import type {StoredBucket} from '../../schema/bucket-record.js'
import type {NamespaceTable} from '../table/table.js'
import {isRefused, newRequestToken, type TransactItem, transact} from '../table/transact.js'
import {planBucket, type SeenBucket} from './plan.js'
import {rewriteStoredBucket} from './rewrite.js'

/**
 * Writes several shards together or none; false if another client wrote in between. At most one attempt is applied,
 * and none after false (decision 26). `seen`: one shard as the write must find it, by refill instant and revision.
 */
export async function writeTogether(table: NamespaceTable, items: TransactItem[], seen: SeenBucket): Promise<boolean> {
  const token = newRequestToken(table)
  let isInDoubt = false
  const onDoubt = () => {
    isInDoubt = true
  }
  try {
    await transact(table, items, {token, onDoubt})
    return true
  } catch (error) {
    if (!isContended(error)) throw asOutage(error)
  }
  // Planted fault: a first try to charge several shards that may still arrive is not ruled out
  if (!isInDoubt) return false
  // An unanswered attempt may still arrive. Moving the refill instant voids it; the token shows if it was applied.
  await moveRefillInstant(table, seen)
  try {
    await transact(table, items, {token})
    return true
  } catch (error) {
    if (isRefused(error)) return false
    throw asOutage(error)
  }
}

const isContended = (error: unknown): boolean =>
  error instanceof TransactionCancelled && (error.hasConditionFailure || (error.isPassing && !error.isThrottling))

/** Callers see a transaction that stays blocked as an outage. */
function asOutage(error: unknown): unknown {
  const isPassing = error instanceof TransactionCancelled && error.isPassing
  return isPassing || error instanceof TransactionConflict ? new Throttled('TransactWriteItems', error) : error
}

async function moveRefillInstant(table: NamespaceTable, seen: SeenBucket): Promise<void> {
  const {limitsRevision, state} = seen.record
  const stored: StoredBucket = {...seen, kind: 'bucket'}
  const outcome = await rewriteStoredBucket(table, stored, (current, nowMs) => {
    const {record} = current
    if (record.state.refilledAtMs !== state.refilledAtMs || record.limitsRevision !== limitsRevision) return undefined
    // By at least 1 ms, even if the clock is behind.
    return {plan: planBucket(current, Math.max(nowMs, state.refilledAtMs + 1)), write: {amounts: new Map()}}
  })
  if (outcome === 'contended')
    throw new Unavailable('TransactWriteItems', true, new Error('the bucket changes faster than it can be read'))
}
