import type {Transport} from '../../../src/lib/dynamo/transport.js'
import type {RawRecord, StreamOperations, StreamTransport} from '../../../src/lib/dynamo/transports/stream.js'
import {RecordsTrimmed} from '../../../src/lib/dynamo/transports/stream.js'

interface FakeShard {
  readonly id: string
  readonly parent?: string
  readonly records: RawRecord[]
  isClosed: boolean
  /** Records up to this sequence number are trimmed. */
  trimmedTo: number
}

/** A stream whose shards end, split and expire, which local engines hardly ever do. Iterators are `shard|sequence`. */
export class FakeStream implements StreamTransport {
  arn = 'arn:aws:dynamodb:x:000000000000:table/fake/stream/1'
  shards: FakeShard[] = []
  /** Shards per page of DescribeStream. */
  pageSize = 2
  /** Outcomes of the next reads, in order. The very first read is that of the stream's length. */
  readonly failures: (Error | undefined)[] = []
  /** How many iterators were opened. */
  iterators = 0
  /** Number of the last record. */
  sequence = 0

  /** Describes one table and its stream. */
  readonly transport: Transport = {
    send: async () => ({Table: {StreamSpecification: {StreamEnabled: true}, LatestStreamArn: this.arn}}) as never,
  }

  addShard(id: string, parent?: string): FakeShard {
    const shard: FakeShard = {id, ...(parent === undefined ? {} : {parent}), records: [], isClosed: false, trimmedTo: 0}
    this.shards.push(shard)
    return shard
  }

  write(shardId: string, version: number): void {
    const SequenceNumber = String(++this.sequence)
    const Keys = {PK: {S: shardId}, SK: {S: 'x'}}
    const dynamodb = {ApproximateCreationDateTime: 1_700_000_000, Keys, SequenceNumber}
    this.#shard(shardId).records.push({
      eventName: 'MODIFY',
      dynamodb: {...dynamodb, NewImage: {...Keys, version: {N: String(version)}}},
    })
  }

  close(): void {}

  async send<O extends keyof StreamOperations>(
    operation: O,
    input: StreamOperations[O]['input'],
  ): Promise<StreamOperations[O]['output']> {
    if (operation === 'DescribeStream') return this.#describe(input as StreamOperations['DescribeStream']['input'])
    if (operation === 'GetRecords') return this.#read(input as StreamOperations['GetRecords']['input'])
    this.iterators++
    const {ShardId, SequenceNumber} = input as StreamOperations['GetShardIterator']['input']
    if (Number(SequenceNumber) < this.#shard(ShardId).trimmedTo) throw new RecordsTrimmed()
    return {ShardIterator: `${ShardId}|${SequenceNumber ?? 0}`}
  }

  /** Drops the oldest records. */
  trim(shardId: string, count: number): void {
    const shard = this.#shard(shardId)
    shard.trimmedTo = Number(shard.records.splice(0, count).at(-1)?.dynamodb.SequenceNumber)
  }

  #describe({ExclusiveStartShardId: after}: StreamOperations['DescribeStream']['input']) {
    const start = this.shards.findIndex(shard => shard.id === after) + 1
    const page = this.shards.slice(start, start + this.pageSize)
    const Shards = page.map(({id, parent}) => ({ShardId: id, ...(parent === undefined ? {} : {ParentShardId: parent})}))
    const last = page.at(-1)?.id
    const isLast = start + this.pageSize >= this.shards.length
    return {StreamDescription: {Shards, ...(isLast || last === undefined ? {} : {LastEvaluatedShardId: last})}}
  }

  #read({ShardIterator, Limit = 1_000}: StreamOperations['GetRecords']['input']) {
    const failure = this.failures.shift()
    if (failure) throw failure
    const [id = '', after] = ShardIterator.split('|')
    const {records, isClosed} = this.#shard(id)
    const rest = records.filter(record => Number(record.dynamodb.SequenceNumber) > Number(after))
    const Records = rest.slice(0, Limit)
    const isEnd = isClosed && Records.length === rest.length
    const reached = Records.at(-1)?.dynamodb.SequenceNumber ?? after
    return {Records, NextShardIterator: isEnd ? null : `${id}|${reached}`}
  }

  #shard(id: string): FakeShard {
    const shard = this.shards.find(each => each.id === id)
    if (!shard) throw new Error(`no shard ${id}`)
    return shard
  }
}
