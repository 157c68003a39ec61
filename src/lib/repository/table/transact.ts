import {isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import {retrying} from '../../dynamo/retry.js'
import type {OperationInput} from '../../dynamo/transport.js'
import type {Table} from './table.js'

export type TransactItem = NonNullable<OperationInput<'TransactWriteItems'>['TransactItems']>[number]

/** All or nothing. The token lets DynamoDB recognise a repetition, so lost answers are simply asked for again. */
export async function transact(table: Table, items: TransactItem[], signal?: AbortSignal): Promise<void> {
  const ClientRequestToken = Buffer.from(table.randomBytes(18)).toString('base64url')
  const request = {TransactItems: items, ClientRequestToken}
  await retrying(() => table.transport.send('TransactWriteItems', request, {signal}), {
    ...table.backoff,
    signal,
    retryable: isRetryableWhenIdempotent,
  })
}
