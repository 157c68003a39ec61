import {type BucketLimit, expiresAtSeconds, LIFETIME_MULTIPLIER} from '../../core/buckets/bucket.js'
import {divideByRoom, divideByWeight, shareOfLimit} from '../../core/buckets/shards.js'
import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import {type Limit, tokenLimits} from '../../core/limits/limit.js'
import {grantCountOf, STAMP_MS, wholeRateAt} from '../../core/limits/limit-kind.js'
import {MILLI, toMilli, toTokens} from '../../core/token-math.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {Item} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import type {BucketRecord, Residue} from '../../schema/bucket-record.js'
import {decodeEntity} from '../../schema/entity-record.js'
import {familyOf, readGeneration} from '../../schema/family.js'
import {keys, wireKey} from '../../schema/keys.js'
import {validityOf} from '../buckets/kind-write.js'
import {
  type BucketPlan,
  ceilingOf,
  type PlannedLimit,
  planBucket,
  type SeenBucket,
  startingLimit,
} from '../buckets/plan.js'
import {createUpdate, newMark} from '../buckets/writes.js'
import type {Resolution} from '../limits/resolver.js'
import type {NamespaceTable} from '../table/table.js'
import {checkMissing, type TransactItem, updateItem} from '../table/transact.js'
import {
  limitNames,
  type OperationBasis,
  type PlannedOperation,
  requireCountable,
  requireKnown,
  type TokensByLimit,
} from './record.js'

/**
 * A quota gets exactly the amount until its next reset, each shard in proportion to its granted part. A closed session
 * is opened, because its first use would discard the amount. Other limits get whole tokens, up to their capacity.
 */
export function planTopUp(asked: TokensByLimit, {shards, limits, nowMs}: OperationBasis): PlannedOperation {
  const plans = shards.map(seen => openedFor(asked, seen, limits, nowMs))
  requireKnown([...asked.keys()], limitNames(plans), limits)
  const changes = plans.map(plan => new Map(plan.changes))
  const amounts = new Map<string, number>()
  for (const [name, tokens] of asked) {
    const holders = plans.flatMap((plan, index) => {
      const change = plan.changes.get(name)
      return change && change.kind !== 'remove' ? [{index, change, record: plan.seen.record}] : []
    })
    const isQuota = holders.some(({change}) => change.after.kind?.quota)
    const milli = isQuota
      ? divideByWeight(
          BigInt(tokens),
          holders.map(({change, record}) => slotsOf(name, change.after, record, nowMs)),
        ).map(part => part * MILLI)
      : divideAmongRooms(
          tokens,
          holders.map(({change, record}) => roomOf(name, change.after, record, nowMs)),
        )
    for (const [at, {index, change, record}] of holders.entries()) {
      const part = milli[at] ?? 0n
      if (part > 0n) changes[index]?.set(name, credited(name, change, part, record, nowMs))
    }
    amounts.set(name, toTokens(sumOf(milli)))
  }
  const planned = plans.map((plan, index) => ({...plan, changes: changes[index] ?? plan.changes}))
  for (const name of asked.keys()) {
    const ceilings = planned.flatMap(({seen, changes}) => {
      const after = changes.get(name)?.after
      return after ? [ceilingOf(name, after, seen.record, nowMs)] : []
    })
    requireCountable(name, sumOf(ceilings))
  }
  return {plans: planned, amounts, isWhole: false}
}

/** Millitokens by shard: as many whole tokens as fit, in proportion to the rooms. */
function divideAmongRooms(tokens: number, rooms: readonly bigint[]): bigint[] {
  return divideByRoom(toMilli(Math.min(tokens, toTokens(sumOf(rooms)))), rooms)
}

const sumOf = (amounts: readonly bigint[]): bigint => amounts.reduce((a, b) => a + b, 0n)

function openedFor(
  asked: TokensByLimit,
  seen: SeenBucket,
  limits: readonly Limit[] | undefined,
  nowMs: number,
): BucketPlan {
  const plan = planBucket(seen, nowMs, limits)
  const used = planBucket(seen, nowMs, limits, {opensSessions: true})
  const changes = [...plan.changes].map(
    ([name, change]) => [name, asked.has(name) ? (used.changes.get(name) ?? change) : change] as const,
  )
  return {...plan, changes: new Map(changes)}
}

/** Parts of the allowance granted to a shard; several if it was granted its part before the last splits. */
function slotsOf(name: string, after: BucketLimit, {shard, shardCount}: BucketRecord, nowMs: number): bigint {
  const slots = Math.floor(shardCount / grantOf(name, after, {shard, shardCount}, nowMs))
  return BigInt(Math.max(1, slots))
}

function grantOf(
  name: string,
  after: BucketLimit,
  {shard, shardCount}: Pick<BucketRecord, 'shard' | 'shardCount'>,
  nowMs: number,
): number {
  return grantCountOf(shareOfLimit(name, after, shard, shardCount), wholeRateAt(after, nowMs).rate.capacityMilli)
}

/** Millitokens up to the shard's capacity. */
function roomOf(name: string, after: BucketLimit, record: BucketRecord, nowMs: number): bigint {
  const room = ceilingOf(name, after, record, nowMs) - after.tokensMilli
  return room > 0n ? room : 0n
}

/** Stores the shard count of the grant: it cannot be derived once the quota holds more. */
function credited(
  name: string,
  change: PlannedLimit,
  milli: bigint,
  record: BucketRecord,
  nowMs: number,
): PlannedLimit {
  const {after} = change
  const {kind} = after
  const quota = kind?.quota && {
    ...kind.quota,
    grantCount: grantOf(name, after, record, nowMs),
    topUpMilli: (kind.quota.topUpMilli ?? 0n) + milli,
  }
  return {
    ...change,
    creditMilli: change.creditMilli + milli,
    after: {...after, tokensMilli: after.tokensMilli + milli, ...(kind && quota && {kind: {...kind, quota}})},
  }
}

/** Clients before 0.17 do not know top-ups of quotas. */
export function raisesQuota({plans}: PlannedOperation): boolean {
  return plans.some(({seen, changes}) =>
    [...changes].some(([name, {after}]) => {
      const before = seen.record.state.limits.get(name)?.kind?.quota?.topUpMilli ?? 0n
      return (after.kind?.quota?.topUpMilli ?? 0n) > before
    }),
  )
}

export interface NewBucket {
  readonly entity: string
  readonly resource: string
  readonly resolution: Resolution
  /** Epoch ms, before the configuration was read: a bypass is stamped from then on. */
  readonly readAtMs: number
  readonly owner: Item | undefined
  /** Left by refunds to a deleted bucket. */
  readonly residue: ReadonlyMap<string, Residue>
  readonly nowMs: number
}

/** The first write of a bucket, with quotas topped up. Other limits start full; without a quota nothing is written. */
export function createToppedUp(
  table: NamespaceTable,
  asked: TokensByLimit,
  input: NewBucket,
): {readonly items: TransactItem[]; readonly amounts: TokensByLimit} {
  const {entity, resource, resolution, readAtMs, owner, residue, nowMs} = input
  const configured = tokenLimits(resolution.limits)
  requireKnown([...asked.keys()], new Set(configured.map(({name}) => name)), resolution.limits)
  const amounts = new Map([...asked.keys()].map(name => [name, 0]))
  const limits = new Map<string, BucketLimit>()
  for (const limit of configured) {
    const {name} = limit
    const tokens = asked.get(name) ?? 0
    const full = startingLimit(name, kindedRateOf(limit, nowMs), {shard: 0, shardCount: 1}, nowMs, tokens > 0)
    const left = residue.get(name)?.tokensMilli ?? 0n
    const started = {...full, tokensMilli: left > 0n ? full.tokensMilli - left : full.tokensMilli}
    const after = toppedUp(started, tokens)
    limits.set(name, after)
    requireCountable(name, ceilingOf(name, after, {shard: 0, shardCount: 1}, nowMs))
    if (full.kind?.quota && tokens > 0) amounts.set(name, tokens)
  }
  if ([...amounts.values()].every(tokens => tokens === 0)) return {items: [], amounts}
  const state = {refilledAtMs: nowMs, limits}
  const record: BucketRecord = {
    namespace: table.namespace,
    entity,
    resource,
    shard: 0,
    shardCount: 1,
    ...familyOf(owner && decodeEntity(owner), resolution.cascade?.cascade),
    ttlSeconds:
      resolution.source === 'entity' ? undefined : expiresAtSeconds(limits.values(), LIFETIME_MULTIPLIER, nowMs),
    state,
    validUntilMs: validityOf(state, nowMs),
    bypassUntilMs:
      resolution.access?.access === 'bypass'
        ? Math.min(readAtMs + STAMP_MS, resolution.access.untilMs ?? Infinity)
        : undefined,
  }
  const created = createUpdate(table, record, {amounts: new Map(), requests: 0}, newMark(table))
  return {items: [updateItem(created), requireOwner(table, entity, owner)], amounts}
}

function toppedUp(limit: BucketLimit, tokens: number): BucketLimit {
  const {kind} = limit
  if (!kind?.quota || tokens === 0) return limit
  const topUpMilli = toMilli(tokens)
  return {...limit, tokensMilli: limit.tokensMilli + topUpMilli, kind: {...kind, quota: {...kind.quota, topUpMilli}}}
}

/** The entity was not moved, created or deleted since it was read. */
function requireOwner(table: NamespaceTable, entity: string, owner: Item | undefined): TransactItem {
  const key = keys.entity(table.namespace, entity)
  if (!owner) return checkMissing(table, key)
  const e = new ExpressionBuilder().exists()
  const {parent, parentIncarnation, createdAt, parentGeneration} = attributes.entity
  for (const name of [parent, parentIncarnation, createdAt]) e.require(name, owner[name])
  e.require(parentGeneration, readGeneration(owner)?.moves)
  return {ConditionCheck: {TableName: table.name, Key: wireKey(key), ...e.write()}}
}
