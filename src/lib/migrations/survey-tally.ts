import type {Key} from '../schema/attribute-value.js'
import {
  type Classified,
  type CurrentRecordType,
  LITERAL_DEFAULT,
  type OldGeneration,
  type OldRecord,
  type OldRecordType,
} from './records/classify.js'
import {type MigrationFinding, spellKey} from './records/finding.js'

/** How many keys are told one by one. */
const EXAMPLES = 20

/** Old items of one kind and generation. */
export interface SurveyRow {
  readonly type: OldRecordType
  readonly generation: OldGeneration
  /** Which releases of the Python system wrote that shape. */
  readonly releases: string
  readonly items: number
  /** What they are in today's layout: limits that had an item each share one. */
  readonly records: number
  /** How many they are when those that are looked at together count once, as usage of one day. */
  readonly groups: number
  readonly bytes: number
  /** Items whose content is not in the new place yet. */
  readonly pending: number
  /** Items that somebody has to decide about. */
  readonly conflicts: number
  /** Items that are not moved because the table drops them. */
  readonly expired: number
}

export interface SurveyCounts {
  /** All items, and their size. */
  readonly items: number
  readonly bytes: number
  readonly old: readonly SurveyRow[]
  /** Items of today's layout by kind. */
  readonly current: Readonly<Partial<Record<CurrentRecordType, number>>>
  /** Items of no known shape, and buckets that cannot be read; the first keys. */
  readonly unknown: {readonly items: number; readonly keys: readonly string[]}
  /** The first conflicts, one for each record. */
  readonly conflicts: readonly {readonly key: string; readonly says: string}[]
}

/** Shapes outlived the generation that brought them. */
const RELEASES: Readonly<Record<OldRecordType, Readonly<Partial<Record<OldGeneration, string>>>>> = {
  entity: {1: '0.1–0.5', 2: '0.6–0.9', 5: '0.10'},
  bucket: {1: '0.1–0.5', 2: '0.6', 3: '0.7–0.8', 4: '0.9', 5: '0.10.0'},
  limits: {1: '0.1–0.5', 2: '0.6–0.7', 4: '0.8–0.9', 5: '0.10'},
  settings: {2: '0.6–0.9', 5: '0.10'},
  registry: {2: '0.6–0.9', 4: '0.8–0.9', 5: '0.10'},
  usage: {1: '0.1–0.9', 5: '0.10'},
  audit: {1: '0.2–0.5', 2: '0.6–0.9', 5: '0.10'},
  version: {1: '0.1–0.5', 2: '0.6', 3: '0.7', 4: '0.8–0.9'},
}

/** One of the old items that belong together. */
export interface SurveyPart {
  readonly record: OldRecord
  readonly key: Key
  readonly bytes: number
}

type Row = {-readonly [K in keyof SurveyRow]: SurveyRow[K]}

/** Adds up what a survey meets. */
export class SurveyTally {
  items = 0
  /** Whether there is data without a namespace. */
  hasUnprefixed = false
  #bytes = 0
  #unknown = 0
  readonly #unknownKeys: string[] = []
  readonly #rows = new Map<string, Row>()
  readonly #literal = new Map<CurrentRecordType, {items: number; bytes: number}>()
  readonly #current: Partial<Record<CurrentRecordType, number>> = {}
  readonly #conflicts = new Map<string, string>()

  /** An old item that was met. */
  addOld(record: OldRecord, bytes: number): void {
    this.#count(bytes)
    // The version record alone is no data.
    if (record.namespace === undefined && record.type !== 'version') this.hasUnprefixed = true
  }

  /** How old items that belong together compare with the new place. */
  addFinding({state, says = 'differs'}: MigrationFinding, parts: readonly SurveyPart[]): void {
    if (state === 'unknown') {
      for (const {key} of parts) this.#addUnknown(key)
      return
    }
    // Neither moves without somebody.
    const isStuck = state === 'conflict' || state === 'unmovable'
    for (const [at, {record, key, bytes}] of parts.entries()) {
      const isFirst = at === 0
      const row = this.#row(record.type, record.generation)
      row.items++
      row.bytes += bytes
      if (isFirst) row.groups++
      if (isFirst || record.type === 'usage') row.records++
      if (state === 'behind') row.pending++
      if (state === 'expired') row.expired++
      if (isStuck) row.conflicts++
      if (isStuck && isFirst && this.#conflicts.size < EXAMPLES) this.#conflicts.set(spellKey(key), says)
    }
  }

  addOther(record: Exclude<Classified, OldRecord>, bytes: number): void {
    this.#count(bytes)
    if (record.kind === 'unknown') {
      this.#addUnknown(record.key)
    } else if (record.namespace === LITERAL_DEFAULT) {
      const sofar = this.#literal.get(record.type) ?? {items: 0, bytes: 0}
      this.#literal.set(record.type, {items: sofar.items + 1, bytes: sofar.bytes + bytes})
    } else {
      this.#current[record.type] = (this.#current[record.type] ?? 0) + 1
    }
  }

  /** What lies under the id `default` has to move as soon as the namespace of that name gets an id of its own. */
  counts(isDefaultRegistered: boolean): SurveyCounts {
    const moves = !isDefaultRegistered && this.hasUnprefixed
    const literal = moves ? [...this.#literal].map(([type, counts]) => literalRow(type as OldRecordType, counts)) : []
    const current = {...this.#current}
    if (!moves) for (const [type, {items}] of this.#literal) current[type] = (current[type] ?? 0) + items
    return {
      items: this.items,
      bytes: this.#bytes,
      old: [...this.#rows.values(), ...literal].sort(
        (a, b) => a.generation - b.generation || (a.type < b.type ? -1 : 1),
      ),
      current,
      unknown: {items: this.#unknown, keys: this.#unknownKeys},
      conflicts: [...this.#conflicts].map(([key, says]) => ({key, says})),
    }
  }

  #addUnknown(key: Key): void {
    this.#unknown++
    if (this.#unknownKeys.length < EXAMPLES) this.#unknownKeys.push(spellKey(key))
  }

  #count(bytes: number): void {
    this.items++
    this.#bytes += bytes
  }

  #row(type: OldRecordType, generation: OldGeneration): Row {
    const name = `${generation} ${type}`
    const known = this.#rows.get(name)
    if (known) return known
    const row = emptyRow(type, generation)
    this.#rows.set(name, row)
    return row
  }
}

function literalRow(type: OldRecordType, {items, bytes}: {items: number; bytes: number}): SurveyRow {
  return {...emptyRow(type, 5), items, records: items, groups: items, bytes, pending: items}
}

function emptyRow(type: OldRecordType, generation: OldGeneration): Row {
  const releases = RELEASES[type][generation] ?? ''
  return {type, generation, releases, items: 0, records: 0, groups: 0, bytes: 0, pending: 0, conflicts: 0, expired: 0}
}
