import type {LimitState} from '../core/bucket.js'
import type {Residue, StoredBucket} from '../schema/bucket-record.js'

/** Different values that are worth sharing: names, capacities and rates repeat, balances do not. */
const MOST_SHARED = 10_000

const NO_RESIDUE: ReadonlyMap<string, Residue> = new Map()
const strings = new Map<string, string>()
const integers = new Map<bigint, bigint>()

/** The same record in about half the memory: what many records have in common is kept once. */
export function compact(stored: StoredBucket): StoredBucket {
  if (stored.kind === 'ghost') return stored
  const {record, incomplete} = stored
  const {refilledAtMs, limits} = record.state
  return {
    kind: 'bucket',
    record: {
      ...record,
      namespace: shared(strings, record.namespace),
      resource: shared(strings, record.resource),
      state: {
        refilledAtMs,
        limits: new Map(Array.from(limits, ([name, limit]) => [shared(strings, name), compactLimit(limit)])),
      },
    },
    incomplete: incomplete.size === 0 ? NO_RESIDUE : incomplete,
  }
}

function compactLimit(limit: LimitState): LimitState {
  const capacityMilli = shared(integers, limit.capacityMilli)
  return {
    ...limit,
    capacityMilli,
    refillAmountMilli: shared(integers, limit.refillAmountMilli),
    tokensMilli: limit.tokensMilli === capacityMilli ? capacityMilli : limit.tokensMilli,
  }
}

function shared<T>(pool: Map<T, T>, value: T): T {
  const known = pool.get(value)
  if (known !== undefined) return known
  if (pool.size < MOST_SHARED) pool.set(value, value)
  return value
}
