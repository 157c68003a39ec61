import type {Amounts} from '../core/bucket.js'
import {planGather} from '../core/shards.js'
import {isRetryable, TransactionCancelled} from '../dynamo/errors.js'
import {pause} from '../dynamo/retry.js'
import {type BucketPlan, planBucket} from '../repository/bucket-plan.js'
import {readShards} from '../repository/bucket-split.js'
import {plannedUpdate} from '../repository/bucket-writes.js'
import {type TransactItem, transact} from '../repository/transact.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import {expiryOf, plannedLimits} from './expiry.js'
import type {Grant} from './grant.js'
import type {AppliedLimits, Office} from './office.js'
import {plannedState} from './shard-room.js'

const ATTEMPTS = 5

/** What a look at all shards of a bucket came to. */
export type Gathering =
  | {readonly grant: Grant}
  | {readonly records: BucketRecord[]; readonly nowMs: number; readonly source: AppliedLimits['source']}

/**
 * Serves one request from several shards at once, for a request larger than any of them holds: reads them all, takes from
 * each what it can give, in one transaction.
 */
export async function gather(
  office: Office,
  entity: string,
  resource: string,
  count: number,
  amounts: Amounts,
): Promise<Gathering> {
  const {space} = office
  for (let attempt = 1; ; attempt++) {
    const [records, applied] = await Promise.all([
      readShards(space, entity, resource, count),
      office.limitsOf(entity, resource),
    ])
    const nowMs = space.clock()
    const plans = new Map<number, BucketPlan>()
    for (const [shard, record] of records)
      plans.set(shard, planBucket({record, incomplete: new Map()}, nowMs, applied.limits))
    const states = new Map([...plans].map(([shard, plan]) => [shard, plannedState(plan)]))
    const parts = planGather(states, amounts)
    if (!parts) return {records: [...records.values()], nowMs, source: applied.source}
    const items = [...parts].map(([shard, taken]): TransactItem => {
      const plan = plans.get(shard) as BucketPlan
      const write = {amounts: taken, ttlSeconds: expiryOf(office, applied, plannedLimits(plan), nowMs)}
      const {ReturnValues: _, ...update} = plannedUpdate(space, plan, write, office.nextMark())
      return {Update: update as NonNullable<TransactItem['Update']>}
    })
    try {
      await transact(space, items)
      const entries = [...parts].map(([shard, taken]) => ({
        address: {entity, resource, shard},
        heldMilli: new Map(taken),
      }))
      return {grant: {entries, record: records.values().next().value as BucketRecord}}
    } catch (error) {
      const isContended = isRetryable(error) || (error instanceof TransactionCancelled && error.hasConditionFailure)
      if (!isContended || attempt >= ATTEMPTS) throw error
    }
    await pause(attempt, {...space.backoff, baseMs: 5})
  }
}
