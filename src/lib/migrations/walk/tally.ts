import {keyOf} from '../../repository/table/query.js'
import type {Item, Key} from '../../schema/attribute-value.js'
import type {StepCounts} from '../../schema/migration-record.js'
import type {OldRecordType} from '../records/classify.js'
import {type MigrationFinding, spellKey} from '../records/finding.js'

/** Keys shown of each kind unless all are wanted; all of them are counted. */
const SHOWN = 20

/** A record that somebody has to look at. */
export interface RecordDifference {
  readonly type: OldRecordType | 'table'
  /** The old item, as `zael migrate resolve` takes it; of several that become one, the first. */
  readonly key: string
  readonly state: 'behind' | 'conflict' | 'unmovable'
  readonly says: string
}

/** Some keys out of many. */
export interface Sample<T> {
  readonly count: number
  readonly shown: readonly T[]
}

/** What was decided on the way and has to be said. */
export interface Decisions {
  /** Days whose first hour could be told from the whole day (D-11). */
  readonly untangled: number
  /** Days whose midnight record counts more than it says, and stays as it is. */
  readonly keptAsLabelled: number
  /** Buckets that lie in several places: the one used last counts. */
  readonly superseded: number
}

export const NO_COUNTS: StepCounts = {checked: 0, written: 0, expired: 0, conflicts: 0}

/** Adds up what a walk through the table found. */
export class Tally {
  readonly #differences: RecordDifference[] = []
  readonly #unknown: string[] = []
  readonly #counts = {differences: 0, unmovable: 0, unknown: 0}
  readonly #most: number
  readonly #byType = new Map<OldRecordType, number>()
  readonly #decisions = {untangled: 0, keptAsLabelled: 0, superseded: 0}
  #expired = 0

  constructor({all = false}: {all?: boolean | undefined} = {}) {
    this.#most = all ? Infinity : SHOWN
  }

  /** Old items of one kind that were met. */
  met(type: OldRecordType, items: number): void {
    this.#byType.set(type, (this.#byType.get(type) ?? 0) + items)
  }

  found(finding: MigrationFinding): void {
    const {type, state, says = 'differs', sources, decision} = finding
    if (state === 'expired') this.#expired += sources.length
    if (state === 'unknown') this.unknown(sources.map(keyOf))
    if (decision === 'untangled') this.#decisions.untangled++
    if (decision === 'kept as labelled') this.#decisions.keptAsLabelled++
    if (decision === 'superseded') this.#decisions.superseded++
    if (state === 'behind' || state === 'conflict' || state === 'unmovable') {
      this.differs({type, key: spellKey(keyOf(sources[0] as Item)), state, says})
    }
  }

  differs(difference: RecordDifference): void {
    this.#counts.differences++
    if (difference.state === 'unmovable') this.#counts.unmovable++
    if (this.#differences.length < this.#most) this.#differences.push(difference)
  }

  /** Adds the differences of another walk, through records of other kinds. */
  alsoDiffer({count, shown}: Sample<RecordDifference>): void {
    this.#counts.differences += count
    this.#differences.push(...shown.slice(0, this.#most - this.#differences.length))
  }

  unknown(keys: readonly Key[]): void {
    this.#counts.unknown += keys.length
    this.#unknown.push(...keys.slice(0, this.#most - this.#unknown.length).map(spellKey))
  }

  get differences(): Sample<RecordDifference> {
    return {count: this.#counts.differences, shown: this.#differences}
  }

  /** How many of the differences are records that no run can move. */
  get unmovable(): number {
    return this.#counts.unmovable
  }

  get unknownRecords(): Sample<string> {
    return {count: this.#counts.unknown, shown: this.#unknown}
  }

  get decisions(): Decisions {
    return this.#decisions
  }

  get expired(): number {
    return this.#expired
  }

  /** Old items by kind. */
  get checked(): Partial<Record<OldRecordType, number>> {
    return Object.fromEntries(this.#byType)
  }
}
