import {DynamoDBClient, UpdateItemCommand, type UpdateItemCommandInput} from '@aws-sdk/client-dynamodb'
import {markSource} from '../src/lib/limiter/bucket-queues.js'
import {RateLimitExceeded} from '../src/lib/limiter/errors.js'
import {consumeUpdate} from '../src/lib/repository/buckets/writes.js'
import {type Measured, measure, middle} from './measure.js'
import {rawSender} from './raw-http.js'
import type {Stage} from './stage.js'
import {short, textTable} from './text-table.js'

const BUCKETS = 64
const RESOURCE = 'gpt-4'
const CONCURRENCIES = [1, 16, 64]

interface Contender {
  readonly name: string
  readonly operation: () => Promise<unknown>
}

/** One acquire beside the bare calls it is made of, on 64 buckets in turn; all of them in every round. */
export async function compareOneCall(stage: Stage, rounds: number, durationMs: number): Promise<string> {
  const {contenders, close} = await prepare(stage)
  const measured = new Map<string, Measured[]>()
  for (const {operation} of contenders) await measure(operation, 16, durationMs / 2)
  for (let round = 0; round < rounds; round++) {
    for (const concurrency of CONCURRENCIES) {
      for (const {name, operation} of contenders) {
        const key = `${concurrency} ${name}`
        measured.set(key, [...(measured.get(key) ?? []), await measure(operation, concurrency, durationMs)])
      }
    }
  }
  await close()
  const rows = CONCURRENCIES.flatMap(concurrency => {
    const of = (name: string) => middle(measured.get(`${concurrency} ${name}`) ?? [])
    const [sdk, raw] = [of('SDK UpdateItem'), of('raw HTTP')]
    return contenders.map(({name}) => {
      const {perSecond, p50Ms, p99Ms, cpuMicros} = of(name)
      const numbers = [perSecond, p50Ms, p99Ms, cpuMicros, cpuMicros / sdk.cpuMicros, p50Ms / raw.p50Ms]
      return [name, String(concurrency), ...numbers.map(short)]
    })
  })
  const header = ['one operation', 'at once', 'ops/s', 'p50 ms', 'p99 ms', 'CPU µs', 'CPU/SDK', 'p50/raw']
  return textTable(header, rows)
}

async function prepare(stage: Stage): Promise<{contenders: Contender[]; close: () => Promise<void>}> {
  const tenant = stage.newTenant()
  await stage.configure(tenant, {level: 'resource', resource: RESOURCE}, 'rpm=100M/hour', 'tpm=100000M/hour')
  await stage.configure(tenant, {level: 'resource', resource: 'scarce'}, 'rpm=1/hour')
  const limiter = stage.limiter(tenant)
  const asking = stage.limiter(tenant, {denyCacheMs: 0})
  let next = 0
  const turn = () => next++ % BUCKETS
  const consume = {rpm: 1, tpm: 500}
  for (let index = 0; index < BUCKETS; index++) {
    await stage.addEntity(tenant, `child-${index}`, `parent-${index}`)
    // Half used up: a bucket in use. One that is full is written differently.
    for (const entity of ['bare', 'user', 'child'].map(name => `${name}-${index}`)) {
      await limiter.acquire({entity, resource: RESOURCE, consume: {rpm: 50_000_000, tpm: 50_000_000_000}})
    }
    await limiter.acquire({entity: `idle-${index}`, resource: RESOURCE, consume})
    await limiter.acquire({entity: `user-${index}`, resource: 'scarce', consume: {rpm: 1}})
  }
  const amounts = new Map([
    ['rpm', 1000n],
    ['tpm', 500_000n],
  ])
  const nextMark = markSource(tenant.randomBytes)
  const body = () => {
    const address = {entity: `bare-${turn()}`, resource: RESOURCE, shard: 0}
    return consumeUpdate(tenant, address, amounts, nextMark(), {requests: 1, nowMs: Date.now()})
  }
  const client = new DynamoDBClient({
    endpoint: stage.endpoint,
    region: 'us-east-1',
    credentials: {accessKeyId: 'local', secretAccessKey: 'local'},
    requestHandler: {httpAgent: {keepAlive: true, maxSockets: 128}},
  })
  const raw = rawSender(stage.endpoint)
  const refused = (attempt: Promise<unknown>) =>
    attempt.catch(error => {
      if (!(error instanceof RateLimitExceeded)) throw error
    })
  const scarce = () => ({entity: `user-${turn()}`, resource: 'scarce', consume: {rpm: 1}})
  return {
    contenders: [
      {name: 'SDK UpdateItem', operation: () => client.send(new UpdateItemCommand(body() as UpdateItemCommandInput))},
      {name: 'raw HTTP', operation: () => raw.send('UpdateItem', body())},
      {
        name: 'acquire, admitted',
        operation: () => limiter.acquire({entity: `user-${turn()}`, resource: RESOURCE, consume}),
      },
      {
        name: 'acquire, full bucket',
        operation: () => limiter.acquire({entity: `idle-${turn()}`, resource: RESOURCE, consume}),
      },
      {
        name: 'acquire, cascade',
        operation: () => limiter.acquire({entity: `child-${turn()}`, resource: RESOURCE, consume}),
      },
      {name: 'acquire, refused by a call', operation: () => refused(asking.acquire(scarce()))},
      {name: 'acquire, refused as known', operation: () => refused(limiter.acquire(scarce()))},
    ],
    close: async () => {
      await Promise.all([limiter.close(), asking.close()])
      client.destroy()
      raw.close()
    },
  }
}
