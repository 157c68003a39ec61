import {Throttled, TransactionCancelled, TransactionConflict, Unavailable} from '../../dynamo/errors.js'
import type {StoredBucket} from '../../schema/bucket-record.js'
import type {NamespaceTable} from '../table/table.js'
import {isRefused, newRequestToken, type TransactItem, transact} from '../table/transact.js'
import {planBucket, type SeenBucket} from './plan.js'
import {rewriteStoredBucket} from './rewrite.js'

/**
 * Writes several shards together or none of them; false when another client has written in between. Of all attempts at
 * most one is applied, whenever they arrive, and none after the answer false (decision 26). `seen` is one of the shards
 * as the write has to find it: refilled at the same instant and with the same revision.
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
  // An attempt without an answer may still arrive. Once a shard was refilled anew, it is refused; sent again after that, the
  // transaction is recognised by its token if it was applied before, and otherwise refused for good.
  await moveRefillInstant(table, seen)
  try {
    await transact(table, items, {token})
    return true
  } catch (error) {
    if (isRefused(error)) return false
    throw asOutage(error)
  }
}

/** Whether another client was faster: the same can be planned again. */
const isContended = (error: unknown): boolean =>
  error instanceof TransactionCancelled && (error.hasConditionFailure || (error.isPassing && !error.isThrottling))

/** Whatever keeps a transaction from being carried out for long is an outage to callers. */
function asOutage(error: unknown): unknown {
  const isPassing = error instanceof TransactionCancelled && error.isPassing
  return isPassing || error instanceof TransactionConflict ? new Throttled('TransactWriteItems', error) : error
}

/** Refills a shard, unless it was refilled or its limits were changed since it was seen. */
async function moveRefillInstant(table: NamespaceTable, seen: SeenBucket): Promise<void> {
  const {limitsRevision, state} = seen.record
  const stored: StoredBucket = {...seen, kind: 'bucket'}
  const outcome = await rewriteStoredBucket(table, stored, (current, nowMs) => {
    const {record} = current
    if (record.state.refilledAtMs !== state.refilledAtMs || record.limitsRevision !== limitsRevision) return undefined
    // At least by a millisecond, and also if the clock is behind.
    return {plan: planBucket(current, Math.max(nowMs, state.refilledAtMs + 1)), write: {amounts: new Map()}}
  })
  if (outcome === 'contended')
    throw new Unavailable('TransactWriteItems', true, new Error('the bucket changes faster than it can be read'))
}
