import type {LimitState} from '../core/bucket.js'
import type {Rate} from '../core/token-math.js'
import type {ShardedBucket} from '../repository/buckets/buckets.js'
import type {BucketRecord, Residue, StoredBucket} from '../schema/bucket-record.js'

/** Different frames that are worth sharing: names, capacities and rates repeat, balances do not. */
const MOST_SHARED = 10_000

/** What buckets of one shard with the same limits have in common. */
interface Frame extends Pick<BucketRecord, 'namespace' | 'resource' | 'shard' | 'shardCount' | 'cascade' | 'parent'> {
  readonly limits: ReadonlyArray<readonly [name: string, rate: Rate]>
}

const NO_RESIDUE: ReadonlyMap<string, Residue> = new Map()
const frames = new Map<string, Frame>()

/** Numbers before those of the limits: refilledAtMs, ttlSeconds (NaN: it does not expire). */
const OWN_FIELDS = 2
/** Numbers per limit: tokensMilli, remainder, consumedMilli. */
const LIMIT_FIELDS = 3

/** The same bucket in a third of the memory. Few have several shards, residues or huge balances: those stay as they are. */
export function compactRecord(bucket: ShardedBucket): ShardedBucket {
  const [stored] = bucket.shards
  if (bucket.shards.length !== 1 || stored?.kind !== 'bucket' || stored.incomplete.size > 0) return bucket
  const {state, ttlSeconds} = stored.record
  const balances = [...state.limits.values()].flatMap(each => [each.tokensMilli, each.remainder, each.consumedMilli])
  const numbers = [state.refilledAtMs, ttlSeconds ?? Number.NaN, ...balances.map(Number)]
  const isExact = numbers.slice(OWN_FIELDS).every(Number.isSafeInteger)
  return isExact ? new CompactBucket(bucket, frameOf(stored.record), numbers) : bucket
}

/** Makes its record anew whenever somebody asks for it: that is once per reading, and once per frame while it is visible. */
class CompactBucket implements ShardedBucket {
  readonly entity: string
  readonly shardCount: number
  readonly #frame: Frame
  readonly #numbers: readonly number[]

  constructor({entity, shardCount}: ShardedBucket, frame: Frame, numbers: readonly number[]) {
    this.entity = entity
    this.shardCount = shardCount
    this.#frame = frame
    // A copy has no room to grow.
    this.#numbers = numbers.slice()
  }

  get resource(): string {
    return this.#frame.resource
  }

  get shards(): readonly StoredBucket[] {
    const {limits: rates, ...common} = this.#frame
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

function frameOf({namespace, resource, shard, shardCount, cascade, parent, state}: BucketRecord): Frame {
  const limits = Array.from(state.limits, ([name, {capacityMilli, refillAmountMilli, refillPeriodMs}]) => {
    return [name, {capacityMilli, refillAmountMilli, refillPeriodMs}] as const
  })
  const rates = limits.flatMap(([name, rate]) => [name, ...Object.values(rate)])
  const key = [namespace, resource, shard, shardCount, cascade, parent ?? '', ...rates].join('#')
  const known = frames.get(key)
  if (known) return known
  const frame = {namespace, resource, shard, shardCount, cascade, parent, limits}
  if (frames.size < MOST_SHARED) frames.set(key, frame)
  return frame
}
