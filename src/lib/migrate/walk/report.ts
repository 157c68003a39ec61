import type {Key} from '../../schema/attribute-value.js'
import {keyOf, spellKey} from '../../schema/keys.js'
import type {OldRecordType} from '../records/classify.js'
import {findingKey, type MigrationFinding} from '../records/finding.js'

/** Keys listed of each kind by default. All are counted. */
const LISTED = 20

export interface RecordDifference {
  readonly type: OldRecordType | 'table'
  readonly key: string
  readonly state: 'behind' | 'conflict' | 'unmovable'
  readonly reason: string
}

export interface Sample<T> {
  readonly count: number
  readonly shown: readonly T[]
}

export interface Decisions {
  readonly split: number
  readonly keptAsLabelled: number
  readonly superseded: number
}

export class MigrationReport {
  readonly #differences: RecordDifference[] = []
  readonly #unknown: string[] = []
  readonly #counts = {differences: 0, unmovable: 0, unknown: 0, expired: 0}
  readonly #maxListed: number
  readonly #checked = new Map<OldRecordType, number>()
  readonly #decisions = {split: 0, keptAsLabelled: 0, superseded: 0}

  constructor({all = false}: {all?: boolean | undefined} = {}) {
    this.#maxListed = all ? Infinity : LISTED
  }

  addChecked(type: OldRecordType, items: number): void {
    this.#checked.set(type, (this.#checked.get(type) ?? 0) + items)
  }

  addFinding(finding: MigrationFinding): void {
    const {type, state, reason = 'differs', sources, decision} = finding
    if (state === 'expired') this.#counts.expired += sources.length
    if (state === 'unknown') this.addUnknown(sources.map(({item}) => keyOf(item)))
    if (decision === 'split') this.#decisions.split++
    if (decision === 'kept as labelled') this.#decisions.keptAsLabelled++
    if (decision === 'superseded') this.#decisions.superseded++
    if (state === 'behind' || state === 'conflict' || state === 'unmovable') {
      this.addDifference({type, key: findingKey(finding), state, reason})
    }
  }

  addDifference(difference: RecordDifference): void {
    this.#counts.differences++
    if (difference.state === 'unmovable') this.#counts.unmovable++
    if (this.#differences.length < this.#maxListed) this.#differences.push(difference)
  }

  addDifferences({count, shown}: Sample<RecordDifference>): void {
    this.#counts.differences += count
    this.#differences.push(...shown.slice(0, this.#maxListed - this.#differences.length))
  }

  addUnknown(keys: readonly Key[]): void {
    this.#counts.unknown += keys.length
    this.#unknown.push(...keys.slice(0, this.#maxListed - this.#unknown.length).map(spellKey))
  }

  get differences(): Sample<RecordDifference> {
    return {count: this.#counts.differences, shown: this.#differences}
  }

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
    return this.#counts.expired
  }

  get checked(): Partial<Record<OldRecordType, number>> {
    return Object.fromEntries(this.#checked)
  }
}
