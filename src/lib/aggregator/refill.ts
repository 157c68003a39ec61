import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {sendMarked} from '../repository/buckets/marked-write.js'
import {type BucketPlan, planBucket, type SeenBucket} from '../repository/buckets/plan.js'
import {newMark, plannedUpdate} from '../repository/buckets/writes.js'
import type {Table} from '../repository/table/table.js'
import type {BucketChange, ShardId} from './bucket-change.js'

/** A shard of a bucket that was consumed from in this batch. */
export interface ActiveShard extends ShardId {
  readonly seen: SeenBucket
  /** When it was seen so. */
  readonly atMs: number
  /** Millitokens that left it in this batch, per limit. */
  readonly spentMilli: ReadonlyMap<string, bigint>
}

/** What was seen longer ago than this says too little about now. */
export const FRESH_MS = 60_000

/**
 * A refill must be there before clients need it: while it is on its way the next batch is already being consumed, and a
 * client that has seen too little for its next request plans a refill of its own, which this one would thwart.
 */
const BATCHES_AHEAD = 2n

/** Every shard that was consumed from, as its last change left it. */
export function activeShards(changes: readonly BucketChange[]): ActiveShard[] {
  const shards = new Map<string, ActiveShard & {spentMilli: Map<string, bigint>}>()
  for (const change of changes) {
    if (change.after.kind !== 'bucket') continue
    const {namespace, entity, resource, shard, atMs, after: seen} = change
    const key = shardKey(change)
    const spentMilli = shards.get(key)?.spentMilli ?? new Map<string, bigint>()
    for (const [limit, milli] of change.consumedMilli) {
      if (milli > 0n) spentMilli.set(limit, (spentMilli.get(limit) ?? 0n) + milli)
    }
    shards.set(key, {namespace, entity, resource, shard, atMs, seen, spentMilli})
  }
  return [...shards.values()].filter(({spentMilli}) => spentMilli.size > 0)
}

export const shardKey = ({namespace, entity, resource, shard}: ShardId): string =>
  `${namespace}/${entity}#${resource}#${shard}`

/**
 * Credits a shard with the time that has passed, so that the next requests need no more than one call. Every limit is
 * credited, because they share the refill instant; fractions are carried. Resolves to whether it was written: not when
 * it would not help, and not when somebody else was faster.
 */
export async function refillShard(
  table: Table,
  active: ActiveShard,
  options: {readonly repairPressure: boolean},
): Promise<boolean> {
  const nowMs = table.clock()
  const {ttlSeconds} = active.seen.record
  const isExpired = ttlSeconds !== undefined && ttlSeconds * 1000 <= nowMs
  if (nowMs - active.atMs > FRESH_MS || isExpired) return false
  const plan = planBucket(active.seen, nowMs)
  if (plan.refilledAtMs === active.seen.record.state.refilledAtMs) return false
  if (!helps(plan, active) && !(options.repairPressure && gains(plan, WRITE_PRESSURE_LIMIT))) return false
  const mark = newMark(table)
  const namespaceTable = {...table, namespace: active.namespace}
  const update = plannedUpdate(namespaceTable, plan, {amounts: new Map(), isExact: true}, mark)
  return (await sendMarked(table, update, mark)).applied
}

/** Whether some limit would not last for two more batches like this, and gets more. */
function helps(plan: BucketPlan, {seen, spentMilli}: ActiveShard): boolean {
  return [...spentMilli].some(([limit, milli]) => {
    const held = seen.record.state.limits.get(limit)?.tokensMilli
    return held !== undefined && held < BATCHES_AHEAD * milli && gains(plan, limit)
  })
}

function gains(plan: BucketPlan, limit: string): boolean {
  return (plan.changes.get(limit)?.creditMilli ?? 0n) > 0n
}
