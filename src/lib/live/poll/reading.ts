import {type BucketLimit, hasKinds} from '../../core/buckets/bucket.js'
import {WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import type {Rate} from '../../core/token-math.js'
import {addressOf, type ShardedBucket} from '../../repository/buckets/buckets.js'
import type {CountedShard} from '../../repository/buckets/pages.js'
import {averageRequest} from '../../repository/buckets/view.js'
import {type BucketRecord, type Residue, type StoredBucket, WRITE_PRESSURE_RATE} from '../../schema/bucket-record.js'
import {writeUnitsOf} from '../../schema/item-size.js'
import {MOST_LEVELS} from '../../schema/namespace-record.js'
import type {BucketSlots} from '../../schema/slot-attributes.js'
import {recordsOf} from '../model/levels.js'
import {type Reading, SAMPLES} from '../model/model.js'
import {nextRequestCounts} from '../model/request-counts.js'
import {worstLimitAt} from '../model/status.js'

/** Closer readings give no reliable rate. */
const MIN_OBSERVATION_MS = 500

/** Most buckets are idle; they share maps of zeros, by the keys of the map. */
const idleRates = new Map<string, Reading['ratePerSecond']>()
const idlePressures = new Map<string, Reading['writePressures']>()
const NO_RATES: Reading['ratePerSecond'] = new Map()
const NO_PRESSURES: Reading['writePressures'] = new Map()

const parentIds = new Map<string, string>()
const figures = new Map<string, readonly (number | null)[]>()
const MOST_SHARED = 10_000

const shared = <T extends number | null>(list: readonly T[]): readonly T[] =>
  once(figures as Map<string, readonly T[]>, JSON.stringify(list), list)

function once<T>(known: Map<string, T>, key: string, value: T): T {
  const first = known.get(key)
  if (first === undefined && known.size < MOST_SHARED) known.set(key, value)
  return first ?? value
}

export const bucketId = ({entity, resource}: {readonly entity: string; readonly resource: string}): string =>
  // `join` makes a flat string; concatenation would keep its parts in memory.
  [entity, resource].join('#')

export const entityOf = (id: string): string => id.slice(0, id.indexOf('#'))

export function nextReading(
  previous: Reading | undefined,
  current: ShardedBucket,
  readAtMs: number,
  form: (bucket: ShardedBucket) => ShardedBucket = compactRecord,
  mostLevels: number = MOST_LEVELS.parent,
): Reading {
  const before = previous && recordsByShard(previous.bucket)
  const shards = current.shards.map(withoutDelegated)
  const bucket = form({...current, shards: before ? shards.map(shard => newer(before, shard)) : shards})
  const id = previous?.id ?? bucketId(bucket)
  const rates = ratesSince(previous, bucket, readAtMs)
  const requests = nextRequestCounts(previous?.requests, current.shards, readAtMs)
  const typical = shared([...(averageRequest(bucket, requests.admitted)?.values() ?? [])])
  const bypassUntilMs = bypassEnd(current)
  const worst = worstLimitAt({bucket, typical, bypassUntilMs, ...rates}, readAtMs)
  // `concat` allocates no spare capacity.
  const samples = (previous?.used ?? []).slice(1 - SAMPLES).concat(worst ? 1 - worst.left : null)
  const used = samples.length === 1 ? shared(samples) : samples
  const {ratePerSecond, writePressure, writePressures, countedFrom} = rates
  // No spread: V8 would take twice the memory, and there are a hundred thousand of these.
  return {
    id,
    bucket,
    readAtMs,
    ratePerSecond,
    requests,
    typical,
    bypassUntilMs,
    // All shards have the same switch.
    isDisabled: recordsOf(current)[0]?.isDisabled === true,
    countedFrom,
    chargedTo: chargedTo(bucket),
    mostLevels,
    writePressure,
    writePressures,
    used,
    isGone: false,
  }
}

function bypassEnd(bucket: ShardedBucket): number | undefined {
  const ends = recordsOf(bucket).flatMap(({bypassUntilMs}) => bypassUntilMs ?? [])
  return ends.length === 0 ? undefined : Math.max(...ends)
}

function chargedTo(bucket: ShardedBucket): string | undefined {
  const [first] = recordsOf(bucket)
  if (!first?.cascade || first.parent === undefined) return undefined
  const id = bucketId({entity: first.parent, resource: bucket.resource})
  return once(parentIds, id, id)
}

/** Runs count what they spend of the tokens that they got: their rate must not appear twice. */
function withoutDelegated(shard: CountedShard): CountedShard {
  const {kind, counts} = shard
  if (kind === 'ghost' || !counts?.delegated) return shard
  const {record} = shard
  const limits = new Map(record.state.limits)
  for (const [name, milli] of counts.delegated) {
    const limit = limits.get(name)
    if (limit) limits.set(name, {...limit, consumedMilli: limit.consumedMilli - milli})
  }
  return {...shard, record: {...record, state: {...record.state, limits}}}
}

type Records = ReadonlyMap<number, BucketRecord>

const recordsByShard = (bucket: ShardedBucket): Records =>
  new Map(recordsOf(bucket).map(record => [record.shard, record]))

/** Every write raises the write counter; a re-created item has a later refill time. A lower counter alone is stale. */
function newer(before: Records, current: StoredBucket): StoredBucket {
  const known = before.get(addressOf(current).shard)
  if (!known || current.kind === 'ghost') return current
  const {record} = current
  const isStale = writesOf(record) < writesOf(known) && record.state.refilledAtMs <= known.state.refilledAtMs
  return isStale ? {...current, record: known} : current
}

function ratesSince(
  previous: Reading | undefined,
  bucket: ShardedBucket,
  readAtMs: number,
): Pick<Reading, 'ratePerSecond' | 'writePressure' | 'writePressures' | 'countedFrom'> {
  if (!previous)
    return {ratePerSecond: NO_RATES, writePressure: 0, writePressures: NO_PRESSURES, countedFrom: undefined}
  const from = previous.countedFrom ?? {bucket: previous.bucket, readAtMs: previous.readAtMs}
  const elapsedMs = readAtMs - from.readAtMs
  if (elapsedMs < MIN_OBSERVATION_MS) {
    const {ratePerSecond, writePressure, writePressures} = previous
    return {ratePerSecond, writePressure, writePressures, countedFrom: from}
  }
  const before = recordsByShard(from.bucket)
  const consumed = new Map<string, bigint>()
  const pressures = new Map<number, number>()
  for (const record of recordsByShard(bucket).values()) {
    const known = before.get(record.shard)
    // The shard existed last time but was not read, so its earlier counter is unknown.
    if (!known && record.shard < from.bucket.shardCount) continue
    // Counters of a new or re-created item start at zero.
    const isSame = known !== undefined && writesOf(record) >= writesOf(known)
    for (const [name, {consumedMilli}] of record.state.limits) {
      const since = consumedMilli - (isSame ? (known.state.limits.get(name)?.consumedMilli ?? 0n) : 0n)
      if (name !== WRITE_PRESSURE_LIMIT) consumed.set(name, (consumed.get(name) ?? 0n) + since)
    }
    const writes = writesOf(record) - (isSame ? writesOf(known) : 0n)
    pressures.set(record.shard, pressureOf(record, writes, elapsedMs))
  }
  const rates = new Map(Array.from(consumed, ([name, milli]) => [name, Number(milli) / elapsedMs]))
  return {
    ratePerSecond: sharedIfIdle(rates),
    writePressure: Math.max(0, ...pressures.values()),
    writePressures: oneOfIdle(pressures, idlePressures),
    countedFrom: undefined,
  }
}

const writesOf = ({state}: BucketRecord): bigint => state.limits.get(WRITE_PRESSURE_LIMIT)?.consumedMilli ?? 0n

/** One write counts 1,000 milli; a write to a large item costs several units. */
function pressureOf(record: BucketRecord, writesMilli: bigint, elapsedMs: number): number {
  if (writesMilli <= 0n) return 0
  const writesPerSecond = Number(writesMilli) / elapsedMs
  return (writesPerSecond * writeUnitsOf(record) * 1000) / Number(WRITE_PRESSURE_RATE.capacityMilli)
}

export const sharedIfIdle = (rates: Reading['ratePerSecond']): Reading['ratePerSecond'] => oneOfIdle(rates, idleRates)

function oneOfIdle<K>(
  figures: ReadonlyMap<K, number>,
  idle: Map<string, ReadonlyMap<K, number>>,
): ReadonlyMap<K, number> {
  const isIdle = [...figures.values()].every(figure => figure === 0)
  return isIdle ? once(idle, [...figures.keys()].join('#'), figures) : figures
}

/** Names, capacities and rates repeat between buckets; balances do not. */
interface SharedFields
  extends Pick<BucketRecord, 'namespace' | 'resource' | 'shard' | 'shardCount' | 'cascade' | 'parent'> {
  readonly limits: ReadonlyArray<readonly [name: string, rate: Rate]>
  readonly slots: readonly string[]
}

const NO_RESIDUE: ReadonlyMap<string, Residue> = new Map()
const NO_ACCOUNTS: BucketSlots['accounts'] = new Map()
const sharedFields = new Map<string, SharedFields>()

/** Numbers before those of the limits: refilledAtMs, ttlSeconds (NaN: no expiry). */
const OWN_FIELDS = 2
const LIMIT_FIELDS = 3
const SLOT_FIELDS = 2

/** Needs a third of the memory. Buckets with several shards, quotas, switches or huge balances stay unchanged. Omits who holds slots. */
export function compactRecord(bucket: ShardedBucket): ShardedBucket {
  const [stored] = bucket.shards
  if (bucket.shards.length !== 1 || stored?.kind !== 'bucket' || stored.incomplete.size > 0) return bucket
  const {state, ttlSeconds, isDisabled, bypassUntilMs, slots} = stored.record
  if (isDisabled || bypassUntilMs !== undefined || hasKinds(state)) return bucket
  const balances = [...state.limits.values()].flatMap(each => [each.tokensMilli, each.remainder, each.consumedMilli])
  const free = [...(slots?.limits.values() ?? [])].flatMap(each => [each.capacity, each.free])
  const numbers = [state.refilledAtMs, ttlSeconds ?? Number.NaN, ...balances.map(Number), ...free]
  const isExact = numbers.slice(OWN_FIELDS).every(Number.isSafeInteger)
  return isExact ? new CompactBucket(bucket, sharedFieldsOf(stored.record), numbers) : bucket
}

/** The fields of a compact bucket, computed once: for buckets that are not stored. */
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
    const {limits: rates, slots: names, ...common} = this.#shared
    const [refilledAtMs = 0, ttl = Number.NaN] = this.#numbers
    const limits = new Map(rates.map(([name, rate], at) => [name, {...rate, ...this.#balance(at)}]))
    const ttlSeconds = Number.isNaN(ttl) ? undefined : ttl
    const slots = this.#slots(names, OWN_FIELDS + rates.length * LIMIT_FIELDS)
    const record = {...common, entity: this.entity, ttlSeconds, state: {refilledAtMs, limits}, ...slots}
    return [{kind: 'bucket', record, incomplete: NO_RESIDUE}]
  }

  #balance(at: number): Omit<BucketLimit, keyof Rate> {
    const from = OWN_FIELDS + at * LIMIT_FIELDS
    const [tokensMilli = 0n, remainder = 0n, consumedMilli = 0n] = this.#numbers
      .slice(from, from + LIMIT_FIELDS)
      .map(BigInt)
    return {tokensMilli, remainder, consumedMilli}
  }

  #slots(names: readonly string[], from: number): Pick<BucketRecord, 'slots'> | undefined {
    if (names.length === 0) return undefined
    const limits = names.map((name, at) => {
      const [capacity = 0, free = 0] = this.#numbers.slice(from + at * SLOT_FIELDS)
      return [name, {capacity, free}] as const
    })
    return {slots: {limits: new Map(limits), accounts: NO_ACCOUNTS}}
  }
}

function sharedFieldsOf(record: BucketRecord): SharedFields {
  const {namespace, resource, shard, shardCount, cascade, parent, state} = record
  const slots = [...(record.slots?.limits.keys() ?? [])]
  const limits = Array.from(state.limits, ([name, {capacityMilli, refillAmountMilli, refillPeriodMs}]) => {
    return [name, {capacityMilli, refillAmountMilli, refillPeriodMs}] as const
  })
  const rates = limits.flatMap(([name, rate]) => [name, ...Object.values(rate)])
  const key = [namespace, resource, shard, shardCount, cascade, parent ?? '', ...rates, '', ...slots].join('#')
  return once(sharedFields, key, {namespace, resource, shard, shardCount, cascade, parent, limits, slots})
}
