import {availableTogether} from '../../core/buckets/shards.js'
import {LEVELS, type Level, type Limit} from '../../core/limits/limit.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {toTokens} from '../../core/token-math.js'
import {currentRecord} from '../../limiter/levels/reads.js'
import {shareOfRecord} from '../../limiter/queue/known-bucket.js'
import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import {entityMissing} from '../../repository/entities/lineage.js'
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

  const ofEntity = byResource(own)
  const ofAll = byResource(ofResources)
  const overview = (resource: string | undefined): ResourceOverview => {
    const found = {
      entity: ofEntity.get(resource ?? ''),
      entity_default: ofEntity.get(DEFAULT_RESOURCE),
      resource: ofAll.get(resource ?? ''),
      system,
    }
    const source = LEVELS.find(level => (found[level]?.limits ?? []).length > 0)
    const policies = LEVELS.flatMap(level => {
      const cascade = level === 'system' ? undefined : found[level]?.cascade
      return cascade === undefined ? [] : [{cascade, level}]
    })
    return {
      resource,
      source,
      cascade: sharedCharge(record, policies[0]),
      ...levels(live.get(resource ?? ''), (source && found[source]?.limits) ?? [], nowMs),
    }
  }
  const names = new Set([...ofEntity.keys(), ...ofAll.keys(), ...live.keys()])
  names.delete(DEFAULT_RESOURCE)
  return {
    id,
    record,
    parents: record?.parent === undefined ? [] : await entities.parents(id),
    resources: [...[...names].sort(), undefined].map(overview),
  }
}

function byResource(records: readonly ConfigRecord[]): Map<string, ConfigRecord> {
  return new Map(records.flatMap(record => (record.scope.level === 'system' ? [] : [[record.scope.resource, record]])))
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
