import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {HolderRecord} from '../../schema/holder-record.js'
import type {BucketSlots} from '../../schema/slot-attributes.js'

/** An in-flight limit of a bucket now, in slots. */
export interface InFlightLevel {
  readonly limit: string
  readonly capacity: number
  /** Negative after the capacity was lowered below the slots in use. */
  readonly free: number
  readonly inUse: number
  /** Most slots first. */
  readonly holders: readonly SlotHolder[]
}

export interface SlotHolder {
  readonly id: string
  readonly slots: number
  /** `undefined`: none is stored, so its process has ended or has not beaten yet. */
  readonly record: HolderRecord | undefined
}

const NOTHING: BucketSlots = {limits: new Map(), accounts: new Map()}

/** The slots of all shards are in the first one. */
export function storedSlots(bucket: ShardedBucket | undefined): BucketSlots | undefined {
  const [first] = bucket?.shards ?? []
  return first?.kind === 'bucket' && first.record.shard === 0 ? first.record.slots : undefined
}

/** `wanted`: capacities of limits in force, as the next request stores them. Default: as stored. */
export async function inFlightLevels(
  {holders}: Pick<NamespaceRepository, 'holders'>,
  {limits, accounts}: BucketSlots = NOTHING,
  wanted = new Map(Array.from(limits, ([name, {capacity}]) => [name, capacity])),
): Promise<InFlightLevel[]> {
  const records = accounts.size === 0 || wanted.size === 0 ? new Map() : await holders.getMany(accounts.keys())
  const levels = Array.from(wanted, ([limit, capacity]): InFlightLevel => {
    const held = Array.from(accounts, ([id, account]): SlotHolder => {
      return {id, slots: account.held.get(limit) ?? 0, record: records.get(id)}
    })
    const using = held.filter(holder => holder.slots > 0)
    using.sort((a, b) => b.slots - a.slots || (a.id < b.id ? -1 : 1))
    const inUse = using.reduce((sum, each) => sum + each.slots, 0)
    const stored = limits.get(limit)
    const free = stored ? stored.free + capacity - stored.capacity : capacity - inUse
    return {limit, capacity, free, inUse, holders: using}
  })
  return levels.sort((a, b) => (a.limit < b.limit ? -1 : 1))
}
