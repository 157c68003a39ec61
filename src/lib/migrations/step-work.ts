import {isRetryableWhenIdempotent} from '../dynamo/errors.js'
import {retrying} from '../dynamo/retry.js'
import {DEFAULT_NAMESPACE, Namespaces} from '../repository/namespaces.js'
import type {StepCounts} from '../schema/migration-record.js'
import {addMissingParts} from './add-indexes.js'
import type {Stage} from './finding.js'
import type {MigrationLease} from './lease.js'
import {bringUpToDate, sortPage} from './reconcile.js'
import {tablePages} from './scan.js'
import {type Step, type StepId, sortKeysLeftOut} from './steps.js'
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

/** What a step did besides its counts. */
export interface StepDone {
  readonly added: readonly string[]
  /** What the last pass over the records of the step found, and whether nothing was left to catch up with. */
  readonly last?: {readonly tally: Tally; readonly settled: boolean}
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
      return {added: [], last: await catchUp(stage, step, lease, options)}
    default:
      return {added: [], last: {tally: await onePass(stage, step, lease, options), settled: true}}
  }
}

/** Goes over the table again and again until a pass finds nothing; what the last one found is what is told. */
async function catchUp(stage: Stage, step: Step, lease: MigrationLease, options: StepOptions) {
  for (;;) {
    // Always from the beginning, also in place of a runner that died: a pass tells about the whole table.
    await lease.save({position: undefined, passWrites: 0})
    const {pass} = lease.record
    const tally = await onePass(stage, step, lease, options)
    const settled = lease.record.passWrites === 0
    if (settled || pass >= MOST_PASSES) return {tally, settled}
    await lease.save({pass: pass + 1})
  }
}

/** Every page is written before its end is recorded: after a crash it is done again, which changes nothing. */
async function onePass(stage: Stage, step: Step, lease: MigrationLease, {onProgress}: StepOptions): Promise<Tally> {
  const tally = new Tally()
  const total = await itemCount(stage)
  let scanned = 0
  const {position} = lease.record
  const pages = tablePages(stage, {position, leaveOut: sortKeysLeftOut(step)})
  for await (const {items, scanned: gone, next} of pages) {
    const {old, unknown} = sortPage(stage, items)
    tally.unknown(unknown)
    let counts = NO_COUNTS
    let caughtUp = 0
    for (const type of step.moves) {
      const found = old.get(type) ?? []
      if (found.length === 0) continue
      counts = plus(counts, {checked: found.length})
      for (const finding of await bringUpToDate(stage, type, found)) {
        // What is written is in line now; what is told is what is left.
        tally.found(finding.state === 'behind' ? {...finding, state: 'same'} : finding)
        if (finding.state === 'behind') caughtUp++
        counts = plus(counts, {
          written: finding.written ? 1 : 0,
          expired: finding.state === 'expired' ? finding.sources.length : 0,
          conflicts: finding.state === 'conflict' ? 1 : 0,
        })
      }
    }
    scanned += gone
    onProgress?.({step: step.id, scanned, total, pass: lease.record.pass, waitingFor: undefined})
    const {passWrites} = lease.record
    await count(lease, step.id, counts, {position: next, passWrites: passWrites + caughtUp})
  }
  return tally
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
