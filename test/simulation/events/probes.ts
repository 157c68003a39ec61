import {RateLimitExceeded, RequestTooLarge} from '../../../src/lib/limiter/refusal/errors.js'
import {RESOURCE} from '../scenario.js'
import {bucketId, type StoredShard, shardChange} from '../world/table-writes.js'
import {STACK, type World} from '../world/world.js'
import type {Stage} from './stage.js'

/** Travel time of the messages of one decision, in ms. */
const MESSAGES_MS = 100

/** A wait is rounded up to 1 ms, plus 1 ms for truncated instants. */
const ROUNDING_MS = 2

/** L6: the reported balance is never more than the true one. */
export async function readAvailable(stage: Stage, by: number, entity: string): Promise<void> {
  const {world, oracles} = stage
  const bucket = bucketId(world.namespace, entity, RESOURCE)
  const process = world.processes[by]
  const operation = stage.begin(by, `available ${entity}`)
  const startMs = world.time.nowMs
  try {
    const available = await process?.limiter.available({entity, resource: RESOURCE})
    operation.decided = {as: 'looked', buckets: [bucket]}
    const isQuiet = !(oracles.activity.get(bucket) ?? []).some(({atMs}) => atMs >= startMs - 1000)
    const isSettled = world.time.nowMs - oracles.timeline.since(bucket) > 60_000
    for (const [name, tokens] of Object.entries(available ?? {})) {
      const left = oracles.rates.left(bucket, name, world.time.nowMs)
      if (!isQuiet || !isSettled || left === undefined || world.spreadMs > 0) continue
      if (BigInt(tokens) * 1000n > left) oracles.answers.exceedsTruth(`${bucket} ${name}`, tokens, Number(left) / 1000)
    }
  } catch (error) {
    oracles.answers.failed(`available ${entity}`, error)
  } finally {
    stage.end(operation)
  }
}

/**
 * L1: after a pause as long as the fill time, a new process is admitted for the whole capacity, whatever happened
 * before. A refill instant up to a day ahead of the clock may be right, so the test waits for it.
 */
export async function checkHealing(stage: Stage): Promise<void> {
  const {world, oracles} = stage
  const {time, scenario} = world
  if (!oracles.families.isKnown) return
  const entities = new Set(scenario.steps.flatMap(({event}) => (event.kind === 'acquire' ? [event.entity] : [])))
  const buckets = [...entities].flatMap(entity => familyOf(stage, entity))
  // Raised limits add no tokens until a request updates the bucket.
  if (buckets.some(bucket => oracles.timeline.since(bucket) > 0)) return
  const waits = buckets.map(bucket => {
    const fillMs = oracles.rates.fillTimeMs(bucket, time.nowMs)
    return fillMs === undefined ? undefined : fillMs + standstillMs(world, bucket) + repayMs(world, bucket)
  })
  if (waits.includes(undefined)) return
  await time.runUntil(time.nowMs + Math.max(0, ...waits.map(ms => ms ?? 0)) + MESSAGES_MS)
  const limiter = world.freshLimiter()
  const boosted = new Set(
    scenario.steps.flatMap(({event}) => (event.kind === 'boost' ? event.limits.map(({name}) => name) : [])),
  )
  for (const entity of [...entities].sort()) {
    const family = familyOf(stage, entity)
    const consume: Record<string, number> = {}
    for (const [name, {capacity}] of oracles.timeline.now(family[0] as string)) {
      // Debts of temporary limits are tracked by the schedule oracle, so the fill time is unknown here.
      if (boosted.has(name)) continue
      const capacities = family.map(bucket => oracles.timeline.now(bucket).get(name)?.capacity ?? capacity)
      consume[name] = Math.min(...capacities.map(milli => Number(milli) / 1000))
    }
    const lacksShards = family.some(bucket => isShardMissing(storedShards(world, bucket)))
    let refusal = await ask()
    // One exception, S8: an expired shard loses its tokens and is recreated from another shard's. Both then refill:
    // this takes as long as the reported wait, at most the fill time of an empty bucket.
    const fillMs = Math.max(...family.map(bucket => oracles.rates.fillTimeMs(bucket, time.nowMs) ?? 0))
    const waitMs = refusal instanceof RateLimitExceeded ? refusal.retryAfterMs : null
    if (lacksShards && waitMs !== null && waitMs <= fillMs + ROUNDING_MS) {
      await time.runUntil(time.nowMs + waitMs)
      refusal = await ask()
    }
    if (refusal) oracles.answers.neverHeals(family[0] as string, refusal.message)

    async function ask(): Promise<RateLimitExceeded | RequestTooLarge | undefined> {
      let refused: RateLimitExceeded | RequestTooLarge | undefined
      const asked = limiter
        .acquire({entity, resource: RESOURCE, consume})
        .then(lease => lease.rollback())
        .catch(error => {
          if (error instanceof RateLimitExceeded || error instanceof RequestTooLarge) refused = error
          else oracles.answers.failed(`healed ${entity}`, error)
        })
      await time.runUntil(time.nowMs + 5000)
      await asked
      return refused
    }
    // The next child asks the same parent.
    const parentWaits = family.slice(1).map(bucket => oracles.rates.fillTimeMs(bucket, time.nowMs) ?? 0)
    await time.runUntil(time.nowMs + Math.max(0, ...parentWaits))
  }
}

/** How far the clock is behind the bucket's latest refill instant, in ms. */
function standstillMs(world: World, bucket: string): number {
  const instants = storedShards(world, bucket).map(({refilledAt}) => Number(refilledAt ?? 0n))
  return Math.max(0, Math.max(0, ...instants) - world.time.nowMs)
}

/** Time to repay the debt that provider feedback created, in ms. */
function repayMs(world: World, bucket: string): number {
  const lowered = storedShards(world, bucket).filter(({feedback}) => feedback.size > 0)
  const debts = lowered.flatMap(({limits, shardCount}) =>
    [...limits.values()].map(({tokens, amount, period}) =>
      tokens < 0n && amount > 0n ? Number((-tokens * period * BigInt(shardCount)) / amount) : 0,
    ),
  )
  return Math.max(0, ...debts)
}

/** Whether shards are missing by the count of any shard. */
function isShardMissing(shards: readonly StoredShard[]): boolean {
  return shards.length > 0 && shards.length < Math.max(...shards.map(({shardCount}) => shardCount))
}

export function storedShards(world: World, bucket: string): StoredShard[] {
  return world.items.flatMap(item => {
    const shard = shardChange({table: STACK, sequence: 0, atMs: 0, before: undefined, after: item})
    return shard?.bucket === bucket && shard.after ? [shard.after] : []
  })
}

function familyOf({world, oracles}: Stage, entity: string): string[] {
  return [entity, ...oracles.families.parentsOf(entity)].map(each => bucketId(world.namespace, each, RESOURCE))
}
