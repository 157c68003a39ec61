import {ZaelError} from '../core/errors.js'
import {Aborted} from '../dynamo/errors.js'
import type {Table} from '../repository/table/table.js'
import {isoSeconds} from '../schema/instant.js'
import type {StepCounts} from '../schema/migration-record.js'
import {openLimiterTable} from './limiter-table.js'
import type {OldRecordType} from './records/classify.js'
import {OldPlaces} from './records/old-places.js'
import {openMigrationContext} from './walk/context.js'
import {MigrationLease} from './walk/lease.js'
import type {Pass, StepProgress} from './walk/pass.js'
import {rateLimited} from './walk/rate-limit.js'
import {runStep, type StepDone} from './walk/step-work.js'
import {STEP_IDS, STEPS, type StepId} from './walk/steps.js'
import {type Decisions, NO_COUNTS, type RecordDifference, type Sample, Tally} from './walk/tally.js'

/** How a table is migrated. */
export interface MigrateOptions {
  /** Who runs it, for people that find it running. */
  readonly owner: string
  /** Of this zael; goes into the version record. */
  readonly ourVersion: string
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: ((progress: StepProgress) => void) | undefined
  /** Write units per second at most. */
  readonly rateLimit?: number | undefined
  /** The last step to be done. */
  readonly until?: StepId | undefined
  /** How long both places are kept together once everything is copied, in ms; by default until a pass finds nothing. */
  readonly followMs?: number | undefined
  /** How long others wait for a runner that died, in ms. */
  readonly leaseMs?: number | undefined
  /** Whether a table without a stream gets one. Default true. */
  readonly stream?: boolean | undefined
}

/** One step and what it came to, over all the runs that worked on it. */
export interface StepResult extends StepCounts {
  readonly id: StepId
  readonly title: string
  readonly state: 'done' | 'pending'
}

export interface MigrationResult {
  readonly runId: string
  /** Whether an earlier run had begun it. */
  readonly resumed: boolean
  /** False when it stopped at the step that was asked for. */
  readonly finished: boolean
  readonly steps: readonly StepResult[]
  /** What the table lacked and has now. */
  readonly added: readonly string[]
  /** Records that somebody has to choose about. */
  readonly conflicts: Sample<RecordDifference>
  readonly unknown: Sample<string>
  readonly decisions: Decisions
  /**
   * Records by kind that were not in the new place although an earlier run had finished: made by old clients since, or
   * deleted by current ones and now there again. Counted by this runner.
   */
  readonly copiedAgain: Partial<Record<OldRecordType, number>>
  /** Whether the last pass over the table found nothing to catch up with. */
  readonly settled: boolean
}

/** Takes a table of any older layout to today's. Interrupted at any instant, it goes on when it is run again. */
export async function migrateTable(table: Table, options: MigrateOptions): Promise<MigrationResult> {
  const {rateLimit, until, ourVersion, followMs} = options
  const pace = {clock: table.clock, sleep: table.backoff.sleep}
  const paced = rateLimit === undefined ? table : {...table, transport: rateLimited(table.transport, rateLimit, pace)}
  await openLimiterTable(paced, {ourVersion, signal: options.signal})
  const lease = await MigrationLease.take(table, STEP_IDS[0] as string, options)
  const resumed = lease.record.step !== STEP_IDS[0] || lease.record.position !== undefined
  const signal = options.signal ? AbortSignal.any([options.signal, lease.lost]) : lease.lost
  const added: string[] = []
  const places = new OldPlaces()
  const open = async () => ({...(await openMigrationContext(paced, signal)), places})
  const copying: Pass[] = []
  const copiedAgain = new Map<OldRecordType, number>()
  let tally = new Tally()
  let settled = true
  try {
    const recorded = Math.max(0, STEP_IDS.indexOf(lease.record.step as StepId))
    const from = followMs === undefined ? recorded : Math.min(recorded, STEP_IDS.indexOf('catch-up'))
    if (until !== undefined && STEP_IDS.indexOf(until) < from) return await conclude(false)
    for (const [at, step] of STEPS.entries()) {
      if (at < from) continue
      const isWhole = lease.record.position === undefined
      const isCatchUp = step.id === 'catch-up'
      const done: StepDone =
        isCatchUp && followMs === undefined && areQuiet(copying)
          ? {added: [], lastPass: together(copying)}
          : await runStep(step, {open, lease, copiedAgain, onProgress: options.onProgress}, options)
      added.push(...done.added)
      if (done.lastPass) {
        tally = done.lastPass.tally
        settled = !isCatchUp || done.lastPass.isQuiet
        if (isWhole) copying.push(done.lastPass)
      }
      const next = STEP_IDS[at + 1]
      if (next === undefined) break
      await lease.save({step: next, position: undefined, pass: 1, passWrites: 0})
      if (step.id === until) return await conclude(false)
    }
    return await conclude(true)
  } catch (error) {
    const cause = lease.lost.aborted ? (lease.lost.reason as unknown) : error
    const isInterrupted = cause instanceof Aborted
    await lease.abandon(isInterrupted ? {} : {failure: messageOf(cause)})
    throw cause
  }

  async function conclude(finished: boolean): Promise<MigrationResult> {
    await lease.release(finished ? {finishedAt: isoSeconds(table.clock())} : {})
    const {runId, counts, step} = lease.record
    const reached = STEP_IDS.indexOf(step as StepId)
    return {
      runId,
      resumed,
      finished,
      steps: STEPS.map(({id, title}, at) => ({
        id,
        title,
        ...(counts[id] ?? NO_COUNTS),
        state: finished || at < reached ? 'done' : 'pending',
      })),
      added,
      conflicts: tally.differences,
      unknown: tally.unknownRecords,
      decisions: tally.decisions,
      copiedAgain: Object.fromEntries(copiedAgain),
      settled,
    }
  }
}

/** How many steps it takes to go through all old records. */
const COPYING_STEPS = STEPS.filter(({id, moves}) => moves.length > 0 && id !== 'catch-up').length

/** Whether this run has gone through all old records, from the beginning, and found everything in its place. */
const areQuiet = (copying: readonly Pass[]): boolean =>
  copying.length === COPYING_STEPS && copying.every(({isQuiet}) => isQuiet)

/** What the copying steps found, as one walk; the last of them met everything that nobody knows. */
function together(copying: readonly Pass[]): Pass {
  const last = copying.at(-1) as Pass
  for (const {tally} of copying.slice(0, -1)) last.tally.alsoDiffer(tally.differences)
  return last
}

const messageOf = (error: unknown): string => (error instanceof ZaelError ? error.message : String(error))
