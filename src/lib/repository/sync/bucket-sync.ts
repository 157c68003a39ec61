import {forEachConcurrently} from '../../dynamo/concurrency.js'
import {isUnavailability} from '../../dynamo/errors.js'
import type {StoredBucket} from '../../schema/bucket-record.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {addressOf, Buckets} from '../buckets/buckets.js'
import {bucketsOfScope} from '../buckets/of-scope.js'
import type {RewriteOutcome} from '../buckets/rewrite.js'
import {ConfigCache} from '../limits/cache.js'
import {ConfigResolver} from '../limits/resolver.js'
import type {NamespaceTable} from '../table/table.js'
import {UnsupportedFeature} from '../table/unsupported-feature.js'

const CONCURRENT_WRITES = 8

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

/** What a shard is brought in line with. */
export interface SyncContext {
  readonly table: NamespaceTable
  /** Where something has changed. */
  readonly scope: ConfigScope
  /** Without a cache: configurations are read after the bucket was, so that they are newer than what it has (decision 25). */
  readonly resolver: ConfigResolver
  readonly signal: AbortSignal | undefined
}

/** Brings one shard in line; `unaffected` when the change does not concern it. */
export type AlignShard = (context: SyncContext, shard: StoredBucket) => Promise<RewriteOutcome | 'unaffected'>

/** One kind of change, and how buckets follow it. */
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
  const resolver = new ConfigResolver(table, new ConfigCache({clock: table.clock, ttlMs: 0}))
  const context = {table, scope, resolver, signal}
  const result = {checked: 0, updated: 0, failed: 0}
  const isThorough = syncs.some(sync => sync.isThorough)
  const done = new Set<string>()
  let isMore = syncs.length > 0
  while (isMore) {
    const before = done.size
    await forEachConcurrently(liveShards(table, scope, signal), CONCURRENT_WRITES, async shard => {
      const {entity, resource, shard: number} = addressOf(shard)
      const id = `${entity}#${resource}#${number}`
      if (done.has(id)) return
      done.add(id)
      const outcomes: Outcome[] = []
      for (const {align} of syncs) outcomes.push(await outcomeOf(align(context, shard)))
      if (outcomes.every(outcome => outcome === 'unaffected')) return
      result.checked++
      if (outcomes.includes('failed')) result.failed++
      else if (outcomes.includes('written')) result.updated++
      onProgress?.({...result})
    })
    isMore = isThorough && done.size > before
  }
  return result
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
