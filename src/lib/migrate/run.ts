import type {DeepReadonly} from '../core/deep-readonly.js'
import {ZaelError} from '../core/errors.js'
import {paced} from '../dynamo/rate-limit.js'
import type {Table} from '../repository/table/table.js'
import {isoSeconds} from '../schema/attribute-value.js'
import {openLimiterTable} from './limiter-table.js'
import {NOTHING_LIMITLESS} from './limitless/tally.js'
import type {OldRecordType} from './records/classify.js'
import {OldLocations} from './records/finding.js'
import {openMigrationContext, readMigration, takeMigrationLease, withLongRetries} from './walk/lease.js'
import type {Pass, StepProgress} from './walk/pass.js'
import {MigrationReport} from './walk/report.js'
import {runStep, type StepOutcome} from './walk/run-step.js'
import {CLEANUP_STEP, NO_COUNTS, STEP_IDS, STEPS, type StepId} from './walk/steps.js'
import type {LimitsWritten, WriteLimitsOptions} from './walk/write-limits.js'

export interface MigrateOptions {
  readonly owner: string
  readonly ourVersion: string
  readonly signal?: AbortSignal | undefined
  readonly onProgress?: ((progress: StepProgress) => void) | undefined
  /** Write units per second. */
  readonly rateLimit?: number | undefined
  readonly until?: StepId | undefined
  /** Ms to repeat passes after the copy. Default: until a pass finds nothing to do. */
  readonly followMs?: number | undefined
  /** Ms that other runs must wait if this one crashes. */
  readonly leaseMs?: number | undefined
  /** Enable a missing stream. Default: true. */
  readonly stream?: boolean | undefined
  /** Write limits from the buckets where no level has any. Default: write none. */
  readonly limitsFromBuckets?: WriteLimitsOptions | undefined
}

export type MigrationResult = DeepReadonly<Awaited<ReturnType<typeof migrateTable>>>

/** Can be interrupted at any time. The next run resumes. */
export async function migrateTable(table: Table, options: MigrateOptions) {
  const {rateLimit, until, ourVersion, followMs} = options
  const slowed = paced(table, 'writes', rateLimit)
  await openLimiterTable(slowed, {ourVersion, signal: options.signal})
  const unfinished = await readMigration(withLongRetries(table), options.signal)
  if (unfinished && unfinished.finishedAt === undefined) indexOfStep(unfinished.step)
  const lease = await takeMigrationLease(table, STEP_IDS[0] as string, options)
  const resumed = lease.record.step !== STEP_IDS[0] || lease.record.position !== undefined
  const {signal} = lease
  const locations = new OldLocations()
  const open = async () => ({...(await openMigrationContext(slowed, signal)), locations})
  const copiedAgain = new Map<OldRecordType, number>()
  const run = {open, lease, copiedAgain, onProgress: options.onProgress}
  const added: string[] = []
  const wholePasses: Pass[] = []
  let report = new MigrationReport()
  let settled = true
  let limitsWritten: LimitsWritten | undefined
  let limitless = NOTHING_LIMITLESS
  try {
    const recorded = indexOfStep(lease.record.step)
    const first = followMs === undefined ? recorded : Math.min(recorded, STEP_IDS.indexOf('catch-up'))
    if (until !== undefined && STEP_IDS.indexOf(until) < first) return await conclude(false)
    for (const [at, step] of STEPS.entries()) {
      if (at < first) continue
      const startsAtBeginning = lease.record.position === undefined
      const isCatchUp = step.id === 'catch-up'
      const outcome: StepOutcome =
        isCatchUp && followMs === undefined && areUpToDate(wholePasses)
          ? {added: [], lastPass: joinPasses(wholePasses)}
          : await runStep(step, run, options)
      added.push(...outcome.added)
      limitsWritten ??= outcome.limitsWritten
      if (outcome.lastPass) {
        report = outcome.lastPass.report
        limitless = outcome.lastPass.limitless
        settled = !isCatchUp || outcome.lastPass.isUpToDate
        if (startsAtBeginning) wholePasses.push(outcome.lastPass)
      }
      const next = STEP_IDS[at + 1]
      if (next === undefined) break
      await lease.save({step: next, position: undefined, pass: 1, passWrites: 0})
      if (step.id === until) return await conclude(false)
    }
    return await conclude(true)
  } catch (error) {
    throw await lease.abandonAfter(error, cause => ({
      failure: cause instanceof ZaelError ? cause.message : String(cause),
    }))
  }

  async function conclude(finished: boolean) {
    await lease.release(finished ? {finishedAt: isoSeconds(table.clock())} : {})
    const {runId, counts, step} = lease.record
    const reached = STEP_IDS.indexOf(step as StepId)
    return {
      runId,
      resumed,
      finished,
      /** Counts of all runs that worked on the step. */
      steps: STEPS.map(({id, title}, at) => ({
        id,
        title,
        state: finished || at < reached ? ('done' as const) : ('pending' as const),
        ...(counts[id] ?? NO_COUNTS),
      })),
      added,
      conflicts: report.differences,
      unknown: report.unknownRecords,
      decisions: report.decisions,
      /** Records without a copy after an earlier run had finished: old clients created them, or the copy was deleted. */
      copiedAgain: Object.fromEntries(copiedAgain) as Partial<Record<OldRecordType, number>>,
      settled,
      /** `undefined`: not requested, or done before. */
      limitsWritten,
      limitless,
    }
  }
}

/** After a clean-up, a run starts over. Throws for an unknown step. */
function indexOfStep(step: string): number {
  const index = STEP_IDS.indexOf(step as StepId)
  if (index >= 0) return index
  if (step === CLEANUP_STEP) return 0
  const message = `The migration stopped in step "${step}", which this version of zael does not know.`
  throw new ZaelError('conflict', 'migrate.step', message, {
    hint: 'Continue with the zael version that started the migration, or a newer one.',
    details: {step},
  })
}

const COPYING_STEPS = STEPS.filter(({id, moves}) => moves.length > 0 && id !== 'catch-up').length

/** This run read all old records from the beginning, and every copy was up to date. */
const areUpToDate = (passes: readonly Pass[]): boolean =>
  passes.length === COPYING_STEPS && passes.every(({isUpToDate}) => isUpToDate)

/** The last pass has seen all items of unknown format. */
function joinPasses(passes: readonly Pass[]): Pass {
  const last = passes.at(-1) as Pass
  for (const {report} of passes.slice(0, -1)) last.report.addDifferences(report.differences)
  return last
}
