import {hasKinds, type LimitState} from '../../core/buckets/bucket.js'
import type {Rate} from '../../core/token-math.js'
import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import type {BucketRecord, Residue, StoredBucket} from '../../schema/bucket-record.js'

/** Names, capacities and rates repeat between buckets; balances do not. */
const MAX_SHARED = 10_000

interface SharedFields
  extends Pick<BucketRecord, 'namespace' | 'resource' | 'shard' | 'shardCount' | 'cascade' | 'parent'> {
  readonly limits: ReadonlyArray<readonly [name: string, rate: Rate]>
}

const NO_RESIDUE: ReadonlyMap<string, Residue> = new Map()
const sharedFields = new Map<string, SharedFields>()

/** Numbers before those of the limits: refilledAtMs, ttlSeconds (NaN: no expiry). */
const OWN_FIELDS = 2
/** Numbers per limit: tokensMilli, remainder, consumedMilli. */
const LIMIT_FIELDS = 3

/** A third of the memory. Leaves buckets with several shards, quotas, switches or huge balances unchanged. */
export function compactRecord(bucket: ShardedBucket): ShardedBucket {
  const [stored] = bucket.shards
  if (bucket.shards.length !== 1 || stored?.kind !== 'bucket' || stored.incomplete.size > 0) return bucket
  const {state, ttlSeconds, isDisabled, bypassUntilMs} = stored.record
  if (isDisabled || bypassUntilMs !== undefined || hasKinds(state)) return bucket
  const balances = [...state.limits.values()].flatMap(each => [each.tokensMilli, each.remainder, each.consumedMilli])
  const numbers = [state.refilledAtMs, ttlSeconds ?? Number.NaN, ...balances.map(Number)]
  const isExact = numbers.slice(OWN_FIELDS).every(Number.isSafeInteger)
  return isExact ? new CompactBucket(bucket, sharedFieldsOf(stored.record), numbers) : bucket
}

/** The fields of a compact bucket, computed once: for buckets that are not kept. */
export function trimmedRecord(bucket: ShardedBucket): ShardedBucket {
  const {entity, resource, shardCount, shards} = compactRecord(bucket)
  return {entity, resource, shardCount, shards}
}

/** Rebuilds its record on every access: once per reading, and once per frame while visible. */
class CompactBucket implements ShardedBucket {
  readonly entity: string
  readonly shardCount: number
  readonly #shared: SharedFields
  readonly #numbers: readonly number[]

  constructor({entity, shardCount}: ShardedBucket, shared: SharedFields, numbers: readonly number[]) {
    this.entity = entity
    this.shardCount = shardCount
    this.#shared = shared
    // The copy has no spare capacity.
    this.#numbers = numbers.slice()
  }

  get resource(): string {
    return this.#shared.resource
  }

  get shards(): readonly StoredBucket[] {
    const {limits: rates, ...common} = this.#shared
    const [refilledAtMs = 0, ttl = Number.NaN] = this.#numbers
    const limits = new Map(rates.map(([name, rate], at) => [name, {...rate, ...this.#balance(at)}]))
    const ttlSeconds = Number.isNaN(ttl) ? undefined : ttl
    const record = {...common, entity: this.entity, ttlSeconds, state: {refilledAtMs, limits}}
    return [{kind: 'bucket', record, incomplete: NO_RESIDUE}]
  }

  #balance(at: number): Omit<LimitState, keyof Rate> {
    const from = OWN_FIELDS + at * LIMIT_FIELDS
    const [tokensMilli = 0n, remainder = 0n, consumedMilli = 0n] = this.#numbers
      .slice(from, from + LIMIT_FIELDS)
      .map(BigInt)
    return {tokensMilli, remainder, consumedMilli}
  }
}

function sharedFieldsOf({namespace, resource, shard, shardCount, cascade, parent, state}: BucketRecord): SharedFields {
  const limits = Array.from(state.limits, ([name, {capacityMilli, refillAmountMilli, refillPeriodMs}]) => {
    return [name, {capacityMilli, refillAmountMilli, refillPeriodMs}] as const
  })
  const rates = limits.flatMap(([name, rate]) => [name, ...Object.values(rate)])
  const key = [namespace, resource, shard, shardCount, cascade, parent ?? '', ...rates].join('#')
  const known = sharedFields.get(key)
  if (known) return known
  const fields = {namespace, resource, shard, shardCount, cascade, parent, limits}
  if (sharedFields.size < MAX_SHARED) sharedFields.set(key, fields)
  return fields
}
