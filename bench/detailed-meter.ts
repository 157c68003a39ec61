import {CapacityMeter, type CapacityTotals} from '../src/lib/dynamo/capacity.js'
import type {ResponseInfo} from '../src/lib/dynamo/transport.js'

type Snapshot = ReadonlyMap<string, CapacityTotals>

const NOTHING: CapacityTotals = {calls: 0, read: 0, write: 0}

/** Also counts by operation, such as `Query`, and by index, such as `GSI1`. */
export class DetailedMeter {
  readonly #all = new CapacityMeter()
  readonly #parts = new Map<string, CapacityMeter>()

  readonly observe = (info: ResponseInfo): void => {
    this.#all.observe(info)
    this.#part(info.operation).observe(info)
    const indexes = info.capacity.flatMap(({GlobalSecondaryIndexes = {}}) => Object.entries(GlobalSecondaryIndexes))
    for (const [index, units] of indexes) this.#part(index).observe({...info, capacity: [units]})
  }

  snapshot(): Snapshot {
    return new Map([
      ['', this.#all.snapshot()],
      ...[...this.#parts].map(([name, part]) => [name, part.snapshot()] as const),
    ])
  }

  since(before: Snapshot) {
    const parts = new Map([...this.#parts].map(([name, part]) => [name, part.since(before.get(name) ?? NOTHING)]))
    return {...this.#all.since(before.get('') ?? NOTHING), of: (part: string) => parts.get(part) ?? NOTHING}
  }

  #part(name: string): CapacityMeter {
    const part = this.#parts.get(name) ?? new CapacityMeter()
    this.#parts.set(name, part)
    return part
  }
}

export type DetailedTotals = ReturnType<DetailedMeter['since']>
