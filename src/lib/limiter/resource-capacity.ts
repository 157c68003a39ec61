import {toTokens} from '../core/token-math.js'
import {Buckets, visibleLimits} from '../repository/buckets/buckets.js'
import {planBucket} from '../repository/buckets/plan.js'
import type {NamespaceTable} from '../repository/table/table.js'
import {availableTogether, plannedState} from './shard-room.js'

/** Whole tokens of one limit. */
export interface CapacityOfLimit {
  readonly capacity: number
  /** Negative in debt. */
  readonly available: number
}

/** How much of a resource is left, for everybody who has used it. */
export interface ResourceCapacity {
  readonly resource: string
  readonly entities: ReadonlyArray<{
    readonly entity: string
    readonly limits: Readonly<Record<string, CapacityOfLimit>>
  }>
  /** Sums over all entities. */
  readonly totals: Readonly<Record<string, CapacityOfLimit>>
}

/** Adds up the live buckets of a resource at this instant; writes nothing. */
export async function resourceCapacity(table: NamespaceTable, resource: string): Promise<ResourceCapacity> {
  const nowMs = table.clock()
  const entities: {entity: string; limits: Record<string, CapacityOfLimit>}[] = []
  const totals = new Map<string, {capacity: number; available: number}>()
  for await (const bucket of new Buckets(table).ofResource(resource)) {
    const live = bucket.shards.filter(shard => shard.kind === 'bucket')
    const [first] = live
    if (!first) continue
    const states = live.map(shard => plannedState(planBucket(shard, nowMs)))
    const limits = new Map<string, CapacityOfLimit>()
    for (const [name, {capacityMilli}] of visibleLimits(first.record)) {
      const one = {capacity: toTokens(capacityMilli), available: toTokens(availableTogether(states, name))}
      limits.set(name, one)
      const sum = totals.get(name) ?? {capacity: 0, available: 0}
      totals.set(name, {capacity: sum.capacity + one.capacity, available: sum.available + one.available})
    }
    entities.push({entity: bucket.entity, limits: Object.fromEntries(limits)})
  }
  entities.sort((a, b) => (a.entity < b.entity ? -1 : 1))
  return {resource, entities, totals: Object.fromEntries(totals)}
}
