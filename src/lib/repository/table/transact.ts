import {valueIf} from '../../core/errors.js'
import {ConditionFailed, isRetryableWhenIdempotent, TransactionCancelled, Unavailable} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {retrying} from '../../dynamo/retry.js'
import type {OperationInput} from '../../dynamo/transport.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import {wireKey} from '../../schema/keys.js'
import type {Table} from './table.js'

export type TransactItem = NonNullable<OperationInput<'TransactWriteItems'>['TransactItems']>[number]

interface TransactOptions {
  readonly signal?: AbortSignal | undefined
  /** Token of an earlier call with the same items: if it was applied, nothing is written. Default: a new one. */
  readonly token?: string
  /** Called for an unanswered attempt: DynamoDB may apply it now or later, even if the last attempt is cancelled. */
  readonly onDoubt?: () => void
}

/** All or nothing. Resends a request whose response was lost: DynamoDB recognises the token. */
export async function transact(table: Table, items: TransactItem[], options: TransactOptions = {}): Promise<void> {
  const {signal, token = newRequestToken(table), onDoubt} = options
  const request = {TransactItems: items, ClientRequestToken: token}
  const retryable = (error: unknown) => {
    if (error instanceof Unavailable && error.maybeApplied) onDoubt?.()
    return isRetryableWhenIdempotent(error)
  }
  const send = () => table.transport.send('TransactWriteItems', request, {signal})
  await retrying(send, {...table.backoff, signal, retryable})
}

export const updateItem = ({ReturnValues: _, ...update}: OperationInput<'UpdateItem'>): TransactItem => ({
  Update: update as NonNullable<TransactItem['Update']>,
})

/** DynamoDB remembers a token for ten minutes. */
export function newRequestToken(table: Pick<Table, 'randomBytes'>): string {
  return Buffer.from(table.randomBytes(18)).toString('base64url')
}

export function putNew(table: Table, item: Item): TransactItem & {Put: object} {
  const condition = new ExpressionBuilder().absent().write()
  return {Put: {TableName: table.name, Item: item, ...condition, ReturnValuesOnConditionCheckFailure: 'ALL_OLD'}}
}

export function checkMissing(table: Table, key: Key): TransactItem {
  return {ConditionCheck: {TableName: table.name, Key: wireKey(key), ...new ExpressionBuilder().absent().write()}}
}

/** Whether the condition of the item at `place` failed; without a place, that of any item. */
export function isRefused(error: unknown, place?: number): error is TransactionCancelled {
  if (!(error instanceof TransactionCancelled)) return false
  return place === undefined ? error.hasConditionFailure : error.reasons[place]?.code === 'ConditionalCheckFailed'
}

/** `false`: a condition of the write, or of the transaction, failed. */
export function isApplied(write: Promise<unknown>): Promise<boolean> {
  const isConditionFailure = (error: unknown) => error instanceof ConditionFailed || isRefused(error)
  return write.then(() => true).catch(valueIf(isConditionFailure, false))
}
