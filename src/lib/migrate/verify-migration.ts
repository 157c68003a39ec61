import type {Table} from '../repository/table/table.js'
import {readVersion} from '../repository/table/version.js'
import {openLimiterTable} from './limiter-table.js'
import {LimitlessFinder} from './limitless/find.js'
import {LimitlessTally, NOTHING_LIMITLESS} from './limitless/tally.js'
import {classifyPage} from './records/classified-page.js'
import {isAcceptedVersion} from './records/copied-records.js'
import type {MigrationContext} from './records/finding.js'
import {findMissingParts} from './walk/add-indexes.js'
import {readMigration} from './walk/lease.js'
import {compareGroup} from './walk/reconcile.js'
import {MigrationReport} from './walk/report.js'
import {tablePages} from './walk/scan.js'

export interface VerifyOptions {
  readonly ourVersion: string
  readonly signal?: AbortSignal | undefined
  /** List every difference, not only the first ones. */
  readonly all?: boolean | undefined
  readonly onProgress?: ((scanned: number) => void) | undefined
}

export type Verification = Awaited<ReturnType<typeof verifyMigration>>

export async function verifyMigration(table: Table, options: VerifyOptions) {
  const context = await openLimiterTable(table, options)
  const report = new MigrationReport({all: options.all})
  const finder = new LimitlessFinder()
  const tally = new LimitlessTally()
  let scanned = 0
  for await (const {items, isWhole} of tablePages(context, {ahead: true})) {
    const page = classifyPage(context, items, isWhole)
    report.addUnknown(page.unknown)
    for (const [type, old] of page.old) {
      report.addChecked(type, old.length)
      for (const finding of await compareGroup(context, type, old)) {
        report.addFinding(finding)
        // Unreadable records were not compared. Their items may be on any page.
        if (finding.state === 'unknown') report.addChecked(type, -finding.sources.length)
      }
    }
    for (const bucket of await finder.find(context, page)) tally.add(bucket)
    scanned += items.length
    options.onProgress?.(scanned)
  }
  await verifyTable(context, report)
  const hadOlderLayout = Object.keys(report.checked).length > 0 || (await readMigration(context.table, options.signal))
  return {
    clean: report.differences.count === 0,
    checked: report.checked,
    expired: report.expired,
    differences: report.differences,
    /** Differences that no run can fix: the current layout cannot hold the records. */
    unmovable: report.unmovable,
    unknown: report.unknownRecords,
    decisions: report.decisions,
    /** Current buckets only. Empty for a table that never had an older layout. */
    limitless: hadOlderLayout ? tally.limitless : NOTHING_LIMITLESS,
  }
}

async function verifyTable(context: MigrationContext, report: MigrationReport): Promise<void> {
  const {table} = context
  const addMissing = (reason: string) => report.addDifference({type: 'table', key: table.name, state: 'behind', reason})
  for (const index of (await findMissingParts(context)).indexes) addMissing(`has no index ${index}`)
  const {record, hasLegacyRecord} = await readVersion(table)
  if ((record || hasLegacyRecord) && !isAcceptedVersion(record)) addMissing('has no version record of the new layout')
}
