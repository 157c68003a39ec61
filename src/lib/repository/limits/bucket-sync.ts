import {chunksOf, forEachConcurrently} from '../../dynamo/concurrency.js'
import {isUnavailability} from '../../dynamo/errors.js'
import type {StoredBucket} from '../../schema/bucket-record.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {addressOf, Buckets} from '../buckets/buckets.js'
import {bucketsOfScope} from '../buckets/of-scope.js'
import type {RewriteOutcome} from '../buckets/rewrite.js'
import type {NamespaceTable} from '../table/table.js'
import {UnsupportedFeature} from '../table/unsupported-feature.js'
import {ConfigCache} from './cache.js'
import {ConfigResolver, type Resolution, type ResolvedPair} from './resolver.js'

const CONCURRENT_WRITES = 8

const SHARDS_PER_READ = 100

/** How many bucket shards were checked, updated, and could not be updated. */
export interface SyncResult {
  readonly checked: number
  readonly updated: number
  readonly failed: number
}

/** How to report progress, and how to stop. */
export interface SyncOptions {
  /** Called after each shard. */
  readonly onProgress?: ((soFar: SyncResult) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/** What applies, and an instant not later than its read, in epoch ms. */
type ReadResolution = Resolution & {readonly readAtMs: number}

export interface SyncContext {
  readonly table: NamespaceTable
  readonly scope: ConfigScope
  /**
   * What applies to a shard that is as it was found, or that somebody has changed since. Configurations are read after the bucket
   * was, so that they are newer than what it has (decision 25): once for all shards that were read together, and then without
   * a cache for each.
   */
  readonly resolve: (pair: ResolvedPair, isAsFound: boolean, atMs?: number) => Promise<ReadResolution>
  readonly signal: AbortSignal | undefined
}

/** Brings one shard in line; `unaffected` when the change does not concern it. */
export type AlignShard = (context: SyncContext, shard: StoredBucket) => Promise<RewriteOutcome | 'unaffected'>

export interface BucketSync {
  readonly align: AlignShard
  /** An index may miss a bucket that was just created, so it is read again until nothing new is found. */
  readonly isThorough: boolean
}

/**
 * Goes over the live buckets of a scope after a change, so that it does not wait for caches to expire. A bucket that could
 * not be updated follows with a later request.
 */
export async function syncBuckets(
  table: NamespaceTable,
  scope: ConfigScope,
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
      await forEachConcurrently(chunksOf(fresh, 1), CONCURRENT_WRITES, async ([shard]) => {
        if (shard) await align(shard, {table, scope, resolve, signal})
      })
    }
    isMore = isThorough && done.size > before
  }
  return result

  async function align(shard: StoredBucket, context: SyncContext): Promise<void> {
    done.add(idOf(shard))
    const outcomes: Outcome[] = []
    for (const {align} of syncs) outcomes.push(await outcomeOf(align(context, shard)))
    if (outcomes.every(outcome => outcome === 'unaffected')) return
    result.checked++
    if (outcomes.includes('failed')) result.failed++
    else if (outcomes.includes('written')) result.updated++
    onProgress?.({...result})
  }
}

/** Where the records of all cannot be read together, those of each are read by themselves: a failure concerns one shard. */
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
    return {...(await resolver.resolve(pair.entity, pair.resource, {signal, atMs})), readAtMs}
  }
}

function idOf(stored: StoredBucket): string {
  const {entity, resource, shard} = addressOf(stored)
  return `${entity}#${resource}#${shard}`
}

type Outcome = 'written' | 'unchanged' | 'failed' | 'unaffected'

/** What zael cannot honour it leaves alone; a client that can will bring the bucket in line. */
async function outcomeOf(aligning: ReturnType<AlignShard>): Promise<Outcome> {
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
  scope: ConfigScope,
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredBucket, void> {
  for await (const {shards} of bucketsOfScope(new Buckets(table), scope, signal)) {
    for (const shard of shards) if (shard.kind === 'bucket') yield shard
  }
}
