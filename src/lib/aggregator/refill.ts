import {isBypassedAt, sessionEndMs} from '../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {ExpressionBuilder} from '../dynamo/expression.js'
import {sendMarked} from '../repository/buckets/marked-write.js'
import {type BucketPlan, planBucket, type SeenBucket} from '../repository/buckets/plan.js'
import {
  type BucketUpdate,
  countWrite,
  markedUpdate,
  newMark,
  plannedUpdate,
  type WriteMark,
} from '../repository/buckets/writes.js'
import type {NamespaceTable, Table} from '../repository/table/table.js'
import {n} from '../schema/attribute-value.js'
import {attributes} from '../schema/attributes.js'
import {type BucketRecord, limitAttribute} from '../schema/bucket-record.js'
import {type BucketChange, FRESH_MS, type ShardId, shardKey} from './bucket-change.js'

export interface ActiveShard extends ShardId {
  /** After its last change in the batch. */
  readonly seen: SeenBucket
  readonly atMs: number
  readonly spentMilli: ReadonlyMap<string, bigint>
}

/**
 * Refill if the balance lasts fewer batches: the refill must arrive before a client plans its own, which would
 * conflict.
 */
const BATCHES_AHEAD = 2n

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

/** Resolves to whether it wrote. If a refill fails or would not help, `repairPressure` writes the pressure alone. */
export async function refillShard(
  table: Table,
  active: ActiveShard,
  options: {readonly repairPressure: boolean},
): Promise<boolean> {
  const nowMs = table.clock()
  const {ttlSeconds} = active.seen.record
  const isExpired = ttlSeconds !== undefined && ttlSeconds * 1000 <= nowMs
  // The bucket has a switch that zael does not support: other clients refill it.
  if (active.seen.record.unsupported) return false
  if (nowMs - active.atMs > FRESH_MS || isExpired || waitsForClient(active.seen, nowMs)) return false
  const plan = planBucket(active.seen, nowMs)
  // Nothing is taken during a bypass: the first request afterwards refills.
  const isLater =
    plan.refilledAtMs !== active.seen.record.state.refilledAtMs && !isBypassedAt(active.seen.record, nowMs)
  const mark = newMark(table)
  const namespaceTable = {...table, namespace: active.namespace}
  if (isLater && helps(plan, active)) {
    const update = plannedUpdate(namespaceTable, plan, {amounts: new Map(), isExact: true}, mark)
    if ((await sendMarked(table, update, mark)).applied) return true
  }
  if (!options.repairPressure) return false
  const repair = pressureRepair(namespaceTable, active.seen.record, mark)
  return repair !== undefined && (await sendMarked(table, repair, mark)).applied
}

/** Only a client may write next: one that reads the changed configuration, or opens a session with its first use. */
function waitsForClient({record}: SeenBucket, nowMs: number): boolean {
  const {validUntilMs, state} = record
  if (validUntilMs === 0) return true
  return [...state.limits.values()].some(limit => {
    const session = limit.kind?.quota?.session
    return session !== undefined && (sessionEndMs(limit) ?? 0) <= nowMs
  })
}

function helps(plan: BucketPlan, {seen, spentMilli}: ActiveShard): boolean {
  return [...spentMilli].some(([limit, milli]) => {
    const held = seen.record.state.limits.get(limit)?.tokensMilli
    return held !== undefined && held < BATCHES_AHEAD * milli && (plan.changes.get(limit)?.creditMilli ?? 0n) > 0n
  })
}

/** Changes nothing else: traffic changes balances faster than a stream delivers. `undefined`: nothing to fill. */
function pressureRepair(table: NamespaceTable, record: BucketRecord, mark: WriteMark): BucketUpdate | undefined {
  const pressure = record.state.limits.get(WRITE_PRESSURE_LIMIT)
  if (!pressure || pressure.tokensMilli >= pressure.capacityMilli) return undefined
  const e = new ExpressionBuilder()
  const tokens = limitAttribute(WRITE_PRESSURE_LIMIT, 'tokens')
  e.exists(attributes.bucket.refilledAt)
  // Void if a client has refilled it meanwhile.
  e.condition(`${e.name(tokens)} <= ${e.value(n(pressure.tokensMilli))}`)
  e.add(tokens, n(pressure.capacityMilli - pressure.tokensMilli))
  countWrite(e)
  return markedUpdate(table, record, e, mark)
}
