import {batchGet} from '../../dynamo/batch.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryPages} from '../../dynamo/paging.js'
import type {OperationInput} from '../../dynamo/transport.js'
import {type Item, s} from '../../schema/attribute-value.js'
import {keyNames} from '../../schema/attributes.js'
import {decodeBucket, type StoredBucket} from '../../schema/bucket-record.js'
import {keys, parseItemKey} from '../../schema/keys.js'
import {readFeedback, type StoredFeedback} from '../../schema/kind-attributes.js'
import {type KeyRange, ranges} from '../../schema/ranges.js'
import {type BucketCounts, readBucketCounts} from '../../schema/refusal-counts.js'
import {readAll} from '../table/query.js'
import type {NamespaceTable, Table} from '../table/table.js'
import type {BucketAddress} from './writes.js'

export type BucketScope =
  | {readonly kind: 'namespace'}
  | {readonly kind: 'resource'; readonly resource: string}
  | {readonly kind: 'entity'; readonly entity: string}

export type ShardAddress = Pick<BucketAddress, 'entity' | 'resource' | 'shard'>

interface AddressPage {
  readonly addresses: readonly ShardAddress[]
  readonly next: Item | undefined
}

/** Uses only keys, so the index's projection does not matter. */
export function addressQuery(
  {name: TableName}: Table,
  {index, partition, prefix}: Required<KeyRange>,
  /** Exclusive start: a name, which follows the prefix. */
  after?: string | undefined,
): OperationInput<'Query'> {
  const e = new ExpressionBuilder().project(...keyNames())
  const [partitionKey, sortKey] = keyNames(index)
  e.keyCondition(`${e.name(partitionKey)} = ${e.value(s(partition))}`)
  const sk = e.name(sortKey)
  // "~" sorts after shard numbers and after every character of a name.
  if (after === undefined) e.keyCondition(`begins_with(${sk}, ${e.value(s(prefix))})`)
  else e.keyCondition(`${sk} BETWEEN ${e.value(s(`${prefix}${after}#~`))} AND ${e.value(s(`${prefix}~`))}`)
  return {TableName, IndexName: index, ...e.read()}
}

export async function readAddressPage(
  table: NamespaceTable,
  scope: BucketScope,
  {start, limit, signal}: {start: Item | undefined; limit: number; signal?: AbortSignal | undefined},
): Promise<AddressPage> {
  const query = addressQuery(table, rangeOf(table, scope))
  const input = start === undefined ? query : {...query, ExclusiveStartKey: start}
  for await (const {items, next} of queryPages(table.transport, input, {backoff: table.backoff, limit, signal})) {
    const addresses = items.flatMap(item => {
      const key = parseItemKey(item)
      return key?.record === 'bucket' ? [{entity: key.entity, resource: key.resource, shard: key.shard}] : []
    })
    return {addresses, next}
  }
  return {addresses: [], next: undefined}
}

/** Buckets with usage recorded since the start of a window, by shard 0. Reads only keys. May repeat a bucket. */
export async function* usedBuckets(
  table: NamespaceTable,
  resource: string,
  sinceStart: string,
  signal?: AbortSignal,
): AsyncGenerator<ShardAddress, void> {
  const {index, partition, prefix} = ranges.usageOfResource(table.namespace, resource)
  const between = [`${prefix}${sinceStart}`, `${prefix}~`] as const
  const e = new ExpressionBuilder().project(...keyNames())
  for await (const item of readAll(table, {index, partition, between}, e, signal)) {
    const key = parseItemKey(item)
    if (key?.record === 'usage') yield {entity: key.entity, resource, shard: 0}
  }
}

/** Request counts, and provider feedback by limit; absent where not read. */
export type CountedShard = StoredBucket & {
  readonly counts?: BucketCounts | undefined
  readonly feedback?: ReadonlyMap<string, StoredFeedback> | undefined
}

/** Eventually consistent: half the price, slightly stale at worst. Missing shards are left out. */
export async function readShardsAt(
  {transport, name, backoff, namespace}: NamespaceTable,
  addresses: readonly ShardAddress[],
  signal?: AbortSignal,
): Promise<CountedShard[]> {
  const wanted = addresses.map(({entity, resource, shard}) => keys.bucket(namespace, entity, resource, shard))
  const items = await batchGet(transport, name, wanted, {backoff, signal})
  return [...items.values()].flatMap(item => countedShard(item) ?? [])
}

export function countedShard(item: Item): CountedShard | undefined {
  const stored = decodeBucket(item)
  return stored && {...stored, counts: readBucketCounts(item), feedback: readFeedback(item)}
}

function rangeOf({namespace}: NamespaceTable, scope: BucketScope): Required<KeyRange> {
  switch (scope.kind) {
    case 'namespace':
      return ranges.buckets(namespace)
    case 'resource':
      return ranges.bucketsOfResource(namespace, scope.resource)
    case 'entity':
      return ranges.bucketsOfEntity(namespace, scope.entity)
  }
}
