import {rateOf} from '../src/lib/core/limits/limit.js'
import {parseLimits} from '../src/lib/core/limits/limit-text.js'
import {batchWrite} from '../src/lib/dynamo/batch.js'
import {Repository} from '../src/lib/repository/repository.js'
import type {Item} from '../src/lib/schema/attribute-value.js'
import {type BucketRecord, encodeBucket, freshWritePressure} from '../src/lib/schema/bucket-record.js'
import {encodeConfig} from '../src/lib/schema/config-record.js'
import {encodeEntity} from '../src/lib/schema/entity-record.js'
import {encodeUsage} from '../src/lib/schema/usage-record.js'
import {encodeEntityConfigRegistry} from '../test/schema/samples.js'
import type {BenchEnvironment} from './environment.js'

export interface TableSize {
  readonly entities: number
  /** Per entity. */
  readonly usageHours: number
}

const RESOURCE = 'gpt-4'
const LIMITS = parseLimits(['rpm=6000', 'tpm=600k'])
const ENTITIES_PER_TEAM = 1000
const HOUR_MS = 3_600_000
/** Late enough that nothing expires during a benchmark. */
const TTL_SECONDS = Math.floor(Date.now() / 1000) + 30 * 86_400

/** Fixed length, so that all items have the same size. */
export const entityId = (at: number): string => `user-${String(at).padStart(8, '0')}`
const teamId = (at: number): string => `team-${String(Math.floor(at / ENTITIES_PER_TEAM)).padStart(8, '0')}`

/**
 * Fills the namespace "default": each entity gets a parent, a bucket, limits and hours of usage. Bypasses the repository,
 * because 100,000 audited changes would take an hour.
 */
export async function fillTable(environment: BenchEnvironment, size: TableSize): Promise<string> {
  const tenant = environment.newTenant()
  const {name, transport, backoff} = tenant
  if (!environment.isNew) return name
  const repository = new Repository({stack: name, transport})
  const {namespace} = await repository.namespaces.register('default')
  await environment.configure({...tenant, namespace: namespace.id}, {level: 'system'}, 'rpm=6000', 'tpm=600k')
  const requests = (function* () {
    for (const put of itemsOf(namespace.id, size)) yield {put}
  })()
  await batchWrite(transport, name, requests, {backoff})
  return name
}

function* itemsOf(namespace: string, {entities, usageHours}: TableSize): Generator<Item, void> {
  yield encodeEntityConfigRegistry({namespace, counts: new Map([[RESOURCE, entities]])})
  const nowMs = Date.now()
  const created = {createdAt: '2026-01-01T00:00:00Z', version: 1, metadata: {plan: 'gold'}, cascade: true}
  const settings = {onUnavailable: undefined, auditRetentionDays: undefined}
  for (let at = 0; at < entities; at++) {
    const entity = entityId(at)
    const parent = teamId(at)
    if (at % ENTITIES_PER_TEAM === 0) {
      yield encodeEntity({namespace, entity: parent, name: parent, parent: undefined, ...created})
    }
    yield encodeEntity({namespace, entity, name: `User ${at}`, parent, ...created})
    yield encodeBucket(bucketOf(namespace, entity, parent, nowMs))
    yield encodeConfig({namespace, scope: {level: 'entity', entity, resource: RESOURCE}, limits: LIMITS, ...settings})
    for (let hour = 1; hour <= usageHours; hour++) {
      const start = new Date(Math.floor(nowMs / HOUR_MS - hour) * HOUR_MS).toISOString().replace('.000', '')
      const counted = {window: 'hourly' as const, start, totalEvents: at % 100, ttlSeconds: TTL_SECONDS}
      const tokens = new Map([['rpm', at % 100] as const, ['tpm', (at % 100) * 500] as const])
      yield encodeUsage({namespace, entity, resource: RESOURCE, tokens, ...counted})
    }
  }
}

/** Partly used, so that every level is computed. */
function bucketOf(namespace: string, entity: string, parent: string, nowMs: number): BucketRecord {
  const balance = {tokensMilli: 1000n, remainder: 0n, consumedMilli: 5000n}
  const limits = LIMITS.map(limit => [limit.name, {...rateOf(limit), ...balance}] as const)
  const state = {refilledAtMs: nowMs, limits: new Map([...limits, ['wcu', freshWritePressure()] as const])}
  const rest = {shard: 0, shardCount: 1, cascade: true, parent, ttlSeconds: TTL_SECONDS, state}
  return {namespace, entity, resource: RESOURCE, ...rest}
}
