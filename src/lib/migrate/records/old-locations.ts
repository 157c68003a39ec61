import {partitionPrefix} from '../../schema/legacy-key.js'
import type {OldRecord} from './classify.js'

/** Kinds whose old items may be in several locations. `limits` includes settings. */
export type ScatteredKind = 'entity' | 'limits' | 'bucket'

/** After a pass over the whole table only known locations are queried. Querying all would cost more than a pass. */
export class OldLocations {
  readonly #prefixes = new Set<string>()
  readonly #kindsWithParts = new Set<ScatteredKind>()
  #isComplete = false
  #lateDiscoveries = 0

  /** Must be called before the record is compared. Only `default` has several spellings. */
  add(record: OldRecord, isInDefault: boolean): void {
    const kind = scatteredKindOf(record)
    if (!kind) return
    const entry = entryOf(kind, partitionPrefix(record.namespace))
    if (isInDefault && !this.#prefixes.has(entry)) {
      this.#prefixes.add(entry)
      this.#discovered()
    }
    if (isPart(record) && !this.#kindsWithParts.has(kind)) {
      this.#kindsWithParts.add(kind)
      this.#discovered()
    }
  }

  markComplete(): void {
    this.#isComplete = true
  }

  /** Items taken for current ones may be old from now on. */
  markIncomplete(): void {
    this.#isComplete = false
  }

  /** Found after `markComplete`. They require another pass. */
  get lateDiscoveries(): number {
    return this.#lateDiscoveries
  }

  mayHold(kind: ScatteredKind, prefix: string): boolean {
    return !this.#isComplete || this.#prefixes.has(entryOf(kind, prefix))
  }

  mayHaveParts(kind: ScatteredKind): boolean {
    return !this.#isComplete || this.#kindsWithParts.has(kind)
  }

  #discovered(): void {
    if (this.#isComplete) this.#lateDiscoveries++
  }
}

const entryOf = (kind: ScatteredKind, prefix: string): string => `${kind} ${prefix}`

function scatteredKindOf({type}: OldRecord): ScatteredKind | undefined {
  if (type === 'entity' || type === 'limits' || type === 'bucket') return type
  return type === 'settings' ? 'limits' : undefined
}

function isPart(record: OldRecord): boolean {
  if (record.type === 'limits') return record.limit !== undefined
  return record.type === 'bucket' && (record.limit !== undefined || record.shard !== undefined)
}
