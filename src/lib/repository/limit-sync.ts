import {expiresAtSeconds, LIFETIME_MULTIPLIER} from '../core/bucket.js'
import {LEVELS, type Level} from '../core/resolve.js'
import {forEachConcurrently} from '../dynamo/concurrency.js'
import {isUnavailability} from '../dynamo/errors.js'
import type {StoredBucket} from '../schema/bucket-record.js'
import {type ConfigScope, levelOf} from '../schema/config-record.js'
import {addressOf, Buckets, type ShardedBucket} from './buckets/buckets.js'
import {sendMarked} from './buckets/marked-write.js'
import {changesLimits, planBucket, plannedLimits, type SeenBucket} from './buckets/plan.js'
import {type Rewrite, type RewriteDecision, rewriteStoredBucket} from './buckets/rewrite.js'
import {stampUpdate} from './buckets/switch-write.js'
import {newMark} from './buckets/writes.js'
import {ConfigCache} from './limits/cache.js'
import {ConfigResolver, type Resolution, requireSupportedLimits} from './limits/resolver.js'
import type {NamespaceTable} from './table/table.js'
import {UnsupportedFeature} from './table/unsupported-feature.js'

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

/**
 * Updates live buckets after limits were changed at a scope, so that the change does not wait for caches to expire. Each
 * write is conditional: it clamps balances, never adds tokens, and never blocks requests (S9). A bucket to which no
 * limits apply any more stays as it is. A bucket that could not be updated gets the limits with its next slow request.
 */
export async function syncLimits(
  table: NamespaceTable,
  scope: ConfigScope,
  options: SyncOptions = {},
): Promise<SyncResult> {
  const {onProgress, signal} = options
  // No cache: limits are read after the bucket was, so that they are newer than those it has (decision 25).
  const resolver = new ConfigResolver(table, new ConfigCache({clock: table.clock, ttlMs: 0}))
  const result = {checked: 0, updated: 0, failed: 0}
  await forEachConcurrently(liveShards(table, scope, signal), CONCURRENT_WRITES, async shard => {
    const {entity, resource} = addressOf(shard)
    try {
      const align: Rewrite = async (seen, nowMs) => {
        const resolution = await resolver.resolve(entity, resource, {signal})
        isAffectedHere = isAffected(levelOf(scope), resolution.source)
        if (!isAffectedHere) return undefined
        requireSupportedLimits(resolution, {entity, resource})
        return alignWith(resolution, seen, nowMs)
      }
      let isAffectedHere = true
      const outcome = await rewriteStoredBucket(table, shard, align, signal)
      if (!isAffectedHere) return
      if (outcome === 'written') result.updated++
      if (outcome === 'contended') result.failed++
    } catch (error) {
      // What zael cannot honour it leaves alone; a client that can will bring the bucket in line.
      if (!isUnavailability(error) && !(error instanceof UnsupportedFeature)) throw error
      result.failed++
    }
    result.checked++
    onProgress?.({...result})
  })
  return result
}

/**
 * Stamps the live buckets of a scope with the switch that applies to each of them, which may be one of another level. An
 * index may miss a bucket that was just created, so it is read again until nothing new is found.
 */
export async function syncSwitch(
  table: NamespaceTable,
  scope: ConfigScope,
  options: SyncOptions = {},
): Promise<SyncResult> {
  const {onProgress, signal} = options
  const resolver = new ConfigResolver(table, new ConfigCache({clock: table.clock, ttlMs: 0}))
  const result = {checked: 0, updated: 0, failed: 0}
  const done = new Set<string>()
  for (let before = -1; before < done.size; ) {
    before = done.size
    await forEachConcurrently(liveShards(table, scope, signal), CONCURRENT_WRITES, async stored => {
      const address = addressOf(stored)
      const {entity, resource, shard} = address
      const id = `${entity}#${resource}#${shard}`
      if (done.has(id)) return
      done.add(id)
      try {
        const readAtMs = table.clock()
        const {access} = await resolver.resolve(entity, resource, {signal})
        const mark = newMark(table)
        const update = stampUpdate(table, address, {access: access?.access ?? 'enabled', readAtMs}, mark)
        if ((await sendMarked(table, update, mark, {signal})).applied) result.updated++
      } catch (error) {
        if (!isUnavailability(error)) throw error
        result.failed++
      }
      result.checked++
      onProgress?.({...result})
    })
  }
  return result
}

/** Limits of a more specific level override the change. */
function isAffected(changed: Level, source: Level | undefined): boolean {
  return source !== undefined && LEVELS.indexOf(source) >= LEVELS.indexOf(changed)
}

/** Gives a bucket the limits and the lifetime that apply to it; `undefined` when it has them. */
export function alignWith({limits, source}: Resolution, seen: SeenBucket, nowMs: number): RewriteDecision | undefined {
  const plan = planBucket(seen, nowMs, limits)
  const isPermanent = source === 'entity'
  const hasRightLifetime = isPermanent === (seen.record.ttlSeconds === undefined)
  if (hasRightLifetime && !changesLimits(plan) && seen.record.validUntilMs !== 0) return undefined
  const ttlSeconds = isPermanent ? null : expiresAtSeconds(plannedLimits(plan), LIFETIME_MULTIPLIER, nowMs)
  return {plan, write: {amounts: new Map(), ttlSeconds, isCompared: true}}
}

async function* liveShards(
  table: NamespaceTable,
  scope: ConfigScope,
  signal: AbortSignal | undefined,
): AsyncGenerator<StoredBucket, void> {
  for await (const {shards} of bucketsOf(new Buckets(table), scope, signal)) {
    for (const shard of shards) if (shard.kind === 'bucket') yield shard
  }
}

async function* bucketsOf(
  buckets: Buckets,
  scope: ConfigScope,
  signal: AbortSignal | undefined,
): AsyncGenerator<ShardedBucket, void> {
  if (scope.level === 'system') yield* buckets.ofNamespace({signal})
  else if (scope.level === 'resource') yield* buckets.ofResource(scope.resource, {signal})
  else if (levelOf(scope) === 'entity_default') yield* buckets.ofEntity(scope.entity, {signal})
  else {
    const bucket = await buckets.find(scope.entity, scope.resource, {signal})
    if (bucket) yield bucket
  }
}
