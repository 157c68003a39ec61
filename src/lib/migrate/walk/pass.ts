import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import {sendRepeatable} from '../../repository/table/table.js'
import type {StepCounts} from '../../schema/migration-record.js'
import {LimitlessFinder} from '../limitless/find.js'
import {type Limitless, LimitlessTally} from '../limitless/tally.js'
import {type ClassifiedPage, classifyPage, hasUnprefixed} from '../records/classified-page.js'
import type {OldRecordType} from '../records/classify.js'
import {type MigrationContext, type MigrationFinding, targetNamespace} from '../records/finding.js'
import type {MigrationLease} from './lease.js'
import {type CopyOutcome, compareGroup, writeGroup} from './reconcile.js'
import {MigrationReport} from './report.js'
import {type TablePage, tablePages} from './scan.js'
import {CONFIGURATION, countStep, DATA, type MigrationStep, type StepId, sortKeysLeftOut} from './steps.js'

export interface StepProgress {
  readonly step: StepId
  readonly scanned: number
  /** Estimate. `undefined`: the engine does not report one. */
  readonly total: number | undefined
  readonly pass: number
  readonly waitingFor: string | undefined
}

export interface Pass {
  readonly report: MigrationReport
  readonly isUpToDate: boolean
  readonly limitless: Limitless
}

export interface RunContext {
  readonly open: () => Promise<MigrationContext>
  readonly lease: MigrationLease
  readonly copiedAgain: Map<OldRecordType, number>
  readonly onProgress?: ((progress: StepProgress) => void) | undefined
}

/** Compares a page while the one before is written. Saves the position after each; repeating a page is harmless. */
export async function runPass(step: MigrationStep, run: RunContext): Promise<Pass> {
  const {lease, onProgress} = run
  const {position} = lease.record
  let context = await run.open()
  let readsWholeTable = position === undefined
  const discoveriesBefore = context.locations?.lateDiscoveries ?? 0
  const report = new MigrationReport()
  const total = await estimateItems(context)
  const finder = step.moves.includes('bucket') ? new LimitlessFinder() : undefined
  const tally = new LimitlessTally()
  let scanned = 0
  let written: Promise<void> = Promise.resolve()
  const write = async (of: MigrationContext, page: ClassifiedPage, compared: ComparedPage, read: TablePage) => {
    const outcomes = await writePage(of, compared)
    noteCopiedAgain(run, outcomes)
    report.addUnknown(page.unknown)
    for (const outcome of outcomes) report.addFinding(remaining(outcome))
    for (const bucket of (await finder?.find(of, page)) ?? []) tally.add(bucket)
    scanned += read.scanned
    onProgress?.({step: step.id, scanned, total, pass: lease.record.pass, waitingFor: undefined})
    const changes = outcomes.filter(({state}) => state === 'behind').length
    const passWrites = lease.record.passWrites + changes
    await countStep(lease, step.id, countsOf(step, page, outcomes), {position: read.next, passWrites})
  }
  try {
    for await (const read of tablePages(context, {position, leaveOut: sortKeysLeftOut(step), ahead: true})) {
      let page = classifyPage(context, read.items, read.isWhole)
      if (context.defaultNamespace === undefined && hasUnprefixed(page)) {
        await registerDefault(context, lease)
        await lease.save({passWrites: lease.record.passWrites + 1})
        context = await run.open()
        // Items under the literal id `default` may be old from now on, on this page and on earlier ones.
        page = classifyPage(context, read.items, read.isWhole)
        context.locations?.markIncomplete()
        readsWholeTable = false
      }
      for (const {record} of [...page.old.values()].flat()) {
        context.locations?.add(record, targetNamespace(context, record) === context.defaultNamespace)
      }
      const compared = await comparePage(context, step, page)
      await written
      written = write(context, page, compared, read)
      // Comparing the next page throws this error.
      written.catch(() => {})
    }
  } finally {
    // Before throwing a failure: nothing may be written after the lease is released.
    await written
  }
  if (readsWholeTable) context.locations?.markComplete()
  const hasNewLocations = (context.locations?.lateDiscoveries ?? 0) > discoveriesBefore
  return {report, isUpToDate: lease.record.passWrites === 0 && !hasNewLocations, limitless: tally.limitless}
}

export async function registerDefault(context: MigrationContext, lease: MigrationLease): Promise<void> {
  const {created} = await new Namespaces(context.table).register(DEFAULT_NAMESPACE)
  if (created) await countStep(lease, 'namespaces', {written: 1})
}

interface ComparedPage {
  readonly copied: readonly CopyOutcome[]
  readonly data: readonly (readonly [OldRecordType, readonly MigrationFinding[]])[]
}

/** Configuration first, within a page too. The other kinds concurrently. */
async function comparePage(
  context: MigrationContext,
  {moves}: MigrationStep,
  {old}: ClassifiedPage,
): Promise<ComparedPage> {
  const compare = (type: OldRecordType) => {
    const items = moves.includes(type) ? (old.get(type) ?? []) : []
    return items.length > 0 ? compareGroup(context, type, items) : []
  }
  const copied: CopyOutcome[] = []
  for (const type of CONFIGURATION) copied.push(...(await writeGroup(context, type, await compare(type))))
  return {copied, data: await Promise.all(DATA.map(async type => [type, await compare(type)] as const))}
}

async function writePage(context: MigrationContext, {copied, data}: ComparedPage): Promise<CopyOutcome[]> {
  const outcomes = [...copied]
  const write = async ([type, findings]: ComparedPage['data'][number]) => {
    outcomes.push(...(await writeGroup(context, type, findings)))
  }
  const results = await Promise.allSettled(data.map(write))
  for (const result of results) if (result.status === 'rejected') throw result.reason
  return outcomes
}

const remaining = (outcome: CopyOutcome): MigrationFinding =>
  outcome.state === 'behind' && outcome.written ? {...outcome, state: 'same'} : outcome

function noteCopiedAgain({lease, copiedAgain}: RunContext, outcomes: readonly CopyOutcome[]): void {
  if (lease.record.earlierFinishedAt === undefined) return
  for (const {type, isAbsent, written} of outcomes) {
    if (isAbsent && written) copiedAgain.set(type, (copiedAgain.get(type) ?? 0) + 1)
  }
}

function countsOf({moves}: MigrationStep, {old}: ClassifiedPage, outcomes: readonly CopyOutcome[]): StepCounts {
  const sum = <T>(elements: readonly T[], count: (element: T) => number) =>
    elements.reduce((total, element) => total + count(element), 0)
  return {
    checked: sum(moves, type => old.get(type)?.length ?? 0),
    written: sum(outcomes, ({written}) => Number(written)),
    expired: sum(outcomes, ({state, sources}) => (state === 'expired' ? sources.length : 0)),
    conflicts: sum(outcomes, ({state}) => Number(state === 'conflict')),
  }
}

async function estimateItems({table, signal}: MigrationContext): Promise<number | undefined> {
  const {Table} = await sendRepeatable(table, 'DescribeTable', {TableName: table.name}, {signal})
  return Table?.ItemCount || undefined
}
