import type {BucketLimit} from '../../core/buckets/bucket.js'
import {isInPeriod} from '../../core/buckets/kind-refill.js'
import {
  grantedFor,
  grantedForFewer,
  planQuotaGrant,
  planSplit,
  type QuotaGrant,
  type QuotaSibling,
  shareOfLimit,
} from '../../core/buckets/shards.js'
import {grantCountOf, wholeRateAt} from '../../core/limits/limit-kind.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {floorDivide, shareOf} from '../../core/token-math.js'
import {batchGet} from '../../dynamo/batch.js'
import {isRetryable, TransactionCancelled} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {pause} from '../../dynamo/retry.js'
import {n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {
  type BucketRecord,
  decodeBucket,
  encodeBucket,
  freshWritePressure,
  limitAttribute,
} from '../../schema/bucket-record.js'
import {keyId, keys, wireKey, withoutKey} from '../../schema/keys.js'
import {kindAttribute} from '../../schema/kind-attributes.js'
import type {NamespaceTable} from '../table/table.js'
import {type TransactItem, transact} from '../table/transact.js'
import {requireSupported} from '../table/unsupported-feature.js'
import {ceilingOf, isFirstOfSeveral, type SeenBucket} from './plan.js'
import {countWrite, requireFamily, requireOpen, requireShardCount} from './writes.js'

const names = attributes.bucket

const ATTEMPTS = 5

export async function readShards(
  table: NamespaceTable,
  entity: string,
  resource: string,
  count: number,
): Promise<Map<number, BucketRecord>> {
  const shards = await readSeenShards(table, entity, resource, range(count))
  return new Map([...shards].map(([shard, {record}]) => [shard, record]))
}

/** Strongly consistent; missing shards are left out. */
export async function readSeenShards(
  table: NamespaceTable,
  entity: string,
  resource: string,
  shards: readonly number[],
): Promise<Map<number, SeenBucket>> {
  const wanted = shards.map(shard => keys.bucket(table.namespace, entity, resource, shard))
  const items = await batchGet(table.transport, table.name, wanted, {backoff: table.backoff, consistent: true})
  const seen = new Map<number, SeenBucket>()
  for (const [at, key] of wanted.entries()) {
    const item = items.get(keyId(key))
    const stored = item && decodeBucket(item)
    if (stored?.kind === 'bucket') seen.set(shards[at] as number, stored)
  }
  return seen
}

/** Doubles the shards in one transaction; tokens are moved, not created. Resolves to the shard count afterwards. */
export async function splitBucket(
  table: NamespaceTable,
  entity: string,
  resource: string,
  count: number,
): Promise<number> {
  return retryContended(table, async () => {
    const shards = await readShards(table, entity, resource, count)
    const records = [...shards.values()]
    for (const record of records) requireSupported(record)
    if (records.length !== count) return records[0]?.shardCount ?? 1
    const stored = (records[0] as BucketRecord).shardCount
    if (stored !== count) return stored
    const items = planSplit(
      records.map(record => record.state),
      table.clock(),
    ).flatMap(({from, to, movedMilli}) => moveTokens(table, records[from] as BucketRecord, to, 2 * count, movedMilli))
    await transact(table, items)
    return 2 * count
  })
}

/**
 * Creates missing shards from the others' tokens, as splits would. Afterwards no shard holds another shard's part.
 * Resolves to the shard count; 0 without a bucket.
 */
export async function fillMissingShards(
  table: NamespaceTable,
  entity: string,
  resource: string,
  most: number,
): Promise<number> {
  const first = (await readShards(table, entity, resource, 1)).get(0)
  if (first) requireSupported(first)
  const count = first?.shardCount ?? 0
  if (count < 2 || count > most) return count
  const shards = await readShards(table, entity, resource, count)
  for (const shard of range(count).slice(1)) {
    if (shards.get(shard)?.shardCount === count) continue
    await retryContended(table, () => fillShard(table, entity, resource, shard, count))
  }
  const filled = await readShards(table, entity, resource, count)
  if (filled.size === count) await divideGrants(table, [...filled.values()])
  return count
}

/**
 * Other clients let a donor keep its ceiling from before a split, so the ceilings add up to more than the allowance.
 */
async function divideGrants(table: NamespaceTable, records: readonly BucketRecord[]): Promise<void> {
  for (const record of records) {
    const {entity, resource, shard, shardCount, state} = record
    const divided = grantedForFewer(record, table.clock())
    if (divided.length === 0) continue
    const e = new ExpressionBuilder().set(names.limitsRevision, newRevision(table))
    requireShardCount(e, shardCount)
    e.require(names.limitsRevision, record.limitsRevision)
    for (const name of divided) {
      const limit = state.limits.get(name) as BucketLimit
      const tk = e.name(limitAttribute(name, 'tokens'))
      e.condition(`${tk} <= ${e.value(n(limit.tokensMilli))}`)
      e.require(kindAttribute(name, 'grantCount'), limit.kind?.quota?.grantCount)
      storeGrant(e, name, grantedFor(limit, shardCount))
    }
    const Key = wireKey(keys.bucket(table.namespace, entity, resource, shard))
    await transact(table, [
      {Update: {TableName: table.name, Key, ...e.update()} as NonNullable<TransactItem['Update']>},
    ]).catch(ignoreRefusal)
  }
}

/** Takes the tokens from the shard that a split would have used as donor. */
async function fillShard(
  table: NamespaceTable,
  entity: string,
  resource: string,
  shard: number,
  count: number,
): Promise<number> {
  const from = shard - 2 ** Math.floor(Math.log2(shard))
  const shards = await readSeenShards(table, entity, resource, [...new Set([0, from, shard])])
  const donor = shards.get(from)?.record
  const present = shards.get(shard)?.record
  if (shards.get(0)?.record.shardCount !== count || !donor) return count
  requireSupported(donor)
  if (present) {
    // A shard with too small a count would refill too much.
    if (present.shardCount !== count) await transact(table, [setShardCount(table, present, count)])
    return count
  }
  const hasQuotas = [...donor.state.limits.values()].some(({kind}) => kind?.quota)
  const siblings = hasQuotas ? await readShards(table, entity, resource, count) : new Map<number, BucketRecord>()
  const nowMs = table.clock()
  const movedMilli = new Map<string, bigint>()
  const grantedMilli = new Map<string, bigint>()
  for (const [name, limit] of donor.state.limits) {
    if (name === WRITE_PRESSURE_LIMIT) continue
    if (limit.kind?.quota) {
      const grant = grantOfShard(name, limit, [...siblings.values()], shard, count, nowMs)
      // If another shard holds this part, it keeps it: nothing is lost, nothing exists twice.
      if (grant.donor === from) movedMilli.set(name, grant.tokensMilli)
      else if (grant.donor === undefined && isInPeriod(limit, donor.state.refilledAtMs, nowMs))
        grantedMilli.set(name, grant.tokensMilli)
      continue
    }
    const kept = shareOf(limit.capacityMilli, from, count)
    const given = shareOf(limit.capacityMilli, shard, count)
    if (kept + given > 0n) movedMilli.set(name, floorDivide(limit.tokensMilli * given, kept + given))
  }
  await transact(table, moveTokens(table, donor, shard, count, movedMilli, grantedMilli))
  return count
}

function setShardCount(table: NamespaceTable, record: BucketRecord, count: number): TransactItem {
  const {entity, resource, shard, shardCount, state} = record
  const e = new ExpressionBuilder().set(names.shardCount, n(count)).set(names.limitsRevision, newRevision(table))
  requireShardCount(e, shardCount)
  for (const [name, limit] of state.limits) keepGrant(e, name, limit, record)
  const Key = wireKey(keys.bucket(table.namespace, entity, resource, shard))
  return {Update: {TableName: table.name, Key, ...e.update()} as NonNullable<TransactItem['Update']>}
}

/** Without this mark, the shard would seem to hold the part for the new number of shards. */
function keepGrant(e: ExpressionBuilder, name: string, limit: BucketLimit, {shard, shardCount}: BucketRecord): void {
  if (limit.kind?.quota?.grantCount !== undefined) return
  const share = shareOfLimit(name, limit, shard, shardCount)
  storeGrant(e, name, grantedFor(limit, grantCountOf(share, limit.capacityMilli)))
}

/** Updates shards that another client's split left with a smaller count, and so a larger share. False: none. */
export async function alignShardCounts(
  table: NamespaceTable,
  records: readonly BucketRecord[],
  count: number,
): Promise<boolean> {
  const behind = records.filter(({shardCount}) => shardCount < count)
  for (const record of behind) await transact(table, [setShardCount(table, record, count)]).catch(ignoreRefusal)
  return behind.length > 0
}

/** A stored count above `most` is replaced by the number of existing shards, as a request would do. */
export async function readRealShards(
  table: NamespaceTable,
  entity: string,
  resource: string,
  most: number,
): Promise<Map<number, BucketRecord>> {
  const first = await readShards(table, entity, resource, 1)
  const stored = first.get(0)?.shardCount ?? 1
  if (stored === 1) return first
  const shards = await readShards(table, entity, resource, Math.min(stored, most))
  if (stored <= most) return shards
  const shardCount = countReal(shards, most)
  return new Map([...shards].slice(0, shardCount).map(([shard, record]) => [shard, {...record, shardCount}]))
}

/** The largest power of two of which all shards exist. */
function countReal(shards: ReadonlyMap<number, BucketRecord>, most: number): number {
  let count = 1
  while (count * 2 <= most && range(count * 2).every(shard => shards.has(shard))) count *= 2
  return count
}

/** Lowers a count above `most` to the number of existing shards, and resolves to it. */
export async function healShardCount(
  table: NamespaceTable,
  entity: string,
  resource: string,
  most: number,
): Promise<number> {
  const shards = await readShards(table, entity, resource, most)
  for (const record of shards.values()) requireSupported(record)
  const count = countReal(shards, most)
  for (const shard of shards.keys()) {
    const e = new ExpressionBuilder().set(names.shardCount, n(count)).set(names.limitsRevision, newRevision(table))
    e.condition(`${e.name(names.shardCount)} > ${e.value(n(most))}`)
    const Key = wireKey(keys.bucket(table.namespace, entity, resource, shard))
    await transact(table, [
      {Update: {TableName: table.name, Key, ...e.update()} as NonNullable<TransactItem['Update']>},
    ]).catch(ignoreRefusal)
  }
  return count
}

const range = (count: number): number[] => Array.from({length: count}, (_, shard) => shard)

function moveTokens(
  table: NamespaceTable,
  donor: BucketRecord,
  shard: number,
  shardCount: number,
  movedMilli: ReadonlyMap<string, bigint>,
  grantedMilli: ReadonlyMap<string, bigint> = new Map(),
): TransactItem[] {
  const give = new ExpressionBuilder()
  // The new shard starts at the donor's refill instant: a refill of the donor since would count twice.
  give.condition(`${give.name(names.refilledAt)} = ${give.value(n(donor.state.refilledAtMs))}`)
  give.condition(`${give.name(names.shardCount)} = ${give.value(n(donor.shardCount))}`)
  give.require(names.limitsRevision, donor.limitsRevision)
  requireFamily(give, donor)
  requireOpen(give, donor)
  if (shardCount !== donor.shardCount)
    give.set(names.shardCount, n(shardCount)).set(names.limitsRevision, newRevision(table))
  else countWrite(give)
  if (isFirstOfSeveral({...donor, shardCount})) give.remove(names.expiresAt)
  for (const [name, milli] of movedMilli) {
    if (milli === 0n) continue
    const tk = limitAttribute(name, 'tokens')
    // Planted fault: a split creates tokens
    give.add(tk, n(-milli))
    if (milli > 0n) give.condition(`${give.name(tk)} >= ${give.value(n(milli))}`)
  }
  const limits = new Map<string, BucketLimit>()
  for (const [name, limit] of donor.state.limits) {
    const tokensMilli = movedMilli.get(name) ?? grantedMilli.get(name) ?? 0n
    // Planted fault: a new shard counts the consumption of its donor again
    const started = {...limit, tokensMilli, consumedMilli: 0n, remainder: 0n}
    limits.set(name, name === WRITE_PRESSURE_LIMIT ? freshWritePressure() : newlyGranted(started, shardCount))
    if (shardCount === donor.shardCount) continue
    // Planted fault: a split does not lower the ceiling of its donor
    storeGrant(give, name, grantedFor(limit, shardCount))
    // Tokens refunded since must not end above the donor's new ceiling, which would cut them.
    if (limit.kind?.quota) {
      const part = {shard: donor.shard, shardCount}
      const ceiling = ceilingOf(name, grantedFor(limit, shardCount), part, donor.state.refilledAtMs)
      const most = ceiling + (movedMilli.get(name) ?? 0n)
      const highest = most > limit.tokensMilli ? most : limit.tokensMilli
      give.condition(`${give.name(limitAttribute(name, 'tokens'))} <= ${give.value(n(highest))}`)
    }
  }
  const received = encodeBucket({...donor, shard, shardCount, state: {...donor.state, limits}})
  const take = new ExpressionBuilder()
  for (const [name, value] of Object.entries(withoutKey(received))) take.set(name, value)
  take.condition(`attribute_not_exists(${take.name(names.refilledAt)})`)
  const key = (index: number) => wireKey(keys.bucket(table.namespace, donor.entity, donor.resource, index))
  return [
    {Update: {TableName: table.name, Key: key(donor.shard), ...give.update()}},
    {Update: {TableName: table.name, Key: key(shard), ...take.update()}},
  ] as TransactItem[]
}

/** Voids plans made for another number of shards. */
const newRevision = (table: NamespaceTable) => s(Buffer.from(table.randomBytes(8)).toString('base64url'))

async function retryContended(table: NamespaceTable, step: () => Promise<number>): Promise<number> {
  for (let tries = 1; ; tries++) {
    try {
      return await step()
    } catch (error) {
      const isContended = isRetryable(error) || (error instanceof TransactionCancelled && error.hasConditionFailure)
      if (!isContended || tries >= ATTEMPTS) throw error
    }
    await pause(tries, table.backoff)
  }
}

function ignoreRefusal(error: unknown): void {
  if (!(error instanceof TransactionCancelled)) throw error
}

function grantOfShard(
  name: string,
  limit: BucketLimit,
  records: readonly BucketRecord[],
  shard: number,
  count: number,
  nowMs: number,
): QuotaGrant {
  const siblings = records.flatMap(({state, shard: index, shardCount}): QuotaSibling[] => {
    const stored = state.limits.get(name)
    if (!stored?.kind?.quota) return []
    const share = shareOfLimit(name, stored, index, shardCount)
    const {capacityMilli} = wholeRateAt(stored, nowMs).rate
    const grantCount = grantCountOf(share, capacityMilli)
    // Planted fault: a missing shard is granted tokens that another shard holds for it
    const isCurrent = isInPeriod(stored, state.refilledAtMs, nowMs)
    return [{shard: index, tokensMilli: stored.tokensMilli, grantCount, isCurrent}]
  })
  return planQuotaGrant(siblings, shard, shareOf(wholeRateAt(limit, nowMs).rate.capacityMilli, shard, count))
}

/** Top-ups stay with the donor. */
function newlyGranted(limit: BucketLimit, grantCount: number): BucketLimit {
  const {kind, ...rest} = grantedFor(limit, grantCount)
  if (!kind?.quota) return limit
  const session = kind.quota.session && {...kind.quota.session, consumedMarkMilli: undefined}
  const quota = {...kind.quota, topUpMilli: undefined, ...(session && {session})}
  return {...rest, kind: {...kind, quota}}
}

function storeGrant(e: ExpressionBuilder, name: string, {kind}: BucketLimit): void {
  const grantCount = kind?.quota?.grantCount
  if (grantCount !== undefined) e.set(kindAttribute(name, 'grantCount'), n(grantCount))
}
