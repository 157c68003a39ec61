import {ZaelError} from '../core/errors.js'
import {forEachConcurrently} from '../dynamo/concurrency.js'
import {ExpressionBuilder} from '../dynamo/expression.js'
import {paced} from '../dynamo/rate-limit.js'
import type {OperationInput} from '../dynamo/transport.js'
import type {Table} from '../repository/table/table.js'
import type {TransactItem} from '../repository/table/transact.js'
import {isoSeconds, n} from '../schema/attribute-value.js'
import {limitAttribute, readConsumption} from '../schema/bucket-record.js'
import {keyOf, wireKey} from '../schema/keys.js'
import {changingAttributes} from './layouts/record-shapes.js'
import {classifyPage} from './records/classified-page.js'
import type {OldRecordType} from './records/classify.js'
import {isOfType, requireUnchanged, sendConditional, transactConditional} from './records/conditional.js'
import type {MigrationContext, MigrationFinding, OldItem} from './records/finding.js'
import {type Verification, type VerifyOptions, verifyMigration} from './verify-migration.js'
import {type MigrationLease, openMigrationContext, takeMigrationLease} from './walk/lease.js'
import {compareAgain, compareGroup} from './walk/reconcile.js'
import {MigrationReport, type RecordDifference, type Sample} from './walk/report.js'
import {tablePages} from './walk/scan.js'
import {CLEANUP_STEP} from './walk/steps.js'

const CONCURRENT_DELETIONS = 16

interface CleanUpOptions extends VerifyOptions {
  readonly owner: string
  readonly leaseMs?: number | undefined
  /** Write units per second. */
  readonly rateLimit?: number | undefined
  /** Called after a clean comparison, before any deletion. Throws to stop. */
  readonly confirm: (verification: Verification) => Promise<void>
  readonly onDeleted?: ((deleted: number) => void) | undefined
}

export interface CleanUpResult {
  readonly verification: Verification
  readonly deleted: Partial<Record<OldRecordType, number>>
  /** Old records that changed after the comparison or cannot be moved. */
  readonly left: Sample<RecordDifference>
  readonly unknown: Sample<string>
}

/** Throws unless clean. Records that cannot be moved do not count. */
export async function compareForCleanUp(table: Table, options: VerifyOptions): Promise<Verification> {
  const verification = await verifyMigration(table, options)
  if (verification.differences.count > verification.unmovable) throw notClean(verification)
  return verification
}

/** Needs a clean comparison of the table, and compares each record again. Keeps unknown and unmovable records. */
export async function cleanUp(table: Table, options: CleanUpOptions): Promise<CleanUpResult> {
  const verification = await compareForCleanUp(table, options)
  if (Object.keys(verification.checked).length === 0) {
    return {verification, deleted: {}, left: {count: 0, shown: []}, unknown: verification.unknown}
  }
  await options.confirm(verification)
  const lease = await takeMigrationLease(table, CLEANUP_STEP, options)
  const verifiedAt = isoSeconds(table.clock())
  try {
    await lease.save({verifiedAt})
    const context = await openMigrationContext(paced(table, 'writes', options.rateLimit), lease.signal)
    const result = await deleteOld(context, lease, options)
    // An unfinished migration run stays unfinished.
    await lease.release(lease.record.step === CLEANUP_STEP ? {finishedAt: isoSeconds(table.clock())} : {})
    return {verification, ...result}
  } catch (error) {
    throw await lease.abandonAfter(error, cause => ({failure: String(cause)}))
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
    if (outcome === 'changed')
      return report.addFinding({...finding, state: 'behind', reason: 'changed during the cleanup'})
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
      await forEachConcurrently(findings, CONCURRENT_DELETIONS, deleteFinding)
    }
    if (page.old.size > 0) await lease.save({})
    options.onDeleted?.(total)
  }
  return {deleted, left: report.differences, unknown: report.unknownRecords}
}

function notClean({differences, unmovable}: Verification): ZaelError {
  const message = `${differences.count - unmovable} old records differ from their copies; nothing was deleted.`
  return new ZaelError('negative', 'migrate.not-clean', message, {
    hint: 'Run `zael migrate run`, then list the remaining differences: `zael migrate verify`.',
    // The key `says` is part of the JSON output.
    details: {
      differences: differences.count,
      shown: differences.shown.map(({reason, ...rest}) => ({...rest, says: reason})),
    },
  })
}

const MAX_TRANSACTION_ITEMS = 100

/** Per condition: DynamoDB allows 300 operators and 4 KB of text. */
const MAX_COMPARISONS = 140

/** `changed`: the item changed since it was compared, and still exists. */
export type Deletion = 'deleted' | 'changed' | {readonly cannot: string}

/** Retries a change once, because two old records may share a copy. */
async function deleteRecord(context: MigrationContext, finding: MigrationFinding): Promise<Deletion> {
  const first = await deleteSeen(context, finding)
  if (first !== 'changed') return first
  const again = await compareAgain(context, finding)
  return again ? deleteSeen(context, again) : 'deleted'
}

/** All items at once: a part of a day or of a bucket would mean something else. */
async function deleteSeen(context: MigrationContext, finding: MigrationFinding): Promise<Deletion> {
  const {state, sources, onDelete = []} = finding
  if (state !== 'same' && state !== 'expired') return 'changed'
  if (sources.some(({item, record}) => changingAttributes(item, record.type).length > MAX_COMPARISONS)) {
    return {cannot: 'has more limits than one condition can compare; delete it by hand'}
  }
  const writes = [...sources.map(source => deletionOf(context, source)), ...onDelete]
  if (writes.length > MAX_TRANSACTION_ITEMS) return deleteShards(context, finding)
  const [only, another] = writes
  if (!only) return 'deleted'
  const isDone = another
    ? await transactConditional(context, writes)
    : await sendConditional(context, 'DeleteItem', only.Delete as OperationInput<'DeleteItem'>)
  return isDone ? 'deleted' : 'changed'
}

function deletionOf(context: MigrationContext, old: OldItem): TransactItem {
  return {Delete: {TableName: context.table.name, Key: wireKey(keyOf(old.item)), ...ifUnchanged(old).write()}}
}

function ifUnchanged({item, record}: OldItem): ExpressionBuilder {
  const e = new ExpressionBuilder()
  requireUnchanged(e, item, changingAttributes(item, record.type))
  return e
}

/** Folds the highest shards' consumption into the first, so the charged sum stays right after an interruption. */
async function deleteShards(context: MigrationContext, finding: MigrationFinding): Promise<Deletion> {
  const [first, ...further] = finding.sources
    .filter(isOfType('bucket'))
    .filter(({record}) => record.shard !== undefined)
    .sort((one, other) => Number(one.record.shard) - Number(other.record.shard))
  const deleted = further.slice(-(MAX_TRANSACTION_ITEMS - 1))
  const consumed = new Map<string, bigint>()
  for (const [limit, milli] of deleted.flatMap(({item}) => [...readConsumption(item)]))
    consumed.set(limit, (consumed.get(limit) ?? 0n) + milli)
  const isHeldBy = ({item}: OldItem) => [...consumed.keys()].every(limit => limitAttribute(limit, 'tokens') in item)
  if (!first || deleted.length === 0 || !isHeldBy(first)) {
    return {cannot: 'has more old items than one transaction can delete; delete them by hand'}
  }
  const e = ifUnchanged(first)
  for (const [limit, milli] of consumed) e.add(limitAttribute(limit, 'consumed'), n(milli))
  const {UpdateExpression, ...fields} = e.update()
  const keep = {Key: wireKey(keyOf(first.item)), ...fields, TableName: context.table.name}
  const fold: TransactItem =
    UpdateExpression === undefined ? {ConditionCheck: keep} : {Update: {...keep, UpdateExpression}}
  const isDone = await transactConditional(context, [...deleted.map(old => deletionOf(context, old)), fold])
  if (!isDone) return 'changed'
  const rest = await compareAgain(context, finding)
  return rest ? deleteSeen(context, rest) : 'deleted'
}
