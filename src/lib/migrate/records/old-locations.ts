import {partitionPrefix} from '../../schema/legacy-key.js'
import type {OldRecord} from './classify.js'

/** Kinds of records whose old items may be in several locations; settings are part of the limits of the system level. */
export type ScatteredKind = 'entity' | 'limits' | 'bucket'

/**
 * Where old items are. The items of one record may be under several spellings of the namespace `default`, and a bucket or a
 * configuration may be one item or several. Looking for the other items of every record costs more than a pass over the
 * table. A run that has read the whole table knows all locations and queries no others. If a client uses a new one later,
 * the next pass finds it; such a pass does not count as one that found nothing.
 */
export class OldLocations {
  readonly #prefixes = new Set<string>()
  readonly #kindsWithParts = new Set<ScatteredKind>()
  #isComplete = false
  #lateDiscoveries = 0

  /** Records the location of an old record, before it is compared. Only `default` has more than one spelling. */
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

  /** Items that were taken for current ones may be old from now on, so there may be unknown locations. */
  markIncomplete(): void {
    this.#isComplete = false
  }

  /** Number of locations found after all were thought to be known. */
  get lateDiscoveries(): number {
    return this.#lateDiscoveries
  }

  /** Whether partitions of the namespace `default` with that prefix may hold old records of a kind. */
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

/** Whether an item is one of several of its record: a single limit, or a shard. */
function isPart(record: OldRecord): boolean {
  if (record.type === 'limits') return record.limit !== undefined
  return record.type === 'bucket' && (record.limit !== undefined || record.shard !== undefined)
}
