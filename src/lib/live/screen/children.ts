import type {Reading, WatchData} from '../model/model.js'

export interface DrainingChild {
  readonly entity: string
  /** Of what all watched children have used of the limit, 0 to 1. */
  readonly share: number
  /** Tokens per second; `null` until it was read twice. */
  readonly ratePerSecond: number | null
}

export interface Drain {
  /** `rate`: shares of the current consumption. `total`: nothing is consumed now, so shares since the buckets exist. */
  readonly basis: 'rate' | 'total'
  readonly children: readonly DrainingChild[]
}

export function drainOf({readings}: Pick<WatchData, 'readings'>, parentId: string, limit: string): Drain {
  const children = [...readings.values()].filter(({chargedTo, isGone}) => chargedTo === parentId && !isGone)
  const rates = children.map(({ratePerSecond}) => Math.max(0, ratePerSecond.get(limit) ?? 0))
  const isConsuming = rates.some(rate => rate > 0)
  const amounts = isConsuming ? rates : children.map(child => consumedOf(child, limit))
  const sum = amounts.reduce((total, each) => total + each, 0)
  const drain = children.map(({bucket, ratePerSecond}, at) => ({
    entity: bucket.entity,
    share: sum > 0 ? (amounts[at] ?? 0) / sum : 0,
    ratePerSecond: ratePerSecond.get(limit) ?? null,
  }))
  const used = drain.filter(({share}) => share > 0)
  used.sort((a, b) => b.share - a.share || (a.entity < b.entity ? -1 : 1))
  return {basis: isConsuming ? 'rate' : 'total', children: used}
}

function consumedOf({bucket}: Reading, limit: string): number {
  const consumed = bucket.shards.map(shard =>
    shard.kind === 'bucket' ? Number(shard.record.state.limits.get(limit)?.consumedMilli ?? 0n) : 0,
  )
  return Math.max(
    0,
    consumed.reduce((sum, each) => sum + each, 0),
  )
}
