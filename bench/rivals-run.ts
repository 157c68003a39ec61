import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {join, resolve} from 'node:path'
import {createInterface} from 'node:readline'
import {DynamoDB, UpdateItemCommand, type UpdateItemCommandInput} from '@aws-sdk/client-dynamodb'
import {RateLimiterDynamo, RateLimiterMemory, RateLimiterRes} from 'rate-limiter-flexible'
import {RateLimiter} from '../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded} from '../src/lib/limiter/refusal/errors.js'
import type {BenchEnvironment} from './environment.js'
import {type Measured, measure, median} from './measure.js'
import {bareUpdates} from './one-call.js'
import {short, textTable} from './report.js'

const BUCKETS = 64
const RESOURCE = 'gpt-4'
const CONCURRENCIES = [1, 16]
const CONNECTIONS = 128

/** Points of rate-limiter-flexible that are never used up, and their window in seconds. */
const PLENTY = {points: 100_000_000, duration: 3600}

interface Rival {
  readonly name: string
  readonly measure: (concurrency: number, durationMs: number) => Promise<Measured>
}

interface Group {
  readonly title: string
  /** The first row is zael, the base of the ratios. */
  readonly rivals: readonly Rival[]
}

/** Every round measures all rows. `programs`: the folder of a Python with zae-limiter, if installed. */
export async function compareRivals(
  environment: BenchEnvironment,
  programs: string | undefined,
  rounds: number,
  ms: number,
): Promise<string> {
  const {groups, close} = await prepare(environment, programs)
  const tables: string[] = []
  try {
    for (const {title, rivals} of groups) {
      const measured = new Map<string, Measured[]>()
      for (const rival of rivals) await rival.measure(16, ms / 2)
      for (let round = 0; round < rounds; round++) {
        for (const concurrency of CONCURRENCIES) {
          for (const rival of rivals) {
            const key = `${concurrency} ${rival.name}`
            measured.set(key, [...(measured.get(key) ?? []), await rival.measure(concurrency, ms)])
          }
        }
      }
      const rows = CONCURRENCIES.flatMap(concurrency => {
        const of = ({name}: Rival) => median(measured.get(`${concurrency} ${name}`) ?? [])
        const ours = of(rivals[0] as Rival)
        return rivals.map(rival => {
          const {perSecond, p50Ms, cpuMicros} = of(rival)
          const numbers = [perSecond, p50Ms, cpuMicros, ours.cpuMicros / cpuMicros, ours.p50Ms / p50Ms]
          return [rival.name, String(concurrency), ...numbers.map(short)]
        })
      })
      tables.push(textTable([title, 'at once', 'ops/s', 'p50 ms', 'CPU µs', 'our CPU/this', 'our p50/this'], rows))
    }
  } finally {
    await close()
  }
  return tables.join('\n\n')
}

async function prepare(
  environment: BenchEnvironment,
  programs: string | undefined,
): Promise<{groups: Group[]; close: () => Promise<void>}> {
  const {endpoint} = environment
  const tenant = environment.newTenant()
  await environment.configure(tenant, {level: 'resource', resource: RESOURCE}, 'rpm=100M/hour', 'tpm=100000M/hour')
  await environment.configure(tenant, {level: 'resource', resource: 'scarce'}, 'rpm=1/hour')
  const limiter = new RateLimiter({stack: tenant.name, namespaceId: tenant.namespace, endpoint, maxShards: 1})
  for (let index = 0; index < BUCKETS; index++) {
    // Half full, like a bucket in use; a full one takes another write.
    for (const entity of [`bare-${index}`, `user-${index}`])
      await limiter.acquire({entity, resource: RESOURCE, consume: {rpm: 50_000_000, tpm: 50_000_000_000}})
    await limiter.acquire({entity: `user-${index}`, resource: 'scarce', consume: {rpm: 1}})
  }
  let next = 0
  const user = () => `user-${next++ % BUCKETS}`
  const body = bareUpdates(tenant)
  const client = new DynamoDB({
    endpoint,
    region: 'us-east-1',
    credentials: {accessKeyId: 'local', secretAccessKey: 'local'},
    requestHandler: {httpAgent: {keepAlive: true, maxSockets: CONNECTIONS}},
  })
  const flexible = await new Promise<RateLimiterDynamo>((resolve, reject) => {
    const made = new RateLimiterDynamo({storeClient: client, tableName: 'flexible', ...PLENTY}, (error?: Error) =>
      error ? reject(error) : resolve(made),
    )
  })
  const memory = new RateLimiterMemory({points: 1, duration: 3600})
  const python = programs === undefined ? undefined : startPython(programs, endpoint, tenant.name)
  const here = (name: string, operation: () => Promise<unknown>): Rival => ({
    name,
    measure: (concurrency, durationMs) => measure(operation, concurrency, durationMs),
  })
  const there = (name: string, kind: string): Rival[] =>
    python ? [{name, measure: (concurrency, ms) => python.ask({kind, concurrency, ms})}] : []
  return {
    groups: [
      {
        title: 'admitted',
        rivals: [
          here('zael', () => limiter.acquire({entity: user(), resource: RESOURCE, consume: {rpm: 1, tpm: 500}})),
          here('AWS SDK, one UpdateItem', () => client.send(new UpdateItemCommand(body() as UpdateItemCommandInput))),
          here('rate-limiter-flexible, DynamoDB', () => flexible.consume(user())),
          ...there('zae-limiter, Python', 'admitted'),
        ],
      },
      {
        title: 'refused, known in memory',
        rivals: [
          here('zael', () => refusal(limiter.acquire({entity: user(), resource: 'scarce', consume: {rpm: 1}}))),
          here('rate-limiter-flexible, memory only', () => refusal(memory.consume(user()))),
          ...there('zae-limiter, Python', 'refused'),
        ],
      },
    ],
    close: async () => {
      await limiter.close()
      client.destroy()
      await python?.close()
    },
  }
}

/** Also resolves for admitted requests: the first request of every bucket is admitted. */
function refusal(asked: Promise<unknown>): Promise<unknown> {
  return asked.catch(error => {
    if (!(error instanceof RateLimitExceeded || error instanceof RateLimiterRes)) throw error
  })
}

interface PythonRival {
  ask(request: object): Promise<Measured>
  close(): Promise<void>
}

/** Measures its own processor time. Must be started in the project folder. */
function startPython(programs: string, endpoint: string, stack: string): PythonRival {
  const args = ['-W', 'ignore', resolve('bench/rivals.py'), endpoint, stack]
  const child = spawn(join(programs, 'python'), args, {stdio: ['pipe', 'pipe', 'inherit']})
  const lines = createInterface({input: child.stdout})[Symbol.asyncIterator]()
  return {
    ask: async request => {
      child.stdin.write(`${JSON.stringify(request)}\n`)
      const {value, done} = await lines.next()
      if (done) throw new Error('rivals.py has ended')
      return JSON.parse(value) as Measured
    },
    close: async () => {
      child.stdin.end()
      if (child.exitCode === null) await once(child, 'close')
    },
  }
}
