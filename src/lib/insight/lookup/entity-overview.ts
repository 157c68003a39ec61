import {availableTogether} from '../../core/buckets/shards.js'
import {type Level, type Limit, resolveLimits} from '../../core/limits/limit.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {toTokens} from '../../core/token-math.js'
import {currentRecord} from '../../limiter/levels/reads.js'
import {shareOfRecord} from '../../limiter/queue/known-bucket.js'
import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import {entityMissing} from '../../repository/entities/errors.js'
import type {Resolution} from '../../repository/limits/resolver.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {ConfigRecord} from '../../schema/config-record.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import {type SharedCharge, sharedCharge} from './family-limits.js'

export interface EntityOverview {
  readonly id: string
  /** `undefined`: no record. Limits and buckets can exist without one. */
  readonly record: EntityRecord | undefined
  /** Nearest first, as far as they exist. */
  readonly parents: readonly EntityRecord[]
  /** Known resources by name, then one entry for all others. */
  readonly resources: readonly ResourceOverview[]
}

export interface ResourceOverview {
  /** `undefined`: all resources not listed. */
  readonly resource: string | undefined
  /** `undefined`: no limits apply. */
  readonly source: Level | undefined
  readonly cascade: SharedCharge | undefined
  readonly limits: readonly LimitOverview[]
  readonly shards: number
}

export interface LimitOverview extends Limit {
  /** Whole tokens over all shards, negative in debt. `undefined`: no bucket. */
  readonly available: number | undefined
}

export async function entityOverview(
  {entities, configs, buckets}: NamespaceRepository,
  id: string,
  nowMs: number,
): Promise<EntityOverview> {
  const live = new Map<string, ShardedBucket>()
  const collect = async () => {
    for await (const bucket of buckets.ofEntity(id)) live.set(bucket.resource, bucket)
  }
  const [record, own, ofResources, system] = await Promise.all([
    entities.get(id),
    configs.ofEntity(id),
    configs.resources(),
    configs.get({level: 'system'}),
    collect(),
  ])
  if (!record && own.length === 0 && live.size === 0) throw entityMissing(id)

  const ownLimits = limitsByResource(own)
  const resourceLimits = limitsByResource(ofResources)
  const policies = {own: policiesByResource(own), resources: policiesByResource(ofResources)}
  const policyFor = (resource = ''): Resolution['cascade'] => {
    const levels = [
      ['entity', policies.own.get(resource)],
      ['entity_default', policies.own.get(DEFAULT_RESOURCE)],
      ['resource', policies.resources.get(resource)],
    ] as const
    for (const [level, cascade] of levels) if (cascade !== undefined) return {cascade, level}
    return undefined
  }
  const overview = (resource: string | undefined): ResourceOverview => {
    const resolved = resolveLimits({
      entity: ownLimits.get(resource ?? '') ?? [],
      entity_default: ownLimits.get(DEFAULT_RESOURCE) ?? [],
      resource: resourceLimits.get(resource ?? '') ?? [],
      system: system?.limits ?? [],
    })
    return {
      resource,
      source: resolved?.source,
      cascade: sharedCharge(record, policyFor(resource)),
      ...levels(live.get(resource ?? ''), resolved?.limits ?? [], nowMs),
    }
  }
  const names = new Set([...ownLimits.keys(), ...resourceLimits.keys(), ...live.keys()])
  names.delete(DEFAULT_RESOURCE)
  return {
    id,
    record,
    parents: record?.parent === undefined ? [] : await entities.parents(id),
    resources: [...[...names].sort(), undefined].map(overview),
  }
}

function policiesByResource(records: readonly ConfigRecord[]): Map<string, boolean | undefined> {
  return new Map(records.flatMap(({scope, cascade}) => (scope.level === 'system' ? [] : [[scope.resource, cascade]])))
}

function limitsByResource(records: readonly ConfigRecord[]): Map<string, readonly Limit[]> {
  return new Map(records.flatMap(({scope, limits}) => (scope.level === 'system' ? [] : [[scope.resource, limits]])))
}

/** Uses the limits that apply now. A bucket gets them with its next request. */
function levels(
  bucket: ShardedBucket | undefined,
  limits: readonly Limit[],
  nowMs: number,
): Pick<ResourceOverview, 'limits' | 'shards'> {
  const shards = (bucket?.shards ?? []).filter(shard => shard.kind === 'bucket')
  const states = shards.map(shard => shareOfRecord(currentRecord(shard, nowMs, limits)))
  const available = (name: string) => (states.length === 0 ? undefined : toTokens(availableTogether(states, name)))
  return {limits: limits.map(limit => ({...limit, available: available(limit.name)})), shards: states.length}
}
