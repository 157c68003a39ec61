import type {Key} from '../../schema/attribute-value.js'
import {keyOf, spellKey} from '../../schema/keys.js'
import type {OldRecordType} from '../records/classify.js'
import {findingKey, type MigrationFinding} from '../records/finding.js'

/** Keys listed per kind by default. All are counted. */
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
  readonly differences = {count: 0, shown: [] as RecordDifference[]}
  readonly unknownRecords = {count: 0, shown: [] as string[]}
  readonly decisions = {split: 0, keptAsLabelled: 0, superseded: 0}
  readonly checked: Partial<Record<OldRecordType, number>> = {}
  unmovable = 0
  expired = 0
  readonly #maxListed: number

  constructor({all = false}: {all?: boolean | undefined} = {}) {
    this.#maxListed = all ? Infinity : LISTED
  }

  addChecked(type: OldRecordType, items: number): void {
    this.checked[type] = (this.checked[type] ?? 0) + items
  }

  addFinding(finding: MigrationFinding): void {
    const {type, state, reason = 'differs', sources, decision} = finding
    if (state === 'expired') this.expired += sources.length
    if (state === 'unknown') this.addUnknown(sources.map(({item}) => keyOf(item)))
    if (decision === 'split') this.decisions.split++
    if (decision === 'kept as labelled') this.decisions.keptAsLabelled++
    if (decision === 'superseded') this.decisions.superseded++
    if (state === 'behind' || state === 'conflict' || state === 'unmovable') {
      this.addDifference({type, key: findingKey(finding), state, reason})
    }
  }

  addDifference(difference: RecordDifference): void {
    if (difference.state === 'unmovable') this.unmovable++
    this.addDifferences({count: 1, shown: [difference]})
  }

  addDifferences({count, shown}: Sample<RecordDifference>): void {
    this.differences.count += count
    this.differences.shown.push(...shown.slice(0, this.#maxListed - this.differences.shown.length))
  }

  addUnknown(keys: readonly Key[]): void {
    const {shown} = this.unknownRecords
    this.unknownRecords.count += keys.length
    shown.push(...keys.slice(0, this.#maxListed - shown.length).map(spellKey))
  }
}
