import {randomUUID} from 'node:crypto'
import {inject} from 'vitest'
import type {StreamRecord} from '../../../src/lib/aggregator/stream-event.js'
import type {StreamTransport} from '../../../src/lib/dynamo/transports/stream.js'
import {latestStreamArn, listShards, openShard, readRecords} from '../../../src/lib/dynamo/transports/stream-shards.js'
import {readString} from '../../../src/lib/schema/attribute-value.js'
import type {TestTable} from '../../helpers/table.js'
import {openStreams} from '../../local/stream/poll-support.js'

/** All changes of a table so far, in the format of a Lambda event. */
export async function capturedStream({transport, name: TableName}: TestTable): Promise<StreamRecord[]> {
  // An open shard has no end, and an empty page proves nothing: read until the last write appears.
  const last = `last-${randomUUID()}`
  await transport.send('PutItem', {TableName, Item: {PK: {S: last}, SK: {S: last}}})
  const streams = openStreams(inject('engineEndpoint'))
  try {
    const streamArn = (await latestStreamArn(transport, TableName)) ?? ''
    for (;;) {
      const records = await readStream(streams, streamArn)
      if (records.some(({dynamodb}) => readString(dynamodb.Keys, 'PK') === last)) {
        return records.filter(({dynamodb}) => !readString(dynamodb.Keys, 'PK')?.startsWith('last-'))
      }
    }
  } finally {
    await streams.close()
  }
}

async function readStream(streams: StreamTransport, streamArn: string): Promise<StreamRecord[]> {
  const records: StreamRecord[] = []
  for (const {ShardId: shardId} of await listShards(streams, streamArn)) {
    let iterator = await openShard(streams, {streamArn, shardId, after: undefined})
    while (iterator !== undefined) {
      const page = await readRecords(streams, iterator, 1000)
      records.push(...page.records.map(record => ({...record, eventSourceARN: streamArn}) as StreamRecord))
      iterator = page.records.length === 0 ? undefined : page.next
    }
  }
  return records
}

/** A removal by expiry, as DynamoDB marks it; local engines take minutes to expire an item. */
export function asExpiry(record: StreamRecord): StreamRecord {
  return {...record, userIdentity: {type: 'Service', principalId: 'dynamodb.amazonaws.com'}}
}
