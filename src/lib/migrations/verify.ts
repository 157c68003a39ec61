import type {Table} from '../repository/table/table.js'
import {readVersion} from '../repository/table/version.js'
import {openLimiterTable} from './limiter-table.js'
import {isAccepted} from './records/accepted-version.js'
import type {OldRecordType} from './records/classify.js'
import type {MigrationContext} from './records/finding.js'
import {findMissingParts} from './walk/add-indexes.js'
import {compareGroup, sortPage} from './walk/reconcile.js'
import {tablePages} from './walk/scan.js'
import {type Decisions, type RecordDifference, type Sample, Tally} from './walk/tally.js'

export interface VerifyOptions {
  readonly ourVersion: string
  readonly signal?: AbortSignal | undefined
  /** Show every difference, not only the first ones. */
  readonly all?: boolean | undefined
  /** Called after each page with the number of items gone through. */
  readonly onProgress?: ((scanned: number) => void) | undefined
}

/** How old and new compare, item by item. */
export interface Verification {
  /** Every old item is in the new place, as it should be. */
  readonly clean: boolean
  /** Old items by kind. */
  readonly checked: Partial<Record<OldRecordType, number>>
  /** Old items that the table may drop by itself. */
  readonly expired: number
  readonly differences: Sample<RecordDifference>
  /** How many of the differences no run can settle: today's layout has no room for what the records say. */
  readonly unmovable: number
  readonly unknown: Sample<string>
  readonly decisions: Decisions
}

/** Compares every old record with the new place; writes nothing. */
export async function verifyMigration(table: Table, options: VerifyOptions): Promise<Verification> {
  const stage = await openLimiterTable(table, options)
  const tally = new Tally({all: options.all})
  let scanned = 0
  for await (const {items} of tablePages(stage, {ahead: true})) {
    const {old, unknown} = sortPage(stage, items)
    tally.unknown(unknown)
    for (const [type, found] of old) {
      tally.met(type, found.length)
      for (const finding of await compareGroup(stage, type, found)) {
        tally.found(finding)
        // What cannot be read cannot be compared either; its items may lie on any page.
        if (finding.state === 'unknown') tally.met(type, -finding.sources.length)
      }
    }
    scanned += items.length
    options.onProgress?.(scanned)
  }
  await lookAtTable(stage, tally)
  return {
    clean: tally.differences.count === 0,
    checked: tally.checked,
    expired: tally.expired,
    differences: tally.differences,
    unmovable: tally.unmovable,
    unknown: tally.unknownRecords,
    decisions: tally.decisions,
  }
}

/** What clients of today need besides the records. */
async function lookAtTable(stage: MigrationContext, tally: Tally): Promise<void> {
  const missing = (says: string) => tally.differs({type: 'table', key: stage.table.name, state: 'behind', says})
  for (const index of (await findMissingParts(stage)).indexes) missing(`has no index ${index}`)
  const {record, hasLegacyRecord} = await readVersion(stage.table)
  if ((record || hasLegacyRecord) && !isAccepted(record)) missing('is not recorded as one of the new layout')
}
