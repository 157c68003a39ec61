import {valueFor} from '../../core/errors.js'
import {TableMissing} from '../errors.js'
import type {SendOptions, Transport} from '../transport.js'
import {IteratorExpired, type RawRecord, RecordsTrimmed, type ShardDescription, type StreamTransport} from './stream.js'

export interface StreamPage {
  readonly records: RawRecord[]
  readonly next: string | undefined
}

export async function latestStreamArn(
  transport: Transport,
  tableName: string,
  options: SendOptions = {},
): Promise<string | undefined> {
  const {Table} = await transport.send('DescribeTable', {TableName: tableName}, options)
  return Table?.StreamSpecification?.StreamEnabled === true ? Table.LatestStreamArn : undefined
}

export async function listShards(
  stream: StreamTransport,
  streamArn: string,
  options: SendOptions = {},
): Promise<ShardDescription[]> {
  const shards: ShardDescription[] = []
  let after: string | undefined
  do {
    const start = after === undefined ? {} : {ExclusiveStartShardId: after}
    const {StreamDescription} = await stream.send('DescribeStream', {StreamArn: streamArn, ...start}, options)
    shards.push(...(StreamDescription?.Shards ?? []))
    after = StreamDescription?.LastEvaluatedShardId
  } while (after !== undefined)
  return shards
}

/** After a record, or else at the `first`. @default the oldest record */
export async function openShard(
  stream: StreamTransport,
  place: {streamArn: string; shardId: string; after: string | undefined; first?: string},
  options: SendOptions = {},
): Promise<string | undefined> {
  const {streamArn, shardId, after, first} = place
  const position =
    after !== undefined
      ? ({ShardIteratorType: 'AFTER_SEQUENCE_NUMBER', SequenceNumber: after} as const)
      : first !== undefined
        ? ({ShardIteratorType: 'AT_SEQUENCE_NUMBER', SequenceNumber: first} as const)
        : ({ShardIteratorType: 'TRIM_HORIZON'} as const)
  const input = {StreamArn: streamArn, ShardId: shardId, ...position}
  return (await stream.send('GetShardIterator', input, options)).ShardIterator
}

/** An empty page does not mean the end. */
export async function readRecords(
  stream: StreamTransport,
  iterator: string,
  limit: number,
  options: SendOptions = {},
): Promise<StreamPage> {
  const {Records = [], NextShardIterator} = await stream.send(
    'GetRecords',
    {ShardIterator: iterator, Limit: limit},
    options,
  )
  return {records: Records.map(repairExpiry), next: NextShardIterator ?? undefined}
}

const EXPIRY_IDENTITY = {type: 'Service', principalId: 'dynamodb.amazonaws.com'}

/** DynamoDB Local omits the event name for an expiry, and only then. */
function repairExpiry(record: RawRecord): RawRecord {
  if (record.eventName !== 'UNKNOWN_TO_SDK_VERSION') return record
  return {...record, eventName: 'REMOVE', userIdentity: EXPIRY_IDENTITY}
}

export interface StreamRange {
  readonly streamArn: string
  readonly shardId: string
  readonly first: string
  readonly last: string
}

const PAGE = 1_000

/** DynamoDB returns empty pages where nothing was written for a while. */
const EMPTY_PAGES = 1_000

export async function readRange(
  stream: StreamTransport,
  range: StreamRange,
  options: SendOptions = {},
): Promise<RawRecord[] | undefined> {
  // The service reports a missing stream or shard as a missing resource.
  const isLost = valueFor([RecordsTrimmed, TableMissing], undefined)
  const records = await readFrom(stream, range, options).catch(isLost)
  return records?.[0]?.dynamodb.SequenceNumber === range.first ? records : undefined
}

async function readFrom(
  stream: StreamTransport,
  {streamArn, shardId, first, last}: StreamRange,
  options: SendOptions,
): Promise<RawRecord[]> {
  const records: RawRecord[] = []
  const open = () => {
    const after = records.at(-1)?.dynamodb.SequenceNumber
    return openShard(stream, {streamArn, shardId, after, first}, options)
  }
  let iterator = await open()
  for (let empty = 0; iterator !== undefined && empty < EMPTY_PAGES; ) {
    try {
      const {records: page, next} = await readRecords(stream, iterator, PAGE, options)
      for (const record of page) {
        if (BigInt(record.dynamodb.SequenceNumber) > BigInt(last)) return records
        records.push(record)
        if (record.dynamodb.SequenceNumber === last) return records
      }
      empty = page.length === 0 ? empty + 1 : 0
      iterator = next
    } catch (error) {
      if (!(error instanceof IteratorExpired)) throw error
      iterator = await open()
    }
  }
  return records
}
