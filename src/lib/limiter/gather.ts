import type {Amounts} from '../core/bucket.js'
import {type GatherPlan, planGather} from '../core/shards.js'
import {TransactionCancelled} from '../dynamo/errors.js'
import {pause} from '../dynamo/retry.js'
import {type BucketPlan, planBucket, plannedLimits} from '../repository/buckets/plan.js'
import {readSeenShards} from '../repository/buckets/split.js'
import {plannedUpdate, type WriteMark} from '../repository/buckets/writes.js'
import {type TransactItem, transact} from '../repository/table/transact.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {AppliedLimits, LimiterContext} from './context.js'
import {expiryOf} from './expiry.js'
import type {Grant} from './grant.js'
import {plannedState} from './shard-room.js'

const ATTEMPTS = 5

const range = (count: number): number[] => Array.from({length: count}, (_, shard) => shard)

/** What a look at all shards of a bucket came to. */
export type Gathering =
  | {readonly grant: Grant}
  | {
      readonly records: BucketRecord[]
      /** The look began not before this. */
      readonly sinceMs: number
      readonly nowMs: number
      readonly source: AppliedLimits['source']
    }

export interface GatherRequest {
  readonly entity: string
  readonly resource: string
  readonly count: number
  readonly amounts: Amounts
  readonly requests: 0 | 1
  /** Asks one shard, as it was seen, at its desk; `undefined` when it is too late there. */
  readonly fromOne: (record: BucketRecord, sinceMs: number) => Promise<Grant | undefined>
  /** Told of every shard that the transaction has written, past its desk. */
  readonly wrote: (shard: number, mark: WriteMark) => void
}

/**
 * Looks at all shards for a request that the shards asked before could not serve. Where one of them is enough after all
 * its desk decides, which lets requests share a write; otherwise each gives what it can, in one transaction. Losing to
 * competitors every time is a refusal, not a failure.
 */
export async function gather(office: LimiterContext, request: GatherRequest): Promise<Gathering> {
  const {entity, resource, count, amounts, fromOne} = request
  const {table} = office
  for (let attempt = 1; ; attempt++) {
    const sinceMs = table.clock()
    const [seen, applied] = await Promise.all([
      readSeenShards(table, entity, resource, range(count)),
      office.limitsOf(entity, resource),
    ])
    if (seen.size < count && attempt === 1) {
      // Without all of them a request for the whole capacity could never be served.
      await office.fillShard({entity, resource, shard: count - 1})
      continue
    }
    const nowMs = table.clock()
    const records = new Map([...seen].map(([shard, {record}]) => [shard, record]))
    const plans = new Map([...seen].map(([shard, bucket]) => [shard, planBucket(bucket, nowMs, applied.limits)]))
    const states = new Map([...plans].map(([shard, plan]) => [shard, plannedState(plan)]))
    const parts = planGather(states, amounts)
    const refusal = {records: [...records.values()], sinceMs, nowMs, source: applied.source}
    if (!parts) return refusal
    const [onlyShard, another] = parts.keys()
    const grant =
      another === undefined
        ? await fromOne(records.get(onlyShard as number) as BucketRecord, sinceMs)
        : await takeParts(office, request, plans, parts, applied)
    if (grant) return {grant}
    if (attempt >= ATTEMPTS) return refusal
    await pause(attempt, {...table.backoff, baseMs: 5})
  }
}

/** Takes from several shards or from none; `undefined` when somebody came in between. */
async function takeParts(
  office: LimiterContext,
  {entity, resource, requests, wrote}: GatherRequest,
  plans: ReadonlyMap<number, BucketPlan>,
  parts: GatherPlan,
  applied: AppliedLimits,
): Promise<Grant | undefined> {
  const {table} = office
  const nowMs = table.clock()
  const marks = new Map<number, WriteMark>()
  // One of the shards counts the request for all of them.
  const [countingShard] = parts.keys()
  const counted = (shard: number) => (shard === countingShard ? requests : 0)
  const items = [...parts].map(([shard, taken]): TransactItem => {
    const plan = plans.get(shard) as BucketPlan
    const write = {
      amounts: taken,
      requests: counted(shard),
      ttlSeconds: expiryOf(office, applied, plannedLimits(plan), nowMs),
    }
    const mark = office.nextMark()
    marks.set(shard, mark)
    const {ReturnValues: _, ...update} = plannedUpdate(table, plan, write, mark)
    return {Update: update as NonNullable<TransactItem['Update']>}
  })
  try {
    await transact(table, items)
  } catch (error) {
    const isContended =
      error instanceof TransactionCancelled && (error.hasConditionFailure || (error.isPassing && !error.isThrottling))
    if (isContended) return undefined
    throw error
  }
  for (const [shard, mark] of marks) wrote(shard, mark)
  const entries = [...parts].map(([shard, taken]) => ({
    address: {entity, resource, shard},
    heldMilli: new Map(taken),
    requests: counted(shard),
  }))
  return {entries, record: (plans.values().next().value as BucketPlan).seen.record}
}
