import {setTimeout as sleep} from 'node:timers/promises'
import {availableTokens, type BucketState, type LimitState} from '../../src/lib/core/bucket.js'
import {formatLimit, parseLimits, rateOf} from '../../src/lib/core/limit.js'
import {CapacityMeter} from '../../src/lib/dynamo/capacity.js'
import {resolveConnection} from '../../src/lib/dynamo/connection.js'
import {createTable} from '../../src/lib/dynamo/create-table.js'
import {ExpressionBuilder} from '../../src/lib/dynamo/expression.js'
import {createSdkTransport} from '../../src/lib/dynamo/sdk-transport.js'
import {startEngine} from '../../src/lib/local/engine.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {decodeBucket, encodeBucket, freshWritePressure, limitAttribute} from '../../src/lib/schema/bucket-record.js'
import {keys} from '../../src/lib/schema/keys.js'
import {loadTableDefinition} from '../../src/lib/schema/table-definition.js'

/**
 * The main job in one minute, on a real engine of its own: a table from the stack template, a bucket with two limits,
 * one admitted request in one conditional write, one refused, and what the bucket holds a little later.
 */
const say = (text = '') => process.stdout.write(`${text}\n`)
const step = (title: string, ...details: string[]) => {
  say(`• ${title}`)
  for (const detail of details) say(`    ${detail}`)
}

process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
say('zael: rate limiting on DynamoDB, shown on an engine that runs inside this demo')
say()

const engine = await startEngine()
const meter = new CapacityMeter()
const transport = createSdkTransport({
  connection: resolveConnection({endpointUrl: engine.endpoint}, {}),
  clock: Date.now,
  meterCapacity: true,
  onResponse: meter.observe,
})
try {
  step(`Started ${engine.name} at ${engine.endpoint}`, 'in memory, on loopback only, gone when this demo ends')

  const TableName = 'zael-demo'
  const definition = await loadTableDefinition({tableName: TableName})
  await createTable(transport, definition)
  const indexes = definition.create.GlobalSecondaryIndexes.map(index => index.IndexName).join(', ')
  step(
    `Created table ${TableName} from templates/stack.yaml`,
    `indexes ${indexes}; stream on; items expire by "${definition.ttlAttribute}"`,
  )

  const limits = parseLimits(['rpm=60/min', 'tpm=10k/min:20k'])
  const startedAtMs = Date.now()
  const state: BucketState = {
    refilledAtMs: startedAtMs,
    limits: new Map<string, LimitState>([
      ...limits.map((limit): [string, LimitState] => {
        const rate = rateOf(limit)
        return [limit.name, {...rate, tokensMilli: rate.capacityMilli, remainder: 0n, consumedMilli: 0n}]
      }),
      ['wcu', freshWritePressure()],
    ]),
  }
  const bucket = {
    namespace: 'demo',
    entity: 'user-1',
    resource: 'gpt-4',
    shard: 0,
    shardCount: 1,
    cascade: false,
    parent: undefined,
    ttlSeconds: undefined,
    state,
  }
  await transport.send('PutItem', {TableName, Item: encodeBucket(bucket)})
  step(`Wrote the bucket of user-1 for gpt-4 with ${limits.map(formatLimit).join(' and ')}`, show(state, startedAtMs))

  const {PK, SK} = keys.bucket('demo', 'user-1', 'gpt-4', 0)
  const Key = {PK: s(PK), SK: s(SK)}
  const acquire = (amounts: Record<string, number>) => {
    const e = new ExpressionBuilder()
    for (const [limit, tokens] of Object.entries(amounts)) {
      const milli = tokens * 1000
      e.add(limitAttribute(limit, 'tk'), n(-milli)).add(limitAttribute(limit, 'tc'), n(milli))
      e.condition(`${e.name(limitAttribute(limit, 'tk'))} >= ${e.value(n(milli))}`)
    }
    return transport.send('UpdateItem', {
      TableName,
      Key,
      ...e.update(),
      ReturnValues: 'ALL_NEW',
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    })
  }

  const before = meter.snapshot()
  const {Attributes} = await acquire({rpm: 1, tpm: 12_000})
  const {calls, read, write} = meter.since(before)
  step(
    'Admitted a request of 12,000 tokens',
    show(stateOf(Attributes), startedAtMs),
    `cost: ${calls} call, ${write} write unit, ${read} reads`,
  )

  const refusal = await acquire({rpm: 1, tpm: 12_000}).then(
    () => 'admitted, which is wrong',
    (error: Error) => error.constructor.name,
  )
  step('Asked for 12,000 more', `the engine answered ${refusal}; nothing was charged`)

  await sleep(1500)
  const {Item: stored} = await transport.send('GetItem', {TableName, Key, ConsistentRead: true})
  const nowMs = Date.now()
  step(
    `Read the bucket back ${((nowMs - startedAtMs) / 1000).toFixed(1)} s later, refilled by arithmetic`,
    show(stateOf(stored), nowMs),
  )
} finally {
  await transport.close()
  await engine.stop()
}
step('Stopped the engine; nothing is left behind')
say()
say('Next: npm test, or node bin/run.js --help')

function stateOf(item: Item | undefined): BucketState {
  const stored = item && decodeBucket(item)
  if (stored?.kind !== 'bucket') throw new Error('the bucket is gone')
  return stored.record.state
}

function show(state: BucketState, nowMs: number): string {
  const available = availableTokens(state, nowMs)
  const levels = [...state.limits]
    .filter(([name]) => name !== 'wcu')
    .map(
      ([name, limit]) =>
        `${name} ${available.get(name)?.toLocaleString('en')} of ${(limit.capacityMilli / 1000n).toLocaleString('en')}`,
    )
  return levels.sort().join(', ')
}
