import {ZaelError} from '../core/errors.js'
import {chunksOf, forEachConcurrently} from '../dynamo/concurrency.js'
import {Aborted} from '../dynamo/errors.js'
import type {Table} from '../repository/table/table.js'
import {isoSeconds} from '../schema/instant.js'
import {deleteRecord} from './delete-old.js'
import type {OldRecordType} from './records/classify.js'
import type {MigrationContext} from './records/finding.js'
import {type Verification, type VerifyOptions, verifyMigration} from './verify.js'
import {openMigrationContext} from './walk/context.js'
import {MigrationLease} from './walk/lease.js'
import {rateLimited} from './walk/rate-limit.js'
import {compareGroup, sortPage} from './walk/reconcile.js'
import {tablePages} from './walk/scan.js'
import {type RecordDifference, type Sample, Tally} from './walk/tally.js'

const CONCURRENT_DELETIONS = 16

/** What stands in the record of the migration while old items are being deleted. */
const CLEANUP = 'cleanup'

export interface CleanUpOptions extends VerifyOptions {
  readonly owner: string
  readonly leaseMs?: number | undefined
  /** Write units per second at most. */
  readonly rateLimit?: number | undefined
  /** Asked once the comparison is clean, before anything is deleted; throws to stop. */
  readonly confirm: (verification: Verification) => Promise<void>
  /** Called after each page with the number of old items deleted. */
  readonly onDeleted?: ((deleted: number) => void) | undefined
}

export interface CleanUpResult {
  readonly verification: Verification
  /** Old items deleted, by kind. */
  readonly deleted: Partial<Record<OldRecordType, number>>
  /** Old records that changed after the comparison, or that cannot be moved; they are still there. */
  readonly left: Sample<RecordDifference>
  readonly unknown: Sample<string>
}

/** What there is to delete, and that nothing stands in the way; writes nothing. What cannot be moved is only left out. */
export async function compareForCleanUp(table: Table, options: VerifyOptions): Promise<Verification> {
  const verification = await verifyMigration(table, options)
  if (verification.differences.count > verification.unmovable) throw notClean(verification)
  return verification
}

/**
 * Deletes the old items. Nothing is deleted unless a comparison of the whole table, made here, finds no difference, and
 * then only what is compared once more and has not changed since. What nobody knows stays, and so does what cannot be
 * moved. Where there is nothing old nobody is asked.
 */
export async function cleanUp(table: Table, options: CleanUpOptions): Promise<CleanUpResult> {
  const verification = await compareForCleanUp(table, options)
  if (Object.keys(verification.checked).length === 0) {
    return {verification, deleted: {}, left: {count: 0, shown: []}, unknown: verification.unknown}
  }
  await options.confirm(verification)
  const lease = await MigrationLease.take(table, CLEANUP, options)
  const verifiedAt = isoSeconds(table.clock())
  try {
    await lease.save({verifiedAt})
    const signal = options.signal ? AbortSignal.any([options.signal, lease.lost]) : lease.lost
    const pace = {clock: table.clock, sleep: table.backoff.sleep}
    const transport =
      options.rateLimit === undefined ? table.transport : rateLimited(table.transport, options.rateLimit, pace)
    const result = await deleteOld(await openMigrationContext({...table, transport}, signal), lease, options)
    // A run that somebody left half-way stays as it was.
    await lease.release(lease.record.step === CLEANUP ? {finishedAt: isoSeconds(table.clock())} : {})
    return {verification, ...result}
  } catch (error) {
    const cause = lease.lost.aborted ? (lease.lost.reason as unknown) : error
    await lease.abandon(cause instanceof Aborted ? {} : {failure: String(cause)})
    throw cause
  }
}

async function deleteOld(
  stage: MigrationContext,
  lease: MigrationLease,
  options: CleanUpOptions,
): Promise<Omit<CleanUpResult, 'verification'>> {
  const tally = new Tally()
  const deleted: Partial<Record<OldRecordType, number>> = {}
  let total = 0
  for await (const {items} of tablePages(stage)) {
    const {old, unknown} = sortPage(stage, items)
    tally.unknown(unknown)
    for (const [type, found] of old) {
      const findings = await compareGroup(stage, type, found)
      await forEachConcurrently(chunksOf(findings, 1), CONCURRENT_DELETIONS, async ([finding]) => {
        if (!finding) return
        if (finding.state === 'unknown') return tally.found(finding)
        if (finding.state === 'unmovable') return tally.found(finding)
        const outcome = await deleteRecord(stage, finding)
        if (outcome === 'changed') return tally.found({...finding, state: 'behind', says: 'was changed just now'})
        if (outcome !== 'deleted') return tally.found({...finding, state: 'unmovable', says: outcome.cannot})
        total += finding.sources.length
        // Records of several kinds may have become one.
        for (const [kind, {length}] of sortPage(stage, finding.sources).old)
          deleted[kind] = (deleted[kind] ?? 0) + length
      })
    }
    if (old.size > 0) await lease.save({})
    options.onDeleted?.(total)
  }
  return {deleted, left: tally.differences, unknown: tally.unknownRecords}
}

function notClean({differences, unmovable}: Verification): ZaelError {
  const said = `${differences.count - unmovable} old records are not in the new place as they should be; nothing was deleted.`
  return new ZaelError('negative', 'migrate.not-clean', said, {
    hint: 'Run `zael migrate run`, and `zael migrate verify` to see what is left.',
    details: {differences: differences.count, shown: differences.shown},
  })
}
