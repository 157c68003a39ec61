import type {OldRecord} from './classify.js'

/** Records whose old items may lie in several places; settings are limits of the system level. */
export type ScatteredKind = 'entity' | 'limits' | 'bucket'

/**
 * Where old items lie. Those of one record may lie under several spellings of the namespace `default`, and buckets and
 * configurations may be one item or several; to look for the others of every single record costs more than the walk
 * through the table. Whoever has gone through all of it knows what there is, and looks for nothing else. Should a client
 * bring something new later on, the next walk meets it: a surprise, and such a walk is not one that found nothing.
 */
export class OldPlaces {
  readonly #places = new Set<string>()
  readonly #parted = new Set<ScatteredKind>()
  #isWhole = false
  #surprises = 0

  /** Takes note of an old record before it is looked at; other namespaces than `default` have one spelling each. */
  note(record: OldRecord, isOfDefault: boolean): void {
    const kind = kindOf(record)
    if (!kind) return
    const place = placeOf(kind, record.namespace === undefined ? '' : `${record.namespace}/`)
    if (isOfDefault && !this.#places.has(place)) {
      this.#places.add(place)
      this.#surprised()
    }
    if (isPart(record) && !this.#parted.has(kind)) {
      this.#parted.add(kind)
      this.#surprised()
    }
  }

  /** The whole table was gone through: what is not known by now is not there. */
  wentThrough(): void {
    this.#isWhole = true
  }

  /** What was taken for today's may be old from now on: nothing is known to be absent. */
  startOver(): void {
    this.#isWhole = false
  }

  /** How often something new came up after the whole table had been gone through. */
  get surprises(): number {
    return this.#surprises
  }

  /** Whether partitions of the namespace `default` whose keys begin like that may hold old records of that kind. */
  mayHold(kind: ScatteredKind, prefix: string): boolean {
    return !this.#isWhole || this.#places.has(placeOf(kind, prefix))
  }

  /** Whether records of that kind may be several items in one partition. */
  mayBeParted(kind: ScatteredKind): boolean {
    return !this.#isWhole || this.#parted.has(kind)
  }

  #surprised(): void {
    if (this.#isWhole) this.#surprises++
  }
}

const placeOf = (kind: ScatteredKind, prefix: string): string => `${kind} ${prefix}`

function kindOf({type}: OldRecord): ScatteredKind | undefined {
  if (type === 'entity' || type === 'limits' || type === 'bucket') return type
  return type === 'settings' ? 'limits' : undefined
}

/** Whether an item is one of several: those of single limits, and shards. */
function isPart(record: OldRecord): boolean {
  if (record.type === 'limits') return record.limit !== undefined
  return record.type === 'bucket' && (record.limit !== undefined || record.shard !== undefined)
}
