import {TableMissing} from '../errors.js'
import type {SendOptions} from '../transport.js'
import {IteratorExpired, type RawRecord, RecordsTrimmed, type StreamTransport} from './stream.js'
import {readRecords} from './stream-shards.js'

export interface StreamRange {
  readonly streamArn: string
  readonly shardId: string
  readonly first: string
  readonly last: string
}

const PAGE = 1_000

/** Pages without a record in a row: DynamoDB returns such pages where nothing was written for a while. */
const EMPTY_PAGES = 1_000

/** The records of a range; `undefined` when the stream does not have all of them any more. */
export async function readRange(
  stream: StreamTransport,
  range: StreamRange,
  options: SendOptions = {},
): Promise<RawRecord[] | undefined> {
  try {
    const records = await readFrom(stream, range, options)
    return records[0]?.dynamodb.SequenceNumber === range.first ? records : undefined
  } catch (error) {
    // Also the whole stream or its shard may be gone, which the service reports as a missing resource.
    if (error instanceof RecordsTrimmed || error instanceof TableMissing) return undefined
    throw error
  }
}

async function readFrom(
  stream: StreamTransport,
  {streamArn, shardId, first, last}: StreamRange,
  options: SendOptions,
): Promise<RawRecord[]> {
  const records: RawRecord[] = []
  const open = async () => {
    const after = records.at(-1)?.dynamodb.SequenceNumber
    const position =
      after === undefined
        ? ({ShardIteratorType: 'AT_SEQUENCE_NUMBER', SequenceNumber: first} as const)
        : ({ShardIteratorType: 'AFTER_SEQUENCE_NUMBER', SequenceNumber: after} as const)
    const input = {StreamArn: streamArn, ShardId: shardId, ...position}
    return (await stream.send('GetShardIterator', input, options)).ShardIterator
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
