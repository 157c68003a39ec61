import type {LimitState} from '../core/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../core/names.js'
import {planSplit, shareOf} from '../core/shards.js'
import {floorDivide} from '../core/token-math.js'
import {batchGet, keyId} from '../dynamo/batch.js'
import {isRetryable, TransactionCancelled} from '../dynamo/errors.js'
import {ExpressionBuilder} from '../dynamo/expression.js'
import {pause} from '../dynamo/retry.js'
import {n} from '../schema/attribute-value.js'
import {
  type BucketRecord,
  decodeBucket,
  encodeBucket,
  freshWritePressure,
  limitAttribute,
} from '../schema/bucket-record.js'
import {keys} from '../schema/keys.js'
import {type Space, wireKey} from './table.js'
import {type TransactItem, transact} from './transact.js'

const ATTEMPTS = 5

/** All shards that exist among the first `count`, by number; strongly consistent. */
export async function readShards(
  space: Space,
  entity: string,
  resource: string,
  count: number,
): Promise<Map<number, BucketRecord>> {
  const wanted = Array.from({length: count}, (_, shard) => keys.bucket(space.namespace, entity, resource, shard))
  const items = await batchGet(space.transport, space.name, wanted, {backoff: space.backoff, consistent: true})
  const shards = new Map<number, BucketRecord>()
  for (const [shard, key] of wanted.entries()) {
    const item = items.get(keyId(key))
    const stored = item && decodeBucket(item)
    if (stored?.kind === 'bucket') shards.set(shard, stored.record)
  }
  return shards
}

/**
 * Doubles the shards of a bucket in one transaction: every shard hands its new partner a part of its tokens, so the total
 * stays. Resolves to the shard count afterwards, which is unchanged when somebody else was faster or tokens moved too
 * quickly; pressure that lasts brings the next try.
 */
export async function splitBucket(space: Space, entity: string, resource: string, count: number): Promise<number> {
  return attempt(space, async () => {
    const shards = await readShards(space, entity, resource, count)
    const records = [...shards.values()]
    if (records.length !== count) return records[0]?.shardCount ?? 1
    const stored = (records[0] as BucketRecord).shardCount
    if (stored !== count) return stored
    const items = planSplit(records.map(record => record.state)).flatMap(({from, to, movedMilli}) =>
      moveTokens(space, records[from] as BucketRecord, to, 2 * count, movedMilli),
    )
    await transact(space, items)
    return 2 * count
  })
}

/** Creates one missing shard out of the tokens of the shard it belongs to; false when that one is missing too. */
export async function fillMissingShard(
  space: Space,
  entity: string,
  resource: string,
  shard: number,
): Promise<boolean> {
  const from = shard - 2 ** Math.floor(Math.log2(shard))
  const done = await attempt(space, async () => {
    const shards = await readShards(space, entity, resource, shard + 1)
    const donor = shards.get(from)
    if (shards.has(shard)) return 1
    if (!donor || donor.shardCount <= shard) return 0
    const movedMilli = new Map<string, bigint>()
    for (const [name, limit] of donor.state.limits) {
      if (name === WRITE_PRESSURE_LIMIT) continue
      const kept = shareOf(limit.capacityMilli, from, donor.shardCount)
      const given = shareOf(limit.capacityMilli, shard, donor.shardCount)
      if (kept + given > 0n) movedMilli.set(name, floorDivide(limit.tokensMilli * given, kept + given))
    }
    await transact(space, moveTokens(space, donor, shard, donor.shardCount, movedMilli))
    return 1
  })
  return done === 1
}

/** Sets a shard count beyond reason to the shards that exist, at most `most`; resolves to it. */
export async function healShardCount(space: Space, entity: string, resource: string, most: number): Promise<number> {
  const shards = await readShards(space, entity, resource, most)
  let count = 1
  while (count * 2 <= most && Array.from({length: count * 2}, (_, shard) => shard).every(shard => shards.has(shard)))
    count *= 2
  for (const shard of shards.keys()) {
    const e = new ExpressionBuilder().set('shard_count', n(count))
    e.condition(`${e.name('shard_count')} > ${e.value(n(most))}`)
    const Key = wireKey(keys.bucket(space.namespace, entity, resource, shard))
    await transact(space, [
      {Update: {TableName: space.name, Key, ...e.update()} as NonNullable<TransactItem['Update']>},
    ]).catch(ignoreRefusal)
  }
  return count
}

function moveTokens(
  space: Space,
  donor: BucketRecord,
  shard: number,
  shardCount: number,
  movedMilli: ReadonlyMap<string, bigint>,
): TransactItem[] {
  const give = new ExpressionBuilder()
  // The new shard starts at the donor's refill instant: time credited to the donor since would count twice.
  give.condition(`${give.name('rf')} = ${give.value(n(donor.state.refilledAtMs))}`)
  give.condition(`${give.name('shard_count')} = ${give.value(n(donor.shardCount))}`)
  if (shardCount !== donor.shardCount) give.set('shard_count', n(shardCount))
  else give.add(limitAttribute(WRITE_PRESSURE_LIMIT, 'tc'), n(1000))
  for (const [name, milli] of movedMilli) {
    if (milli === 0n) continue
    const tk = limitAttribute(name, 'tk')
    give.add(tk, n(-milli))
    if (milli > 0n) give.condition(`${give.name(tk)} >= ${give.value(n(milli))}`)
  }
  const limits = new Map<string, LimitState>()
  for (const [name, limit] of donor.state.limits) {
    const tokensMilli = movedMilli.get(name) ?? 0n
    limits.set(
      name,
      name === WRITE_PRESSURE_LIMIT ? freshWritePressure() : {...limit, tokensMilli, consumedMilli: 0n, remainder: 0n},
    )
  }
  const received = encodeBucket({...donor, shard, shardCount, state: {...donor.state, limits}})
  const take = new ExpressionBuilder()
  for (const [name, value] of Object.entries(received)) if (name !== 'PK' && name !== 'SK') take.set(name, value)
  take.condition(`attribute_not_exists(${take.name('rf')})`)
  const key = (index: number) => wireKey(keys.bucket(space.namespace, donor.entity, donor.resource, index))
  return [
    {Update: {TableName: space.name, Key: key(donor.shard), ...give.update()}},
    {Update: {TableName: space.name, Key: key(shard), ...take.update()}},
  ] as TransactItem[]
}

/** Reads and writes again when somebody came in between. */
async function attempt(space: Space, step: () => Promise<number>): Promise<number> {
  for (let tries = 1; ; tries++) {
    try {
      return await step()
    } catch (error) {
      const isContended = isRetryable(error) || (error instanceof TransactionCancelled && error.hasConditionFailure)
      if (!isContended || tries >= ATTEMPTS) throw error
    }
    await pause(tries, space.backoff)
  }
}

function ignoreRefusal(error: unknown): void {
  if (!(error instanceof TransactionCancelled)) throw error
}
