import {availableTogether} from '../../core/buckets/shards.js'
import {plainAt} from '../../core/calendar/kind-definition.js'
import {isInFlight, LEVELS, type Level, type Limit} from '../../core/limits/limit.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {toTokens} from '../../core/token-math.js'
import {currentRecord} from '../../limiter/levels/reads.js'
import {topUpsOf} from '../../limiter/queue/apply-limits.js'
import {shareOfRecord} from '../../limiter/queue/known-bucket.js'
import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import {entityMissing} from '../../repository/entities/lineage.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {AccessSwitch, ConfigRecord, ConfigScope} from '../../schema/config-record.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import {type ChargedLevels, MOST_LEVELS} from '../../schema/namespace-record.js'
import {type SwitchSet, switchSet} from './audit-search.js'
import {type SharedCharge, sharedCharge} from './family-limits.js'

export interface EntityOverview {
  readonly id: string
  /** `undefined`: no record. Limits and buckets can exist without one. */
  readonly record: EntityRecord | undefined
  /** ISO 8601: it has no record, because it was deleted while disabled. It stays blocked. */
  readonly deletedAt?: string | undefined
  /** Nearest first, as far as they exist. */
  readonly parents: readonly EntityRecord[]
  readonly levels: ChargedLevels
  /** Known resources by name, then one entry for all others. */
  readonly resources: readonly ResourceOverview[]
}

export interface ResourceOverview {
  /** `undefined`: all resources not listed. */
  readonly resource: string | undefined
  /** `undefined`: no limits apply. */
  readonly source: Level | undefined
  readonly cascade: SharedCharge | undefined
  /** The switch that decides, of the entity or of a parent that is charged too. Absent if none is set. */
  readonly access?: AccessOverview
  readonly limits: readonly LimitOverview[]
  readonly shards: number
}

export interface AccessOverview {
  readonly access: AccessSwitch
  /** Epoch ms at which it expires; absent if it stays. */
  readonly untilMs?: number | undefined
  readonly reason?: string | undefined
  readonly scope: ConfigScope
  /** Absent if no audit event shows it. */
  readonly set?: SwitchSet | undefined
}

export interface LimitOverview extends Limit {
  /** Whole tokens that apply now: with a temporary limit, a schedule and top-ups. */
  readonly capacityNow: number
  /** Whole tokens over all shards, negative in debt. `undefined`: no bucket, or an in-flight limit. */
  readonly available: number | undefined
}

export async function entityOverview(
  namespace: NamespaceRepository,
  id: string,
  nowMs: number,
): Promise<EntityOverview> {
  const {entities, configs, buckets} = namespace
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

  const hasParent = record?.parent !== undefined
  const [parents, charged] = hasParent
    ? await Promise.all([entities.parents(id), namespace.levels()])
    : [[], 'parent' as const]
  const above = record?.parent === undefined ? [] : [record.parent, ...parents.flatMap(({parent}) => parent ?? [])]
  const chargeable = above.slice(0, MOST_LEVELS[charged] - 1)
  const ofParents = await Promise.all(chargeable.map(async parent => byResource(await configs.ofEntity(parent))))
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
    const cascade = sharedCharge(record, policies[0])
    const access = accessOf(LEVELS.map(level => found[level]))
    let decisive = access
    let isCharged = cascade?.charged
    for (const [at, ofParent] of ofParents.entries()) {
      if (!isCharged || decisive?.access === 'disabled') break
      const atParent = [ofParent.get(resource ?? ''), ofParent.get(DEFAULT_RESOURCE), found.resource]
      const parentAccess = accessOf(atParent)
      if (parentAccess?.access === 'disabled') decisive = parentAccess
      const policy = atParent.find(each => each?.cascade !== undefined)?.cascade
      isCharged = policy ?? parents[at]?.cascade
    }
    return {
      resource,
      source,
      cascade,
      ...(decisive && {access: decisive}),
      ...levels(live.get(resource ?? ''), (source && found[source]?.limits) ?? [], nowMs),
    }
  }
  const names = new Set([...ofEntity.keys(), ...ofAll.keys(), ...live.keys()])
  names.delete(DEFAULT_RESOURCE)
  return {
    id,
    record,
    deletedAt: record ? undefined : own.find(({deletedAt}) => deletedAt)?.deletedAt,
    parents,
    levels: charged,
    resources: await withOrigins(namespace, [...[...names].sort(), undefined].map(overview)),
  }
}

/** Reads the events of each switch once. */
async function withOrigins(namespace: NamespaceRepository, resources: ResourceOverview[]): Promise<ResourceOverview[]> {
  const found = new Map<string, SwitchSet | undefined>()
  for (const {access} of resources) {
    const key = JSON.stringify(access?.scope)
    if (access && !found.has(key)) found.set(key, await switchSet(namespace, access.scope, access.access))
  }
  return resources.map(each => {
    const set = each.access && found.get(JSON.stringify(each.access.scope))
    return each.access && set ? {...each, access: {...each.access, set}} : each
  })
}

/** Records from the most to the least specific level. */
function accessOf(records: readonly (ConfigRecord | undefined)[]): AccessOverview | undefined {
  const record = records.find(each => each?.access !== undefined)
  if (!record) return undefined
  const {access, scope, accessUntilMs: untilMs, accessReason: reason} = record
  return {access: access as AccessSwitch, scope, untilMs, reason}
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
  const records = shards.map(shard => currentRecord(shard, nowMs, limits))
  const states = records.map(shareOfRecord)
  const topUps = topUpsOf(records, nowMs)
  const overview = (limit: Limit): LimitOverview => ({
    ...limit,
    capacityNow: plainAt(limit, nowMs).capacity + toTokens(topUps.get(limit.name) ?? 0n),
    available: states.length === 0 || isInFlight(limit) ? undefined : toTokens(availableTogether(states, limit.name)),
  })
  return {limits: limits.map(overview), shards: states.length}
}
