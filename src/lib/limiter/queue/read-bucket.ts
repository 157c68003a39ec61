import {isRetryable} from '../../dynamo/errors.js'
import {retrying} from '../../dynamo/retry.js'
import type {BucketAddress} from '../../repository/buckets/writes.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {Item} from '../../schema/attribute-value.js'
import {keys, wireKey} from '../../schema/keys.js'

/** A bucket item as it is now, `undefined` when there is none. `timeoutMs` bounds all attempts together, as of a write. */
export async function readBucket(
  {transport, name, namespace, backoff}: NamespaceTable,
  {entity, resource, shard}: BucketAddress,
  timeoutMs: number,
): Promise<Item | undefined> {
  const request = {TableName: name, Key: wireKey(keys.bucket(namespace, entity, resource, shard)), ConsistentRead: true}
  const endMs = performance.now() + timeoutMs
  const attempt = () => transport.send('GetItem', request, {timeoutMs: Math.max(1, endMs - performance.now())})
  const retryable = (error: unknown) => isRetryable(error) && performance.now() < endMs
  const {Item} = await retrying(attempt, {...backoff, retryable})
  return Item
}
