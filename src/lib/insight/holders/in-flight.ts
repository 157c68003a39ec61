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

/** The slots of all shards are in the first one. */
export function slotsOf(bucket: ShardedBucket | undefined): BucketSlots | undefined {
  const [first] = bucket?.shards ?? []
  return first?.kind === 'bucket' && first.record.shard === 0 ? first.record.slots : undefined
}

export async function inFlightLevels(
  {holders}: Pick<NamespaceRepository, 'holders'>,
  slots: BucketSlots | undefined,
): Promise<InFlightLevel[]> {
  if (!slots) return []
  const records = slots.accounts.size === 0 ? new Map() : await holders.getMany(slots.accounts.keys())
  const levels = Array.from(slots.limits, ([limit, {capacity, free}]): InFlightLevel => {
    const held = Array.from(slots.accounts, ([id, account]): SlotHolder => {
      return {id, slots: account.held.get(limit) ?? 0, record: records.get(id)}
    })
    const using = held.filter(holder => holder.slots > 0)
    using.sort((a, b) => b.slots - a.slots || (a.id < b.id ? -1 : 1))
    return {limit, capacity, free, inUse: using.reduce((sum, each) => sum + each.slots, 0), holders: using}
  })
  return levels.sort((a, b) => (a.limit < b.limit ? -1 : 1))
}
