import type {BucketLimit} from '../../core/buckets/bucket.js'
import {groupBy} from '../../core/group-by.js'
import type {KindedRate} from '../../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {type Balance, refill, shareOfRate} from '../../core/token-math.js'
import type {Item} from '../../schema/attribute-value.js'
import {
  type BucketRecord,
  decodeBucket,
  limitAttribute,
  type Residue,
  readShardCount,
} from '../../schema/bucket-record.js'
import {keyId, keys, partitionOf} from '../../schema/keys.js'
import {isExpiredItem, readTtlSeconds} from '../../schema/legacy-item.js'
import {LITERAL_DEFAULT, legacyKeys, legacySortKeys} from '../../schema/legacy-key.js'
import {decodeCompositeBucket, decodePerLimitBucket, isReadableBucket} from '../layouts/old-limit-parts.js'
import {isOfType, oldItemOf, queryOldItems, readItems} from '../records/conditional.js'
import {LITERAL_PREFIX, type MigrationContext, type OldItem, oldPrefixes} from '../records/finding.js'

/** Counters that adjustments left behind. Millitokens, negative if more was taken than refunded. */
export interface OldResidue {
  readonly location: string
  readonly tokensMilli: bigint
}

export interface OldBucket {
  /** In the location used last. `others`: in other locations, which clients may still use. */
  readonly limits: ReadonlyMap<string, OldLimit>
  readonly others: ReadonlyMap<string, readonly OldLimit[]>
  readonly residue: ReadonlyMap<string, readonly OldResidue[]>
  /** Epoch seconds: the latest of its items. `undefined`: one never expires. */
  readonly ttlSeconds: number | undefined
  readonly cascade: boolean
  readonly parent: string | undefined
}

/** `unreadable` if a live item is incomplete, because then the balance of the whole bucket is unknown. */
export function readOldBucket(
  items: readonly OldItem<'bucket'>[],
  nowMs: number,
): OldBucket | 'expired' | 'unreadable' {
  const live = items.filter(({item}) => !isExpiredItem(item, nowMs))
  if (live.length === 0) return 'expired'
  if (!live.every(({item}) => isReadableBucket(item))) return 'unreadable'
  const byLocation = new Map<string, Map<string, OldLimit>>()
  const residue = new Map<string, OldResidue[]>()
  let record: BucketRecord | undefined
  for (const old of live.sort(newestFirst)) {
    const parts = decodeParts(old)
    const lastUsedMs = record?.state.refilledAtMs ?? -Infinity
    if (parts.record && parts.record.state.refilledAtMs > lastUsedMs) record = parts.record
    for (const [name, limit] of parts.limits) addLimit(byLocation, name, limit)
    for (const [name, {tokensMilli}] of parts.residue) {
      addResidue(residue, name, {location: residueLocation(old), tokensMilli})
    }
  }
  const latest = Math.max(...live.map(({item}) => readTtlSeconds(item) ?? Infinity))
  return {
    ...chooseLastUsed(byLocation),
    residue,
    ttlSeconds: latest === Infinity ? undefined : latest,
    cascade: record?.cascade ?? false,
    parent: record?.parent,
  }
}

/** Shards are the newest layout, sorted by number. */
function newestFirst({record: a}: OldItem<'bucket'>, {record: b}: OldItem<'bucket'>): number {
  if (a.shard !== undefined && b.shard !== undefined) return a.shard - b.shard
  return Number(b.shard !== undefined) - Number(a.shard !== undefined) || b.generation - a.generation
}

/** Limits that share a location are shards. */
function addLimit(byLocation: Map<string, Map<string, OldLimit>>, name: string, limit: OldLimit): void {
  const known = byLocation.get(name) ?? new Map<string, OldLimit>()
  const sibling = known.get(limit.location)
  byLocation.set(name, known.set(limit.location, sibling ? addShard(sibling, limit) : limit))
}

/** A separate location: another shard in the same place may be live. */
const residueLocation = ({record}: OldItem<'bucket'>): string => `${locationOf(record)}/rest`

function addResidue(residue: Map<string, OldResidue[]>, name: string, added: OldResidue): void {
  const known = residue.get(name) ?? []
  const sibling = known.find(({location}) => location === added.location)
  const others = known.filter(({location}) => location !== added.location)
  residue.set(name, [...others, {...added, tokensMilli: added.tokensMilli + (sibling?.tokensMilli ?? 0n)}])
}

/** The one refilled last was used last. Ties go to the newer layout. */
function chooseLastUsed(
  byLocation: ReadonlyMap<string, ReadonlyMap<string, OldLimit>>,
): Pick<OldBucket, 'limits' | 'others'> {
  const limits = new Map<string, OldLimit>()
  const others = new Map<string, OldLimit[]>()
  for (const [name, locations] of byLocation) {
    const [last, ...rest] = [...locations.values()].sort((a, b) => b.refilledAtMs - a.refilledAtMs)
    if (last) limits.set(name, last)
    if (rest.length > 0) others.set(name, rest)
  }
  return {limits, others}
}

export async function readOldBucketItems(
  context: MigrationContext,
  namespace: string,
  entity: string,
  resources: ReadonlySet<string>,
): Promise<Map<string, OldItem<'bucket'>[]>> {
  const prefixes = oldPrefixes(context, 'bucket', namespace)
  const between = legacySortKeys.buckets(resources)
  const lists = prefixes.map(async prefix => {
    const items: OldItem[] = []
    const stretch = {partition: partitionOf(legacyKeys.entity(prefix, entity)), between}
    for await (const old of queryOldItems(context, stretch)) items.push(old)
    return items
  })
  const found = (await Promise.all(lists)).flat()
  if (context.literalDefaultMoves && prefixes.includes(LITERAL_PREFIX)) {
    found.push(...(await readLiteralShards(context, entity, resources)))
  }
  const buckets = found.filter(isOfType('bucket')).filter(({record}) => resources.has(record.resource))
  return groupBy(buckets, ({record}) => record.resource)
}

/** Under the literal id `default`. The first shard has the count. */
async function readLiteralShards(
  context: MigrationContext,
  entity: string,
  resources: ReadonlySet<string>,
): Promise<OldItem[]> {
  const shardKey = (resource: string, shard: number) => keys.bucket(LITERAL_DEFAULT, entity, resource, shard)
  const firstShards = await readItems(
    context,
    [...resources].map(resource => shardKey(resource, 0)),
  )
  const further = [...resources].flatMap(resource => {
    const first = firstShards.get(keyId(shardKey(resource, 0)))
    const count = first ? readShardCount(first) : 1
    return Array.from({length: count - 1}, (_, at) => shardKey(resource, at + 1))
  })
  const shards = [...firstShards.values(), ...(await readItems(context, further)).values()]
  return shards.flatMap(item => oldItemOf(context, item) ?? [])
}

export interface OldLimit {
  readonly state: BucketLimit
  /** Over all shards, existing or not. */
  readonly whole: KindedRate
  readonly refilledAtMs: number
  readonly countsConsumption: boolean
  readonly location: string
  readonly item: Item
  readonly isPerLimit: boolean
}

const NO_RESIDUE: ReadonlyMap<string, Residue> = new Map()

/** Without a record: the item of a single limit, or residue, which adjustments left behind for a deleted limit. */
function decodeParts({item, record: identity}: OldItem<'bucket'>) {
  const location = locationOf(identity)
  const single = decodePerLimitBucket(item)
  if (single) {
    const {limit, state, refilledAtMs, countsConsumption} = single
    const limits = new Map([
      [limit, {state, whole: state, refilledAtMs, countsConsumption, location, item, isPerLimit: true}],
    ])
    return {record: undefined, limits, residue: NO_RESIDUE}
  }
  const stored = decodeCompositeBucket(item) ?? decodeBucket(item)
  if (stored?.kind !== 'bucket') {
    return {
      record: undefined,
      limits: new Map<string, OldLimit>(),
      residue: stored ? withoutWritePressure(stored.residue) : NO_RESIDUE,
    }
  }
  const {record, incomplete} = stored
  const {shard, shardCount, state: bucket} = record
  const limits = new Map(
    [...withoutWritePressure(bucket.limits)].map(([name, whole]): [string, OldLimit] => {
      const state = {...whole, ...shareOfRate(name, whole, shard, shardCount)}
      const countsConsumption = limitAttribute(name, 'consumed') in item
      const refilledAtMs = bucket.refilledAtMs
      return [name, {state, whole, refilledAtMs, countsConsumption, location, item, isPerLimit: false}]
    }),
  )
  return {record, limits, residue: withoutWritePressure(incomplete)}
}

/** As stored in marks: namespace id in the key, and layout. Shards share one location. */
function locationOf({namespace = '', limit, shard}: OldItem<'bucket'>['record']): string {
  if (limit !== undefined) return `${namespace}/limits`
  return `${namespace}/${shard === undefined ? 'bucket' : 'shards'}`
}

function withoutWritePressure<T>(limits: ReadonlyMap<string, T>): Map<string, T> {
  return new Map([...limits].filter(([name]) => name !== WRITE_PRESSURE_LIMIT))
}

/** An instant before the last refill changes nothing. */
export function balanceAt({state, refilledAtMs}: Pick<OldLimit, 'state' | 'refilledAtMs'>, atMs: number): Balance {
  return refill(state, state, atMs - refilledAtMs)
}

/** At the later refill instant. Charges go to `one`. */
function addShard(one: OldLimit, other: OldLimit): OldLimit {
  const refilledAtMs = Math.max(one.refilledAtMs, other.refilledAtMs)
  const a = balanceAt(one, refilledAtMs)
  const b = balanceAt(other, refilledAtMs)
  return {
    ...one,
    refilledAtMs,
    state: {
      ...one.state,
      capacityMilli: one.state.capacityMilli + other.state.capacityMilli,
      refillAmountMilli: one.state.refillAmountMilli + other.state.refillAmountMilli,
      tokensMilli: a.tokensMilli + b.tokensMilli,
      consumedMilli: one.state.consumedMilli + other.state.consumedMilli,
      // The sum could exceed a whole millitoken. Dropping the smaller one loses at most half.
      remainder: a.remainder > b.remainder ? a.remainder : b.remainder,
    },
  }
}
