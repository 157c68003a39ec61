import {checkEntityId, checkResourceName} from '../../core/names.js'
import {ulid} from '../../core/ulid.js'
import {Aborted, TransactionCancelled, Unavailable} from '../../dynamo/errors.js'
import {pause} from '../../dynamo/retry.js'
import {keys} from '../../schema/keys.js'
import {addressOf, Buckets, type ShardedBucket} from '../buckets/buckets.js'
import {type BucketPlan, changesLimits, plannedLimits, type SeenBucket, shardExpiry} from '../buckets/plan.js'
import {alignShardCounts} from '../buckets/split.js'
import {newMark, plannedUpdate} from '../buckets/writes.js'
import {ConfigCache} from '../limits/cache.js'
import {nothingApplies} from '../limits/checks.js'
import {ConfigResolver, type Resolution, requireSupportedLimits} from '../limits/resolver.js'
import {readLimitUnits} from '../limits/units.js'
import type {Audit} from '../table/audit.js'
import {getItem, type NamespaceTable} from '../table/table.js'
import {type TransactItem, transact, updateItem} from '../table/transact.js'
import {requireSupported} from '../table/unsupported-feature.js'
import {requireReaders} from '../table/version.js'
import {
  bucketContended,
  bucketDisabled,
  bucketMissing,
  checkIdempotencyKey,
  planOperation,
  tooManyShards,
  unknownOutcome,
} from './operation.js'
import {
  askedOf,
  type BucketOperation,
  findOperation,
  incarnationIn,
  OPERATION_LIFETIME_SECONDS,
  type OperationId,
  type OperationRecord,
  operationPut,
  requireSameOperation,
  type TokensByLimit,
} from './record.js'
import {createToppedUp, type NewBucket, raisesQuota} from './top-up.js'

/** Under contention. The first half requires that nothing is taken from the bucket meanwhile. */
const ATTEMPTS = 20

/** Short: others do not write less while we wait. */
const LONGEST_PAUSE_MS = 50

/** A transaction has at most 100 items, two of them the operation's record and its audit event. */
const MOST_SHARDS = 98

/** The effect of a reset or top-up. */
export interface OperationResult {
  /** Repeating the operation with this key changes nothing, for three days. */
  readonly idempotencyKey: string
  /** Already applied under this key: nothing was changed now, and the other fields describe the first time. */
  readonly isRepeated: boolean
  /** Shards written. */
  readonly shards: number
  /** Deleted shards that late refunds created again. Not part of any sum. */
  readonly ghosts: number
  /** Whole tokens by limit: added by a top-up, restored by a reset. */
  readonly amounts: Readonly<Record<string, number>>
}

export interface OperationOptions {
  /** Makes the operation repeatable: 1 to 64 letters, digits and `._:-`. @default a new key */
  readonly idempotencyKey?: string | undefined
  readonly signal?: AbortSignal | undefined
}

interface Step {
  readonly items: readonly TransactItem[]
  readonly shards: number
  readonly ghosts: number
  readonly amounts: TokensByLimit
}

/** A transaction writes all shards, an audit event and a record, which exists once, so one attempt per key applies. */
export async function operateOnBucket(
  table: NamespaceTable,
  audit: Audit,
  {entity, resource}: {readonly entity: string; readonly resource: string},
  operation: BucketOperation,
  {idempotencyKey, signal}: OperationOptions = {},
): Promise<OperationResult> {
  checkEntityId(entity)
  checkResourceName(resource)
  const id = idempotencyKey === undefined ? newId(table) : checkIdempotencyKey(idempotencyKey)
  const writer = Buffer.from(table.randomBytes(12)).toString('hex')
  const owner = await getItem(table, keys.entity(table.namespace, entity), {signal})
  const whose: OperationId = {entity, resource, id, incarnation: incarnationIn(owner)}
  const recorded = async (): Promise<OperationResult | undefined> => {
    const record = await findOperation(table, whose)
    if (!record) return undefined
    const isRepeated = record.writer !== writer
    if (isRepeated) requireSameOperation(record, operation, await readLimitUnits(table))
    return resultOf(record, {isRepeated, ghosts: 0})
  }
  const before = idempotencyKey === undefined ? undefined : await recorded()
  if (before) return before

  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const step = await nextStep(table, whose, operation, {isExact: attempt < ATTEMPTS / 2, signal})
    if (step) {
      const {shards, amounts, ghosts} = step
      const record: OperationRecord = {
        namespace: table.namespace,
        ...whose,
        operation: operation.kind,
        writer,
        shards,
        amounts,
        asked: askedOf(operation),
        ttlSeconds: Math.floor(table.clock() / 1000) + OPERATION_LIFETIME_SECONDS,
      }
      const result = resultOf(record, {isRepeated: false, ghosts})
      if (step.items.length === 0 && idempotencyKey === undefined) return result
      const action = operation.kind === 'reset' ? 'bucket_reset' : 'bucket_topped_up'
      const details = {amounts: Object.fromEntries(amounts), shards}
      const event = await audit.put({entity, resource, action, details})
      try {
        await transact(table, [...step.items, operationPut(table, record), event], {signal})
        return result
      } catch (error) {
        const isOvertaken = error instanceof TransactionCancelled && (error.hasConditionFailure || error.hasConflict)
        const found = await recorded().catch(isOvertaken ? undefined : () => undefined)
        if (found) return found
        if (!isOvertaken) throw mayBeApplied(error) ? unknownOutcome(whose, id, error) : error
      }
    }
    await pause(attempt, {...table.backoff, maxMs: LONGEST_PAUSE_MS}, signal)
  }
  throw bucketContended(whose)
}

/** `undefined` when the bucket has to be read again. */
async function nextStep(
  table: NamespaceTable,
  {entity, resource}: OperationId,
  operation: BucketOperation,
  {isExact, signal}: {readonly isExact: boolean; readonly signal: AbortSignal | undefined},
): Promise<Step | undefined> {
  // No cache: limits are written to the bucket only if they are newer than its own (decision 25).
  const resolver = new ConfigResolver(table, new ConfigCache({clock: table.clock, ttlMs: 0}))
  const resolve = async () => {
    const resolution = await resolver.resolve({entity, resource}, {signal})
    requireSupportedLimits(resolution, {entity, resource})
    return resolution
  }
  const early = await resolve()
  const bucket = await new Buckets(table).find(entity, resource, {signal})
  const ghosts = bucket?.shards.filter(shard => shard.kind === 'ghost').length ?? 0
  const live = liveShards(bucket)
  for (const {record} of live) requireSupported(record)
  if (live.length > MOST_SHARDS) throw tooManyShards({entity, resource}, live.length, MOST_SHARDS)
  if (live.length === 0) {
    if (operation.kind === 'reset') throw bucketMissing(entity, resource)
    const first = bucket?.shards.find(shard => addressOf(shard).shard === 0)
    const residue = first?.kind === 'ghost' ? first.residue : new Map()
    const readAtMs = table.clock()
    const basis = {resolution: await resolve(), readAtMs, residue}
    return {...(await creation(table, {entity, resource}, operation.amounts, basis)), ghosts}
  }
  const records = live.map(({record}) => record)
  if (await alignShardCounts(table, records, bucket?.shardCount ?? 1)) return undefined

  const nowMs = table.clock()
  const planFor = ({source, limits}: Resolution, shards: readonly SeenBucket[]) =>
    planOperation(operation, {shards, limits: source === undefined ? undefined : limits, nowMs})
  const first = planFor(early, live)
  const isChange = first.plans.some(changesLimits)
  const resolution = isChange ? await resolve() : early
  const planned = isChange ? planFor(resolution, live) : first
  if (raisesQuota(planned)) await requireReaders(table, ['top-up'])
  const items = planned.plans.map(plan => {
    const write = {...expiryAfter(plan, resolution), isOperation: true, isReset: planned.isWhole, isExact}
    return updateItem(plannedUpdate(table, plan, {amounts: new Map(), ...write}, newMark(table)))
  })
  return {items, shards: items.length, ghosts, amounts: planned.amounts}
}

/** Tops up a bucket that does not exist. */
async function creation(
  table: NamespaceTable,
  whose: {readonly entity: string; readonly resource: string},
  asked: TokensByLimit,
  basis: Pick<NewBucket, 'resolution' | 'readAtMs' | 'residue'>,
): Promise<Omit<Step, 'ghosts'>> {
  const {entity, resource} = whose
  const {resolution} = basis
  if (resolution.source === undefined) throw nothingApplies(entity, resource)
  if (resolution.access?.access === 'disabled') throw bucketDisabled(whose)
  const owner = await getItem(table, keys.entity(table.namespace, entity))
  const input = {...whose, ...basis, owner, nowMs: table.clock()}
  const {items, amounts} = createToppedUp(table, asked, input)
  if (items.length > 0) await requireReaders(table, ['top-up'])
  return {items, amounts, shards: items.length > 0 ? 1 : 0}
}

/** Top-ups must not expire before their period ends. A bucket that never expires stays so. */
function expiryAfter(plan: BucketPlan, {source}: Resolution): {readonly ttlSeconds?: number | null} {
  const {ttlSeconds} = plan.seen.record
  if (ttlSeconds === undefined || source === undefined) return {}
  const wanted = shardExpiry(plan.seen.record, {source, limits: plannedLimits(plan), nowMs: plan.nowMs})
  return {ttlSeconds: wanted === null ? null : Math.max(ttlSeconds, wanted)}
}

/** Without shards left behind by a larger shard count. */
function liveShards(bucket: ShardedBucket | undefined) {
  return (bucket?.shards ?? []).flatMap(shard =>
    shard.kind === 'bucket' && shard.record.shard < (bucket?.shardCount ?? 1) ? [shard] : [],
  )
}

const newId = (table: NamespaceTable): string => ulid(Math.floor(table.clock()), table.randomBytes(10))

const mayBeApplied = (error: unknown): boolean =>
  (error instanceof Unavailable || error instanceof Aborted) && error.maybeApplied

function resultOf(
  {id, shards, amounts}: OperationRecord,
  {isRepeated, ghosts}: Pick<OperationResult, 'isRepeated' | 'ghosts'>,
): OperationResult {
  return {idempotencyKey: id, isRepeated, shards, ghosts, amounts: Object.fromEntries(amounts)}
}
