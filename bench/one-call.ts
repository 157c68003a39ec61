import {Agent, request} from 'node:http'
import {DynamoDBClient, UpdateItemCommand, type UpdateItemCommandInput} from '@aws-sdk/client-dynamodb'
import {markSource} from '../src/lib/limiter/levels/bucket-queues.js'
import type {RateLimiter} from '../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../src/lib/limiter/refusal/errors.js'
import type {RateLimiterOptions} from '../src/lib/limiter/request/options.js'
import {admissionUpdate, takeStored} from '../src/lib/repository/buckets/consume-write.js'
import type {NamespaceTable} from '../src/lib/repository/table/table.js'
import type {BenchEnvironment} from './environment.js'
import {type Measured, measure, median} from './measure.js'
import {short, textTable} from './report.js'

const BUCKETS = 64
const RESOURCE = 'gpt-4'
const CONCURRENCIES = [1, 16, 64]

interface Contender {
  readonly name: string
  readonly operation: () => Promise<unknown>
  /** Before every measurement. */
  readonly begin?: () => Promise<void>
  /** Finishes deferred work of the measured operations, which would disturb the next measurement. */
  readonly end?: () => Promise<void>
}

/** Compares an acquire with its bare calls, on 64 buckets in turn. Every round measures all rows. */
export async function compareOneCall(
  environment: BenchEnvironment,
  rounds: number,
  durationMs: number,
): Promise<string> {
  const {contenders, close} = await prepare(environment)
  const measured = new Map<string, Measured[]>()
  const measureOne = async ({operation, begin, end}: Contender, concurrency: number, ms: number) => {
    await begin?.()
    const result = await measure(operation, concurrency, ms)
    await end?.()
    return result
  }
  for (const contender of contenders) await measureOne(contender, 16, durationMs / 2)
  for (let round = 0; round < rounds; round++) {
    for (const concurrency of CONCURRENCIES) {
      for (const contender of contenders) {
        const key = `${concurrency} ${contender.name}`
        measured.set(key, [...(measured.get(key) ?? []), await measureOne(contender, concurrency, durationMs)])
      }
    }
  }
  await close()
  const rows = CONCURRENCIES.flatMap(concurrency => {
    const of = (name: string) => median(measured.get(`${concurrency} ${name}`) ?? [])
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

async function prepare(environment: BenchEnvironment): Promise<{contenders: Contender[]; close: () => Promise<void>}> {
  const tenant = environment.newTenant()
  await environment.configure(tenant, {level: 'resource', resource: RESOURCE}, 'rpm=100M/hour', 'tpm=100000M/hour')
  await environment.configure(tenant, {level: 'resource', resource: 'scarce'}, 'rpm=1/hour')
  const withSlots = ['rpm=100M/hour', 'tpm=100000M/hour', 'parallel=1000/inflight']
  await environment.configure(tenant, {level: 'resource', resource: 'slots'}, ...withSlots)
  const limiter = environment.limiter(tenant)
  let next = 0
  const turn = () => next++ % BUCKETS
  const consume = {rpm: 1, tpm: 500}
  for (let index = 0; index < BUCKETS; index++) {
    await environment.addEntity(tenant, `child-${index}`, `parent-${index}`)
    // Half full, like a bucket in use; a full one takes another write.
    for (const entity of ['bare', 'user', 'child'].map(name => `${name}-${index}`)) {
      await limiter.acquire({entity, resource: RESOURCE, consume: {rpm: 50_000_000, tpm: 50_000_000_000}})
    }
    const half = {rpm: 50_000_000, tpm: 50_000_000_000, parallel: 0}
    await limiter.acquire({entity: `user-${index}`, resource: 'slots', consume: half})
    await limiter.acquire({entity: `idle-${index}`, resource: RESOURCE, consume})
    await limiter.acquire({entity: `user-${index}`, resource: 'scarce', consume: {rpm: 1}})
  }
  const body = bareUpdates(tenant)
  const client = new DynamoDBClient({
    endpoint: environment.endpoint,
    region: 'us-east-1',
    credentials: {accessKeyId: 'local', secretAccessKey: 'local'},
    requestHandler: {httpAgent: {keepAlive: true, maxSockets: 128}},
  })
  const raw = rawSender(environment.endpoint)
  /** Needs a separate limiter: it writes refusals of each bucket after a second, or when it is closed. */
  const refusing = (name: string, options: RateLimiterOptions): Contender => {
    let asked: RateLimiter
    const operation = () =>
      asked.acquire({entity: `user-${turn()}`, resource: 'scarce', consume: {rpm: 1}}).catch(error => {
        if (!(error instanceof RateLimitExceeded)) throw error
      })
    const begin = async () => {
      asked = environment.limiter(tenant, options)
      // Twice each: the second decision about a bucket reads its configuration.
      for (let times = 0; times < 2 * BUCKETS; times += 16) await Promise.all(Array.from({length: 16}, operation))
    }
    return {name, operation, begin, end: () => asked.close()}
  }
  const committed = async (resource: string) =>
    (await limiter.acquire({entity: `user-${turn()}`, resource, consume, settle: 'soon'})).commit()
  return {
    contenders: [
      {name: 'SDK UpdateItem', operation: () => client.send(new UpdateItemCommand(body() as UpdateItemCommandInput))},
      {name: 'raw HTTP', operation: () => raw.send('UpdateItem', body())},
      {
        name: 'acquire, admitted',
        operation: () => limiter.acquire({entity: `user-${turn()}`, resource: RESOURCE, consume}),
      },
      {name: 'acquire, commit', operation: () => committed(RESOURCE)},
      {name: 'acquire, commit, in-flight limit', operation: () => committed('slots')},
      {
        name: 'acquire, full bucket',
        operation: () => limiter.acquire({entity: `idle-${turn()}`, resource: RESOURCE, consume}),
      },
      {
        name: 'acquire, cascade',
        operation: () => limiter.acquire({entity: `child-${turn()}`, resource: RESOURCE, consume}),
      },
      refusing('acquire, refused by a call', {denyCacheMs: 0}),
      refusing('acquire, refused as known', {}),
    ],
    close: async () => {
      await limiter.close()
      client.destroy()
      raw.close()
    },
  }
}

/** The body of an acquire of one `rpm` and 500 `tpm` by `bare-0` to `bare-63` in turn, whose buckets must exist. */
export function bareUpdates(tenant: NamespaceTable): () => ReturnType<typeof admissionUpdate> {
  const amounts = new Map([
    ['rpm', 1000n],
    ['tpm', 500_000n],
  ])
  const nextMark = markSource(tenant.randomBytes)
  let next = 0
  return () => {
    const address = {entity: `bare-${next++ % BUCKETS}`, resource: RESOURCE, shard: 0}
    const room = {bounds: [{earliestRefillMs: 0, highestMilli: new Map()}], shardCount: 1}
    // Unordered marks: without a queue, calls of one bucket may overtake each other.
    const {slot, nonce} = nextMark()
    const write = takeStored(amounts, room, {requests: 1, nowMs: Date.now(), repairsPressure: false})
    return admissionUpdate(tenant, address, write, {slot, nonce})
  }
}

/** Over keep-alive sockets, without the SDK, with a dummy signature. */
function rawSender(endpoint: string): {send(target: string, input: unknown): Promise<unknown>; close(): void} {
  const agent = new Agent({keepAlive: true, maxSockets: 128})
  const {hostname, port} = new URL(endpoint)
  const headers = {
    'content-type': 'application/x-amz-json-1.0',
    'x-amz-date': '20240101T000000Z',
    authorization:
      'AWS4-HMAC-SHA256 Credential=local/20240101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0',
  }
  return {
    send: (target, input) =>
      new Promise((resolve, reject) => {
        const body = JSON.stringify(input)
        const options = {agent, hostname, port, method: 'POST', path: '/'}
        const length = Buffer.byteLength(body)
        const call = request(
          {...options, headers: {...headers, 'x-amz-target': `DynamoDB_20120810.${target}`, 'content-length': length}},
          response => {
            const chunks: Buffer[] = []
            response.on('data', chunk => chunks.push(chunk))
            response.on('error', reject)
            response.on('end', () => {
              const text = Buffer.concat(chunks).toString()
              if (response.statusCode === 200) resolve(JSON.parse(text))
              else reject(new Error(`${response.statusCode}: ${text}`))
            })
          },
        )
        call.on('error', reject)
        call.end(body)
      }),
    close: () => agent.destroy(),
  }
}
