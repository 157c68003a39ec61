import {randomBytes} from 'node:crypto'
import {createAggregator} from '../src/lib/aggregator/aggregator.js'
import type {StreamEvent, StreamRecord} from '../src/lib/aggregator/stream-event.js'
import {ConditionFailed} from '../src/lib/dynamo/errors.js'
import type {Transport} from '../src/lib/dynamo/transport.js'
import type {Table} from '../src/lib/repository/table/table.js'
import {type Item, n, s} from '../src/lib/schema/attribute-value.js'
import {type BucketRecord, encodeBucket} from '../src/lib/schema/bucket-record.js'
import {type BenchEnvironment, openEnvironment} from './environment.js'
import {cpuSecondsOf, measure} from './measure.js'
import {machineLine, say, short, textTable} from './report.js'

/**
 * Measures the throughput and the writes of the aggregator. See bench/README.md. `--quick` takes a quarter of the time and is
 * less precise.
 */
process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
const isQuick = process.argv.includes('--quick')
const RECORDS = isQuick ? 2_000 : 10_000

/** Each bucket in turn admits one request, every 2 ms. */
function* stream(namespace: string, buckets: number, startMs: number): Generator<StreamRecord, void> {
  const rate = {capacityMilli: 1_000_000_000n, refillAmountMilli: 1_000_000_000n, refillPeriodMs: 60_000, remainder: 0n}
  for (let index = 0; index < RECORDS; index++) {
    const turn = BigInt(Math.floor(index / buckets))
    const image = (requests: bigint): Item => {
      const limit = (milli: bigint) => ({...rate, tokensMilli: 500_000_000n, consumedMilli: requests * milli})
      const record: BucketRecord = {
        ...{namespace, entity: `user-${index % buckets}`, resource: 'gpt-4', shard: 0, shardCount: 1},
        ...{cascade: false, parent: undefined, ttlSeconds: undefined},
        state: {
          refilledAtMs: startMs,
          limits: new Map([
            ['rpm', limit(1000n)],
            ['tpm', limit(500_000n)],
          ]),
        },
      }
      return {...encodeBucket(record), rq: n(requests), b_wcu_tc: n(requests * 1000n)}
    }
    const NewImage = image(turn + 1n)
    yield {
      eventName: turn === 0n ? 'INSERT' : 'MODIFY',
      eventSourceARN: 'arn:aws:dynamodb:::table/bench/stream/2026-01-01T00:00:00.000',
      dynamodb: {
        ApproximateCreationDateTime: Math.floor((startMs + index * 2) / 1000),
        Keys: {PK: NewImage.PK ?? s(''), SK: NewImage.SK ?? s('')},
        NewImage,
        OldImage: turn === 0n ? undefined : image(turn),
        SequenceNumber: String(1_000 + index),
      },
    }
  }
}

interface Aggregated {
  readonly writes: Speed
  readonly calls: readonly Call[]
}

interface Speed {
  readonly perSecond: number
  /** Per write, of this process and the engine, in µs. */
  readonly cpuMicros: number
}

/** `work` resolves to the number of writes. */
async function timed({enginePid}: BenchEnvironment, work: () => Promise<number>): Promise<Speed> {
  const cpuSeconds = () => (process.cpuUsage().user + process.cpuUsage().system) / 1_000_000 + cpuSecondsOf(enginePid)
  const startedMs = performance.now()
  const startedCpu = cpuSeconds()
  const writes = await work()
  return {
    perSecond: (writes * 1000) / (performance.now() - startedMs),
    cpuMicros: ((cpuSeconds() - startedCpu) * 1_000_000) / writes,
  }
}

type Call = Parameters<Transport['send']>

async function aggregate(environment: BenchEnvironment, buckets: number, batchSize: number): Promise<Aggregated> {
  const calls: Call[] = []
  const transport: Transport = {
    send: (operation, input, options) => {
      calls.push([operation, input])
      return environment.transport.send(operation, input, options)
    },
  }
  const {namespace, name, backoff} = environment.newTenant()
  const table: Table = {name, transport, clock: Date.now, randomBytes, backoff}
  const aggregator = createAggregator({table, log: () => {}})
  const records = [...stream(namespace, buckets, Date.now() - 2 * RECORDS)]
  const batches: StreamEvent[] = []
  for (let at = 0; at < records.length; at += batchSize) batches.push({Records: records.slice(at, at + batchSize)})
  const writes = await timed(environment, async () => {
    for (const batch of batches) {
      const {failures} = await aggregator.handle(batch)
      if (failures.length > 0) throw new Error(`${failures.length} records failed`)
    }
    return calls.length
  })
  return {writes, calls}
}

/** Sends the aggregator's own updates, prepared before for another namespace. */
async function repeated(environment: BenchEnvironment, calls: readonly Call[]): Promise<Speed> {
  const {namespace} = environment.newTenant()
  const updates = calls.filter(([operation]) => operation === 'UpdateItem')
  const [first] = updates.flatMap(([, input]) => /"S":"(b[0-9a-f]{8})\//.exec(JSON.stringify(input))?.[1] ?? [])
  const elsewhere = updates.map(
    ([operation, input]): Call => [operation, JSON.parse(JSON.stringify(input).replaceAll(first ?? '', namespace))],
  )
  const waiting = elsewhere.values()
  const lane = async () => {
    // Writes to one record may overtake each other; a failed condition takes as long.
    for (const call of waiting) await environment.transport.send(...call).catch(ignoreCondition)
  }
  return timed(environment, async () => {
    await Promise.all(Array.from({length: 16}, lane))
    return elsewhere.length
  })
}

function ignoreCondition(error: unknown): void {
  if (!(error instanceof ConditionFailed)) throw error
}

/** At the concurrency of the aggregator, to records with or without indexes. */
async function bare(environment: BenchEnvironment, hasIndexes = false): Promise<Speed> {
  const {namespace, name} = environment.newTenant()
  let next = 0
  const indexKeys = (index: number) =>
    hasIndexes && {
      GSI2PK: s(`${namespace}/RESOURCE#gpt-4`),
      GSI2SK: s(`USAGE#2026-01-01T00:00:00Z#user-${index}`),
      GSI4PK: s(namespace),
      GSI4SK: s(`${namespace}/ENTITY#user-${index}`),
    }
  for (let index = 0; index < 1000; index++) {
    const Item = {
      PK: s(`${namespace}/ENTITY#user-${index}`),
      SK: s('#USAGE#gpt-4#2026-01-01T00:00:00Z'),
      ...indexKeys(index),
    }
    await environment.transport.send('PutItem', {TableName: name, Item})
  }
  const update = () =>
    environment.transport.send('UpdateItem', {
      TableName: name,
      Key: {PK: s(`${namespace}/ENTITY#user-${next++ % 1000}`), SK: s('#USAGE#gpt-4#2026-01-01T00:00:00Z')},
      UpdateExpression: 'ADD tpm :n',
      ExpressionAttributeValues: {':n': n(1)},
    })
  return timed(environment, async () => {
    const before = next
    await measure(update, 16, isQuick ? 500 : 2000)
    return next - before
  })
}

const environment = await openEnvironment()
try {
  say(machineLine(environment.engineName))
  say(`${RECORDS.toLocaleString('en-US')} records; days and months are rolled up\n`)
  const since = {S: '2000-01-01T00:00:00Z'}
  const Item = {PK: {S: '_/SYSTEM#'}, SK: {S: '#ROLLUPS'}, daily: since, monthly: since}
  await environment.transport.send('PutItem', {TableName: environment.newTenant().name, Item})
  await bare(environment)
  const rows: string[][] = []
  for (const buckets of [1, 100, 10_000]) {
    for (const batchSize of [100, 2600]) {
      const updates = await bare(environment)
      const indexed = await bare(environment, true)
      const {writes, calls} = await aggregate(environment, buckets, batchSize)
      const same = await repeated(environment, calls)
      const perRecord = calls.length / RECORDS
      rows.push([
        buckets.toLocaleString('en-US'),
        batchSize.toLocaleString('en-US'),
        ...[
          writes.perSecond / perRecord,
          1000 * perRecord,
          updates.perSecond,
          writes.perSecond / updates.perSecond,
          indexed.perSecond / updates.perSecond,
          same.perSecond / updates.perSecond,
          writes.perSecond / same.perSecond,
          updates.cpuMicros / same.cpuMicros,
          same.cpuMicros / writes.cpuMicros,
        ].map(short),
      ])
    }
  }
  const header = [
    'buckets',
    'batch',
    'records/s',
    'writes/1000',
    'bare updates/s',
    'writes/bare',
    'indexed/bare',
    'same/bare',
    'writes/same',
    'CPU same/bare',
    'CPU writes/same',
  ]
  say(textTable(header, rows))
} finally {
  await environment.close()
}
