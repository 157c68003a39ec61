import {isRetryableWhenIdempotent} from '../../dynamo/errors.js'
import {retrying} from '../../dynamo/retry.js'
import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import type {Item} from '../../schema/attribute-value.js'
import type {OldRecordType} from '../records/classify.js'
import {type Found, homeOf, type MigrationContext, type MigrationFinding} from '../records/finding.js'
import type {MigrationLease} from './lease.js'
import {bringUpToDate, type SortedPage, sortPage} from './reconcile.js'
import {tablePages} from './scan.js'
import {countStep, plus} from './step-counts.js'
import {CONFIGURATION, DATA, type Step, type StepId, sortKeysLeftOut} from './steps.js'
import {NO_COUNTS, Tally} from './tally.js'

/** How far a step is. */
export interface StepProgress {
  readonly step: StepId
  /** Items gone through in this pass. */
  readonly scanned: number
  /** Items in the table, as far as it tells; `undefined` when it does not. */
  readonly total: number | undefined
  /** Which pass over the table. */
  readonly pass: number
  /** What is waited for, while an index is being built. */
  readonly waitingFor: string | undefined
}

/** One walk through the records of a step. */
export interface Pass {
  /** What is left as it is. */
  readonly tally: Tally
  /** Whether everything was in its place already. */
  readonly isQuiet: boolean
}

/** What passes of one run share. */
export interface PassContext {
  /** Looks anew at what every look at the table needs to know. */
  readonly open: () => Promise<MigrationContext>
  readonly lease: MigrationLease
  /** Records that were not in the new place although an earlier run had finished; added to. */
  readonly copiedAgain: Map<OldRecordType, number>
  readonly onProgress?: ((progress: StepProgress) => void) | undefined
}

/** Every page is written before its end is recorded: after a crash it is done again, which changes nothing. */
export async function onePass(step: Step, context: PassContext): Promise<Pass> {
  const {open, lease, onProgress} = context
  let stage = await open()
  const tally = new Tally()
  const total = await itemCount(stage)
  let scanned = 0
  let isWhole = lease.record.position === undefined
  const surprisesBefore = stage.places?.surprises ?? 0
  const pages = tablePages(stage, {position: lease.record.position, leaveOut: sortKeysLeftOut(step), ahead: true})
  for await (const {items, scanned: gone, next} of pages) {
    let caughtUp = 0
    if (stage.defaultNamespace === undefined && hasUnprefixed(stage, items)) {
      await registerDefault(stage, lease)
      stage = await open()
      // What lies under the literal id may be old from now on, also on pages that are gone through already.
      stage.places?.startOver()
      isWhole = false
      caughtUp++
    }
    const page = sortPage(stage, items)
    tally.unknown(page.unknown)
    takeNote(stage, page)
    let counts = NO_COUNTS
    for (const finding of await writePage(stage, step, page)) {
      // What is written is in line now; what is told is what is left.
      tally.found(finding.state === 'behind' && finding.written ? {...finding, state: 'same'} : finding)
      if (finding.state === 'behind') caughtUp++
      if (finding.isAbsent && finding.written) noteCopy(context, finding.type)
      counts = plus(counts, {
        written: finding.written ? 1 : 0,
        expired: finding.state === 'expired' ? finding.sources.length : 0,
        conflicts: finding.state === 'conflict' ? 1 : 0,
      })
    }
    counts = plus(counts, {checked: step.moves.reduce((sum, type) => sum + (page.old.get(type)?.length ?? 0), 0)})
    scanned += gone
    onProgress?.({step: step.id, scanned, total, pass: lease.record.pass, waitingFor: undefined})
    const {passWrites} = lease.record
    await countStep(lease, step.id, counts, {position: next, passWrites: passWrites + caughtUp})
  }
  if (isWhole) stage.places?.wentThrough()
  const isSurprised = (stage.places?.surprises ?? 0) > surprisesBefore
  return {tally, isQuiet: lease.record.passWrites === 0 && !isSurprised}
}

function noteCopy({lease, copiedAgain}: PassContext, type: OldRecordType): void {
  if (lease.record.earlierFinishedAt !== undefined) copiedAgain.set(type, (copiedAgain.get(type) ?? 0) + 1)
}

/** Gives data without a namespace somewhere to go. */
export async function registerDefault(stage: MigrationContext, lease: MigrationLease): Promise<void> {
  const {created} = await new Namespaces(stage.table).register(DEFAULT_NAMESPACE)
  if (created) await countStep(lease, 'namespaces', {written: 1})
}

/** Whether some of these items lie in the table without a namespace; the version record alone is no data. */
export function hasUnprefixed(stage: MigrationContext, items: readonly Item[]): boolean {
  for (const found of sortPage(stage, items).old.values()) {
    if (found.some(({record}) => record.namespace === undefined && record.type !== 'version')) return true
  }
  return false
}

function takeNote(stage: MigrationContext, {old}: SortedPage): void {
  for (const found of old.values()) {
    for (const {record} of found) stage.places?.note(record, homeOf(stage, record) === stage.defaultNamespace)
  }
}

/** Configuration first, also within a page; the rest side by side. */
async function writePage(
  stage: MigrationContext,
  {moves}: Step,
  {old}: SortedPage,
): Promise<(MigrationFinding & {written: boolean})[]> {
  const results: (MigrationFinding & {written: boolean})[] = []
  const write = async (type: OldRecordType) => {
    const found: readonly Found[] = moves.includes(type) ? (old.get(type) ?? []) : []
    if (found.length > 0) results.push(...(await bringUpToDate(stage, type, found)))
  }
  for (const type of CONFIGURATION) await write(type)
  // A failure waits for the others: nothing is written any more once the lease is given back.
  const outcomes = await Promise.allSettled(DATA.map(write))
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  return results
}

/** Updated by DynamoDB every few hours, so an estimate. */
async function itemCount({table, signal}: MigrationContext): Promise<number | undefined> {
  const send = () => table.transport.send('DescribeTable', {TableName: table.name}, {signal})
  const {Table} = await retrying(send, {...table.backoff, signal, retryable: isRetryableWhenIdempotent})
  return Table?.ItemCount || undefined
}
