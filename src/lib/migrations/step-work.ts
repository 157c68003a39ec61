import {isRetryableWhenIdempotent} from '../dynamo/errors.js'
import {retrying} from '../dynamo/retry.js'
import {DEFAULT_NAMESPACE, Namespaces} from '../repository/namespaces.js'
import type {StepCounts} from '../schema/migration-record.js'
import {addMissingParts} from './add-indexes.js'
import type {OldRecordType} from './classify.js'
import {type Finding, type Found, homeOf, type Stage} from './finding.js'
import type {MigrationLease} from './lease.js'
import {bringUpToDate, type SortedPage, sortPage} from './reconcile.js'
import {tablePages} from './scan.js'
import {CONFIGURATION, DATA, type Step, type StepId, sortKeysLeftOut} from './steps.js'
import {NO_COUNTS, Tally} from './tally.js'
import {recordVersion} from './version-step.js'

/** Passes over the table at most: while old clients write there is always something to catch up with. */
const MOST_PASSES = 8

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

export interface StepOptions {
  readonly ourVersion: string
  readonly stream?: boolean | undefined
  readonly onProgress?: ((progress: StepProgress) => void) | undefined
}

/** One walk through the records of a step. */
export interface Pass {
  /** What is left as it is. */
  readonly tally: Tally
  /** Whether everything was in its place already. */
  readonly isQuiet: boolean
}

/** What a step did besides its counts. */
export interface StepDone {
  readonly added: readonly string[]
  readonly lastPass?: Pass
}

const DONE: StepDone = {added: []}

/** Does one step, from where the record of the lease says. */
export async function runStep(
  stage: Stage,
  step: Step,
  lease: MigrationLease,
  options: StepOptions,
): Promise<StepDone> {
  switch (step.id) {
    case 'indexes': {
      const tell = (waitingFor: string) =>
        options.onProgress?.({step: step.id, scanned: 0, total: undefined, pass: 1, waitingFor})
      const added = await addMissingParts(stage, {stream: options.stream, onWaiting: tell})
      await count(lease, step.id, {written: added.length})
      return {added}
    }
    case 'namespaces':
      if (stage.defaultNamespace === undefined && (await hasUnprefixed(stage))) {
        await new Namespaces(stage.table).register(DEFAULT_NAMESPACE)
        await count(lease, step.id, {written: 1})
      }
      return DONE
    case 'version':
      if (await recordVersion(stage, options.ourVersion)) await count(lease, step.id, {written: 1})
      return DONE
    case 'catch-up':
      return {added: [], lastPass: await catchUp(stage, step, lease, options)}
    default:
      return {added: [], lastPass: await onePass(stage, step, lease, options)}
  }
}

/** Goes over the table again and again until a pass finds nothing; what the last one found is what is told. */
async function catchUp(stage: Stage, step: Step, lease: MigrationLease, options: StepOptions): Promise<Pass> {
  for (;;) {
    // Always from the beginning, also in place of a runner that died: a pass tells about the whole table.
    await lease.save({position: undefined, passWrites: 0})
    const {pass} = lease.record
    const done = await onePass(stage, step, lease, options)
    if (done.isQuiet || pass >= MOST_PASSES) return done
    await lease.save({pass: pass + 1})
  }
}

/** Every page is written before its end is recorded: after a crash it is done again, which changes nothing. */
async function onePass(stage: Stage, step: Step, lease: MigrationLease, {onProgress}: StepOptions): Promise<Pass> {
  const tally = new Tally()
  const total = await itemCount(stage)
  let scanned = 0
  const {position} = lease.record
  const surprisesBefore = stage.places?.surprises ?? 0
  const pages = tablePages(stage, {position, leaveOut: sortKeysLeftOut(step), ahead: true})
  for await (const {items, scanned: gone, next} of pages) {
    const page = sortPage(stage, items)
    tally.unknown(page.unknown)
    takeNote(stage, page)
    let counts = NO_COUNTS
    let caughtUp = 0
    for (const finding of await writePage(stage, step, page)) {
      // What is written is in line now; what is told is what is left.
      tally.found(finding.state === 'behind' ? {...finding, state: 'same'} : finding)
      if (finding.state === 'behind') caughtUp++
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
    await count(lease, step.id, counts, {position: next, passWrites: passWrites + caughtUp})
  }
  if (position === undefined) stage.places?.wentThrough()
  const isSurprised = (stage.places?.surprises ?? 0) > surprisesBefore
  return {tally, isQuiet: lease.record.passWrites === 0 && !isSurprised}
}

function takeNote(stage: Stage, {old}: SortedPage): void {
  for (const found of old.values()) {
    for (const {record} of found) stage.places?.note(record, homeOf(stage, record) === stage.defaultNamespace)
  }
}

/** Configuration first, also within a page; the rest side by side. */
async function writePage(stage: Stage, {moves}: Step, {old}: SortedPage): Promise<(Finding & {written: boolean})[]> {
  const results: (Finding & {written: boolean})[] = []
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

async function count(
  lease: MigrationLease,
  step: StepId,
  counts: Partial<StepCounts>,
  change: Parameters<MigrationLease['save']>[0] = {},
): Promise<void> {
  const before = lease.record.counts
  await lease.save({...change, counts: {...before, [step]: plus(before[step] ?? NO_COUNTS, counts)}})
}

function plus(one: StepCounts, other: Partial<StepCounts>): StepCounts {
  return {
    checked: one.checked + (other.checked ?? 0),
    written: one.written + (other.written ?? 0),
    expired: one.expired + (other.expired ?? 0),
    conflicts: one.conflicts + (other.conflicts ?? 0),
  }
}

/** Whether anything lies in the table without a namespace; the version record alone is no data. */
async function hasUnprefixed(stage: Stage): Promise<boolean> {
  for await (const {items} of tablePages(stage)) {
    for (const found of sortPage(stage, items).old.values()) {
      if (found.some(({record}) => record.namespace === undefined && record.type !== 'version')) return true
    }
  }
  return false
}

/** Updated by DynamoDB every few hours, so an estimate. */
async function itemCount({table, signal}: Stage): Promise<number | undefined> {
  const send = () => table.transport.send('DescribeTable', {TableName: table.name}, {signal})
  const {Table} = await retrying(send, {...table.backoff, signal, retryable: isRetryableWhenIdempotent})
  return Table?.ItemCount || undefined
}
