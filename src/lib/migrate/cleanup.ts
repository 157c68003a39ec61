import {ZaelError} from '../core/errors.js'
import {chunksOf, forEachConcurrently} from '../dynamo/concurrency.js'
import {Aborted} from '../dynamo/errors.js'
import {rateLimited} from '../dynamo/rate-limit.js'
import type {Table} from '../repository/table/table.js'
import {isoSeconds} from '../schema/read.js'
import {deleteRecord} from './delete-old.js'
import {classifyPage} from './records/classified-page.js'
import type {OldRecordType} from './records/classify.js'
import type {MigrationContext, MigrationFinding} from './records/finding.js'
import {type Verification, type VerifyOptions, verifyMigration} from './verify-migration.js'
import {openMigrationContext} from './walk/context.js'
import {MigrationLease} from './walk/lease.js'
import {compareGroup} from './walk/reconcile.js'
import {MigrationReport, type RecordDifference, type Sample} from './walk/report.js'
import {tablePages} from './walk/scan.js'
import {CLEANUP_STEP} from './walk/steps.js'

const CONCURRENT_DELETIONS = 16

interface CleanUpOptions extends VerifyOptions {
  readonly owner: string
  readonly leaseMs?: number | undefined
  /** Most write units per second. */
  readonly rateLimit?: number | undefined
  /** Called after a clean comparison, before anything is deleted; throws to stop. */
  readonly confirm: (verification: Verification) => Promise<void>
  readonly onDeleted?: ((deleted: number) => void) | undefined
}

export interface CleanUpResult {
  readonly verification: Verification
  readonly deleted: Partial<Record<OldRecordType, number>>
  /** Old records that still exist, because they changed after the comparison or cannot be moved. */
  readonly left: Sample<RecordDifference>
  readonly unknown: Sample<string>
}

/** Compares old and new items; throws if a clean-up has to be refused. Records that cannot be moved are only left out. */
export async function compareForCleanUp(table: Table, options: VerifyOptions): Promise<Verification> {
  const verification = await verifyMigration(table, options)
  if (verification.differences.count > verification.unmovable) throw notClean(verification)
  return verification
}

/**
 * Deletes the old items. Nothing is deleted unless a comparison of the whole table finds no difference, and then only records
 * that are compared once more and have not changed since. Items of unknown shape and records that cannot be moved stay. If
 * there is nothing old, there is no confirmation.
 */
export async function cleanUp(table: Table, options: CleanUpOptions): Promise<CleanUpResult> {
  const verification = await compareForCleanUp(table, options)
  if (Object.keys(verification.checked).length === 0) {
    return {verification, deleted: {}, left: {count: 0, shown: []}, unknown: verification.unknown}
  }
  await options.confirm(verification)
  const lease = await MigrationLease.take(table, CLEANUP_STEP, options)
  const verifiedAt = isoSeconds(table.clock())
  try {
    await lease.save({verifiedAt})
    const signal = options.signal ? AbortSignal.any([options.signal, lease.lost]) : lease.lost
    const pace = {clock: table.clock, sleep: table.backoff.sleep}
    const transport =
      options.rateLimit === undefined
        ? table.transport
        : rateLimited(table.transport, {of: 'writes', unitsPerSecond: options.rateLimit}, pace)
    const result = await deleteOld(await openMigrationContext({...table, transport}, signal), lease, options)
    // An unfinished migration run stays unfinished.
    await lease.release(lease.record.step === CLEANUP_STEP ? {finishedAt: isoSeconds(table.clock())} : {})
    return {verification, ...result}
  } catch (error) {
    const cause = lease.lost.aborted ? (lease.lost.reason as unknown) : error
    await lease.abandon(cause instanceof Aborted ? {} : {failure: String(cause)})
    throw cause
  }
}

async function deleteOld(
  context: MigrationContext,
  lease: MigrationLease,
  options: CleanUpOptions,
): Promise<Omit<CleanUpResult, 'verification'>> {
  const report = new MigrationReport()
  const deleted: Partial<Record<OldRecordType, number>> = {}
  let total = 0
  const deleteFinding = async (finding: MigrationFinding): Promise<void> => {
    if (finding.state === 'unknown' || finding.state === 'unmovable') return report.addFinding(finding)
    const outcome = await deleteRecord(context, finding)
    if (outcome === 'changed') return report.addFinding({...finding, state: 'behind', reason: 'was changed just now'})
    if (outcome !== 'deleted') return report.addFinding({...finding, state: 'unmovable', reason: outcome.cannot})
    total += finding.sources.length
    // Records of several kinds may have become one.
    for (const {record} of finding.sources) deleted[record.type] = (deleted[record.type] ?? 0) + 1
  }
  for await (const {items} of tablePages(context)) {
    const page = classifyPage(context, items)
    report.addUnknown(page.unknown)
    for (const [type, old] of page.old) {
      const findings = await compareGroup(context, type, old)
      await forEachConcurrently(chunksOf(findings, 1), CONCURRENT_DELETIONS, async ([finding]) => {
        if (finding) await deleteFinding(finding)
      })
    }
    if (page.old.size > 0) await lease.save({})
    options.onDeleted?.(total)
  }
  return {deleted, left: report.differences, unknown: report.unknownRecords}
}

function notClean({differences, unmovable}: Verification): ZaelError {
  const message = `${differences.count - unmovable} old records differ from their copies; nothing was deleted.`
  return new ZaelError('negative', 'migrate.not-clean', message, {
    hint: 'Run `zael migrate run`, then `zael migrate verify` to see what is left.',
    // The key `says` is part of the JSON output.
    details: {
      differences: differences.count,
      shown: differences.shown.map(({reason, ...rest}) => ({...rest, says: reason})),
    },
  })
}
