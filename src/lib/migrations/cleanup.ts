import {chunksOf, forEachConcurrently} from '../dynamo/concurrency.js'
import {Aborted} from '../dynamo/errors.js'
import type {OperationInput} from '../dynamo/transport.js'
import {ZaelError} from '../errors.js'
import type {Table} from '../repository/table.js'
import {isoSeconds} from '../schema/instant.js'
import type {OldRecordType} from './classify.js'
import {deleteSeen, sendConditional, transactConditional} from './conditional.js'
import type {Finding, Stage} from './finding.js'
import {MigrationLease} from './lease.js'
import {rateLimited} from './rate-limit.js'
import {lookAgain, lookAt, sortPage} from './reconcile.js'
import {tablePages} from './scan.js'
import {openStage} from './stage.js'
import {type Difference, type Sample, Tally} from './tally.js'
import {type Verification, type VerifyOptions, verifyMigration} from './verify.js'

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
  /** Old records that changed after the comparison; they are still there. */
  readonly left: Sample<Difference>
  readonly unknown: Sample<string>
}

/**
 * Deletes the old items. Nothing is deleted unless a comparison of the whole table, made here, finds no difference, and
 * then only what is compared once more and has not changed since. What nobody knows stays.
 */
export async function cleanUp(table: Table, options: CleanUpOptions): Promise<CleanUpResult> {
  const verification = await verifyMigration(table, options)
  if (!verification.clean) throw notClean(verification)
  await options.confirm(verification)
  const lease = await MigrationLease.take(table, CLEANUP, options)
  const verifiedAt = isoSeconds(table.clock())
  try {
    await lease.save({verifiedAt})
    const signal = options.signal ? AbortSignal.any([options.signal, lease.lost]) : lease.lost
    const pace = {clock: table.clock, sleep: table.backoff.sleep}
    const transport =
      options.rateLimit === undefined ? table.transport : rateLimited(table.transport, options.rateLimit, pace)
    const result = await deleteOld(await openStage({...table, transport}, signal), lease, options)
    // A run that somebody left half-way stays as it was.
    await lease.release(lease.record.step === CLEANUP ? {finishedAt: isoSeconds(table.clock())} : {})
    return {verification, ...result}
  } catch (error) {
    const cause = lease.lost.aborted ? (lease.lost.reason as unknown) : error
    await lease.release(cause instanceof Aborted ? {} : {failure: String(cause)}).catch(() => {})
    throw cause
  }
}

async function deleteOld(
  stage: Stage,
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
      const findings = await lookAt(stage, type, found)
      await forEachConcurrently(chunksOf(findings, 1), CONCURRENT_DELETIONS, async ([finding]) => {
        if (!finding) return
        if (finding.state === 'unknown') return tally.found(finding)
        // Two old records may share a new one; the mark that the other changed is no reason to stay.
        const isGone = (await deleteRecord(stage, finding)) || (await deleteAgain(stage, finding))
        if (!isGone) return tally.found({...finding, state: 'behind', says: 'was changed just now'})
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

/** All items of a record go at once: the rest of a day, or of a bucket, would mean something else. */
async function deleteRecord(stage: Stage, {state, sources, onDelete = []}: Finding): Promise<boolean> {
  if (state !== 'same' && state !== 'expired') return false
  const deletions = sources.map(source => deleteSeen(stage, source))
  const [only, another] = [...deletions, ...onDelete]
  if (!only) return true
  if (another) return transactConditional(stage, [...deletions, ...onDelete])
  return sendConditional(stage, 'DeleteItem', only.Delete as OperationInput<'DeleteItem'>)
}

async function deleteAgain(stage: Stage, finding: Finding): Promise<boolean> {
  const again = await lookAgain(stage, finding)
  return again === undefined || deleteRecord(stage, again)
}

function notClean({differences}: Verification): ZaelError {
  const said = `${differences.count} old records are not in the new place as they should be; nothing was deleted.`
  return new ZaelError('checkSaidNo', 'migrate.not-clean', said, {
    hint: 'Run `zael migrate run`, and `zael migrate verify` to see what is left.',
    details: {differences: differences.count, shown: differences.shown},
  })
}
