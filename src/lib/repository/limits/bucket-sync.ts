import {chunksOf, forEachConcurrently} from '../../dynamo/concurrency.js'
import {isUnavailability} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {attributes} from '../../schema/attributes.js'
import type {BucketRecord, StoredBucket} from '../../schema/bucket-record.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {decodeEntity} from '../../schema/entity-record.js'
import {type Family, familyOf, isOlderGeneration, isSameFamily} from '../../schema/family.js'
import {keys} from '../../schema/keys.js'
import {addressOf, Buckets, bucketsOfScope} from '../buckets/buckets.js'
import {type RewriteOutcome, stampStoredBucket} from '../buckets/rewrite.js'
import {type BucketUpdate, markedUpdate, stampUpdate, storeFamily, type WriteMark} from '../buckets/writes.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import {UnsupportedFeature} from '../table/unsupported-feature.js'
import {ConfigCache} from './cache.js'
import {ConfigResolver, type Resolution, type ResolvedPair} from './resolver.js'

const CONCURRENT_WRITES = 8

const SHARDS_PER_READ = 100

/** Bucket shards that were checked, updated, and failed to update. */
export interface SyncResult {
  readonly checked: number
  readonly updated: number
  readonly failed: number
}

/** Progress and cancellation. */
export interface SyncOptions {
  /** Called after each shard. */
  readonly onProgress?: ((soFar: SyncResult) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/** `readAtMs`: an instant not later than the read, in epoch ms. */
type ReadResolution = Resolution & {readonly readAtMs: number}

export interface SyncContext {
  readonly table: NamespaceTable
  /** `undefined`: the whole namespace. */
  readonly scope: ConfigScope | undefined
  /** Read after the bucket, so newer (decision 25): once for shards as found, without a cache for changed ones. */
  readonly resolve: (pair: ResolvedPair, isAsFound: boolean, atMs?: number) => Promise<ReadResolution>
  readonly signal: AbortSignal | undefined
}

export type AlignShard = (context: SyncContext, shard: StoredBucket) => Promise<RewriteOutcome | 'unaffected'>

export interface BucketSync {
  readonly align: AlignShard
  /** Called after `align` for an affected bucket of several shards with quotas. */
  readonly finish?: (context: SyncContext, pair: ResolvedPair) => Promise<RewriteOutcome>
  /** Repeat until nothing new is found: an index may miss a bucket that was just created. */
  readonly isThorough: boolean
}

/** Updates live buckets without waiting for caches to expire. A later request updates those that failed. */
export async function syncBuckets(
  table: NamespaceTable,
  scope: ConfigScope | undefined,
  syncs: readonly BucketSync[],
  {onProgress, signal}: SyncOptions = {},
): Promise<SyncResult> {
  const result = {checked: 0, updated: 0, failed: 0}
  const isThorough = syncs.some(sync => sync.isThorough)
  const done = new Set<string>()
  let isMore = syncs.length > 0
  while (isMore) {
    const before = done.size
    for await (const shards of chunksOf(liveShards(table, scope, signal), SHARDS_PER_READ)) {
      const fresh = shards.filter(shard => !done.has(idOf(shard)))
      if (fresh.length === 0) continue
      const resolve = await resolutionsOf(table, fresh, signal)
      const context = {table, scope, resolve, signal}
      const split = new Map<string, ResolvedPair>()
      await forEachConcurrently(chunksOf(fresh, 1), CONCURRENT_WRITES, async ([shard]) => {
        if (!shard || !(await align(shard, context)) || shard.kind === 'ghost') return
        const {entity, resource, shardCount, state} = shard.record
        const hasQuota = [...state.limits.values()].some(({kind}) => kind?.quota)
        if (shardCount > 1 && hasQuota) split.set(`${entity}#${resource}`, {entity, resource})
      })
      for (const pair of split.values()) {
        for (const {finish} of syncs)
          if (finish && (await outcomeOf(finish(context, pair))) === 'failed') result.failed++
      }
    }
    isMore = isThorough && done.size > before
  }
  return result

  async function align(shard: StoredBucket, context: SyncContext): Promise<boolean> {
    done.add(idOf(shard))
    const outcomes: Outcome[] = []
    for (const {align} of syncs) outcomes.push(await outcomeOf(align(context, shard)))
    if (outcomes.every(outcome => outcome === 'unaffected')) return false
    result.checked++
    if (outcomes.includes('failed')) result.failed++
    else if (outcomes.includes('written')) result.updated++
    onProgress?.({...result})
    return true
  }
}

/** If the joint read fails, each shard reads its own records: a failure concerns one shard. */
async function resolutionsOf(
  table: NamespaceTable,
  shards: readonly StoredBucket[],
  signal: AbortSignal | undefined,
): Promise<SyncContext['resolve']> {
  const resolver = new ConfigResolver(table, new ConfigCache({clock: table.clock, ttlMs: 0}))
  const foundAtMs = table.clock()
  const known = await resolver.resolveMany(shards.map(addressOf), {signal}).catch(() => undefined)
  return async (pair, isAsFound, atMs) => {
    if (isAsFound && known && !signal?.aborted) return {...known(pair, atMs), readAtMs: foundAtMs}
    const readAtMs = table.clock()
    return {...(await resolver.resolve(pair, {signal, atMs})), readAtMs}
  }
}

function idOf(stored: StoredBucket): string {
  const {entity, resource, shard} = addressOf(stored)
  return `${entity}#${resource}#${shard}`
}

type Outcome = 'written' | 'unchanged' | 'failed' | 'unaffected'

/** Skips buckets with unsupported features: a client that supports them updates them. */
async function outcomeOf(aligning: Promise<RewriteOutcome | 'unaffected'>): Promise<Outcome> {
  try {
    const outcome = await aligning
    if (outcome === 'gone') return 'unchanged'
    return outcome === 'contended' ? 'failed' : outcome
  } catch (error) {
    if (!isUnavailability(error) && !(error instanceof UnsupportedFeature)) throw error
    return 'failed'
  }
}

async function* liveShards(
  table: NamespaceTable,
  scope: ConfigScope = {level: 'system'},
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredBucket, void> {
  for await (const {shards} of bucketsOfScope(new Buckets(table), scope, signal)) {
    for (const shard of shards) if (shard.kind === 'bucket') yield shard
  }
}

/**
 * A bucket may be older than its entity's record, parent or policy (D-25, G7). Checked again after the write, so that
 * the last of concurrent changes wins. The generation is never lowered: a client with an older read cannot undo a move.
 */
const alignFamily: AlignShard = async ({table, resolve, signal}, shard) => {
  const {entity, resource} = addressOf(shard)
  return stampStoredBucket(
    table,
    shard,
    async ({record}, isAsFound) => {
      const [{cascade}, item] = await Promise.all([
        resolve({entity, resource}, isAsFound),
        getItem(table, keys.entity(table.namespace, entity), {signal}),
      ])
      const family = familyOf(item && decodeEntity(item), cascade?.cascade)
      const isMoved = isOlderGeneration(record.parentGeneration, family.parentGeneration)
      // Planted fault: a move does not reach buckets
      if (isSameFamily(record, family) && !isMoved) return undefined
      return mark => familyUpdate(table, record, family, mark)
    },
    {signal, isRepeated: true},
  )
}

export const familySync: BucketSync = {align: alignFamily, isThorough: true}

/** Requests read the charged parent here. The new revision voids older plans; a deleted bucket is not recreated. */
function familyUpdate(table: NamespaceTable, record: BucketRecord, family: Family, mark: WriteMark): BucketUpdate {
  const e = new ExpressionBuilder()
  storeFamily(e, family, record)
  e.require(attributes.bucket.limitsRevision, record.limitsRevision)
  e.exists(attributes.bucket.refilledAt)
  return markedUpdate(table, record, e, mark, {isRevision: true})
}

/** Another level may set the switch that applies. A repair skips buckets with the same switch; requests renew a bypass. */
function stampSwitch(isRepair: boolean): AlignShard {
  return async ({table, resolve, signal}, shard) => {
    const address = addressOf(shard)
    const {entity, resource} = address
    return stampStoredBucket(
      table,
      shard,
      async ({record}, isAsFound) => {
        const {access = {access: 'enabled'}, readAtMs} = await resolve({entity, resource}, isAsFound)
        const {isDisabled = false, bypassUntilMs} = record
        const isBypassed = bypassUntilMs !== undefined
        const isSame = isDisabled === (access.access === 'disabled') && isBypassed === (access.access === 'bypass')
        if (isRepair && isSame) return undefined
        return mark => stampUpdate(table, address, {...access, readAtMs}, mark, record)
      },
      {signal},
    )
  }
}

export const switchSync: BucketSync = {align: stampSwitch(false), isThorough: true}
export const switchRepair: BucketSync = {align: stampSwitch(true), isThorough: true}
