import {readFileSync} from 'node:fs'
import {fileURLToPath} from 'node:url'
import {rateOf} from '../src/lib/core/limits/limit.js'
import {parseLimits} from '../src/lib/core/limits/limit-text.js'
import {batchWrite} from '../src/lib/dynamo/batch.js'
import {Repository} from '../src/lib/repository/repository.js'
import {type BucketRecord, encodeBucket, freshWritePressure} from '../src/lib/schema/bucket-record.js'
import {openEnvironment} from './environment.js'
import {short} from './report.js'

export const ZAEL = fileURLToPath(new URL('../bin/run.js', import.meta.url))

const LIMITS = ['rpm=6000', 'tpm=600k']
const TICKS_PER_SECOND = 100

process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true'
// Node reads extra certificates at every start, which slows child processes down.
delete process.env.NODE_EXTRA_CA_CERTS

export interface Crowd {
  readonly engineName: string
  /** Flags that select this table. */
  readonly flags: readonly string[]
  /** Consumes a little of one of 200 buckets. */
  request(number: number): Promise<unknown>
  close(): Promise<void>
}

/** A nearly empty bucket, so that every level moves. */
export function bucketRecord(namespace: string, at: number): BucketRecord {
  const balance = {tokensMilli: 1000n, remainder: 0n, consumedMilli: 0n}
  const limits = parseLimits(LIMITS).map(limit => [limit.name, {...rateOf(limit), ...balance}] as const)
  const state = {refilledAtMs: Date.now(), limits: new Map([...limits, ['wcu', freshWritePressure()] as const])}
  const rest = {shard: 0, shardCount: 1, cascade: false, parent: undefined, ttlSeconds: undefined, state}
  return {namespace, entity: `user-${at}`, resource: `r${Math.floor(at / 200) % 8}`, ...rest}
}

export async function crowdedTable(count: number): Promise<Crowd> {
  const environment = await openEnvironment()
  const tenant = environment.newTenant()
  const repository = new Repository({stack: tenant.name, transport: environment.transport})
  const {namespace} = await repository.namespaces.register('default')
  const buckets = Array.from({length: count}, (_, at) => ({put: encodeBucket(bucketRecord(namespace.id, at))}))
  await batchWrite(environment.transport, tenant.name, buckets, {backoff: tenant.backoff})
  await environment.configure({...tenant, namespace: namespace.id}, {level: 'system'}, ...LIMITS)
  const limiter = environment.limiter({...tenant, namespace: namespace.id})
  return {
    engineName: environment.engineName,
    flags: ['--stack', tenant.name, '--endpoint-url', environment.endpoint],
    request: at => limiter.acquire({entity: `user-${at % 200}`, resource: 'r0', consume: {rpm: 1, tpm: 9}}),
    close: async () => {
      await limiter.close()
      await environment.close()
    },
  }
}

/** Linux only, like the engine. */
export function processTimes(pid: number): {readonly memoryMb: number; readonly processorMs: number} {
  const pages = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1])
  const [user, system] = statOf(pid)
  return {memoryMb: (pages * 4096) / 1e6, processorMs: ((user + system) * 1000) / TICKS_PER_SECOND}
}

/** Resident memory in MB, and percent of one core since the start. */
export function footprint(pid: number): [memoryMb: string, processor: string] {
  const {memoryMb, processorMs} = processTimes(pid)
  const upMs = Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000
  const startMs = (statOf(pid)[2] * 1000) / TICKS_PER_SECOND
  return [short(memoryMb), short((processorMs / (upMs - startMs)) * 100)]
}

/** In ticks: user and system time, and the start. */
function statOf(pid: number): [user: number, system: number, start: number] {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return [stat[11], stat[12], stat[19]].map(Number) as [number, number, number]
}
