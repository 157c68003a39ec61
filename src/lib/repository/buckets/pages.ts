import {batchGet} from '../../dynamo/batch.js'
import {queryPages} from '../../dynamo/paging.js'
import type {Item} from '../../schema/attribute-value.js'
import {decodeBucket, type StoredBucket} from '../../schema/bucket-record.js'
import {indexKeys, keys, parseItemKey} from '../../schema/keys.js'
import type {NamespaceTable} from '../table/table.js'
import {addressQuery, type IndexStretch} from './index.js'
import type {BucketAddress} from './writes.js'

/** Which buckets are meant. */
export type BucketScope =
  | {readonly kind: 'namespace'}
  | {readonly kind: 'resource'; readonly resource: string}
  | {readonly kind: 'entity'; readonly entity: string}

/** Where one shard of one bucket is. */
export type ShardAddress = Pick<BucketAddress, 'entity' | 'resource' | 'shard'>

/** A part of what an index knows. */
export interface AddressPage {
  readonly addresses: readonly ShardAddress[]
  /** Where the next page starts; `undefined` after the last one. */
  readonly next: Item | undefined
}

/** One request for one page of the shards in a scope, from the beginning or from where an earlier page ended. */
export async function readAddressPage(
  table: NamespaceTable,
  scope: BucketScope,
  {start, limit, signal}: {start: Item | undefined; limit: number; signal?: AbortSignal | undefined},
): Promise<AddressPage> {
  const query = addressQuery(table, stretchOf(table, scope))
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

/** The shards at some addresses, those that exist. Half the price of the latest state: a moment old at worst. */
export async function readShardsAt(
  {transport, name, backoff, namespace}: NamespaceTable,
  addresses: readonly ShardAddress[],
  signal?: AbortSignal,
): Promise<StoredBucket[]> {
  const wanted = addresses.map(({entity, resource, shard}) => keys.bucket(namespace, entity, resource, shard))
  const items = await batchGet(transport, name, wanted, {backoff, signal})
  return [...items.values()].flatMap(item => decodeBucket(item) ?? [])
}

function stretchOf({namespace}: NamespaceTable, scope: BucketScope): IndexStretch {
  const prefix = 'BUCKET#'
  switch (scope.kind) {
    case 'namespace':
      return {index: 'GSI4', partition: namespace, prefix}
    case 'resource':
      return {index: 'GSI2', partition: indexKeys.bucketOfResource(namespace, scope.resource, '', 0).GSI2PK, prefix}
    case 'entity':
      return {index: 'GSI3', partition: indexKeys.bucketOfEntity(namespace, scope.entity, '', 0).GSI3PK, prefix}
  }
}
