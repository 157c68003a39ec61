import {hostname} from 'node:os'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {parseDuration} from '../../core/text/duration.js'
import {formatCount, formatSpan} from '../../core/text/text.js'
import type {CleanUpResult} from '../../migrate/cleanup.js'
import type {ResolveAllOptions, ResolveAllResult, Side} from '../../migrate/resolve.js'
import type {MigrationResult} from '../../migrate/run.js'
import type {Survey} from '../../migrate/survey.js'
import type {Verification, VerifyOptions} from '../../migrate/verify-migration.js'
import type {StepProgress} from '../../migrate/walk/pass.js'
import type {StepId} from '../../migrate/walk/steps.js'
import type {WriteLimitsOptions} from '../../migrate/walk/write-limits.js'
import type {Table} from '../../repository/table/table.js'
import {barText, withProgress} from '../output/progress.js'

export interface RunRequest {
  readonly ourVersion: string
  readonly rateLimit: number | undefined
  readonly until: StepId | undefined
  readonly followMs: number | undefined
  readonly limitsFromBuckets: WriteLimitsOptions | undefined
}

/** Other runs show it when they find the table locked. */
const owner = (): string => `${process.env.USER ?? 'unknown'}@${hostname()} (process ${process.pid})`

/** In ms. Throws for a run that stops before the step "catch-up". */
export function followMsOf(follow: string | undefined, until: StepId | undefined): number | undefined {
  if (follow === undefined) return undefined
  if (until !== undefined && until !== 'catch-up' && until !== 'version') {
    throw new InvalidInput('migrate.follow', `--follow needs the step "catch-up", but --until stops at "${until}".`, {
      hint: 'Omit --until, or use --until catch-up.',
    })
  }
  return parseDuration(follow)
}

export async function surveyWithProgress(table: Table, ourVersion: string): Promise<Survey> {
  const {surveyTable} = await import('../../migrate/survey.js')
  return withProgress(
    (line, signal) => surveyTable(table, {ourVersion, signal, onProgress: items => line.count('Items read', items)}),
    () => interrupted('Interrupted. Nothing was written.'),
  )
}

export async function migrateWithProgress(table: Table, stack: string, request: RunRequest): Promise<MigrationResult> {
  const {migrateTable} = await import('../../migrate/run.js')
  let current = {name: '', step: 'indexes', sinceMs: 0}
  return withProgress(
    (line, signal) => {
      const onProgress = (progress: StepProgress) => {
        const name = `${progress.step} ${progress.pass}`
        if (name !== current.name) current = {name, step: progress.step, sinceMs: Date.now()}
        line.draw(columns => stepText(progress, Date.now() - current.sinceMs, columns))
      }
      return migrateTable(table, {...request, owner: owner(), signal, onProgress})
    },
    () => {
      const {step} = current
      return interrupted(`Interrupted in step "${step}". Completed work is kept.`, {
        hint: `Resume: zael migrate run -s ${stack}`,
        details: {step},
      })
    },
  )
}

export function stepText(progress: StepProgress, elapsedMs: number, columns: number): string {
  const {step, scanned, total, pass, waitingFor} = progress
  if (waitingFor !== undefined) return `${step}: building ${waitingFor}`.slice(0, columns - 1)
  const title = pass > 1 ? `${step}, pass ${pass}` : step
  const perSecond = elapsedMs > 0 ? Math.round((scanned * 1000) / elapsedMs) : 0
  const speed = perSecond > 0 ? `${formatCount(perSecond)}/s` : ''
  if (total === undefined) return `${title}  ${formatCount(scanned)} items  ${speed}`.trimEnd().slice(0, columns - 1)
  const leftMs = perSecond > 0 ? (Math.max(0, total - scanned) * 1000) / perSecond : 0
  const left = leftMs >= 1000 ? `  ${formatSpan(Math.round(leftMs / 1000) * 1000)} left` : ''
  const tail = speed === '' ? '' : `  ${speed}${left}`
  return barText(title, scanned, total, columns - tail.length) + tail
}

/** `mustBeClean`: throws if a clean-up would delete nothing. */
export async function verifyWithProgress(
  table: Table,
  {mustBeClean = false, ...options}: VerifyOptions & {readonly mustBeClean?: boolean},
): Promise<Verification> {
  const [{verifyMigration}, {compareForCleanUp}] = await Promise.all([
    import('../../migrate/verify-migration.js'),
    import('../../migrate/cleanup.js'),
  ])
  const compare = mustBeClean ? compareForCleanUp : verifyMigration
  return withProgress(
    (line, signal) => compare(table, {...options, signal, onProgress: done => line.count('Items compared', done)}),
    () => interrupted('Interrupted. Nothing was written.'),
  )
}

export async function cleanUpWithProgress(
  table: Table,
  stack: string,
  request: {
    readonly ourVersion: string
    readonly rateLimit: number | undefined
    readonly confirm: (verification: Verification) => Promise<void>
  },
): Promise<CleanUpResult> {
  const {cleanUp} = await import('../../migrate/cleanup.js')
  let deleted: number | undefined
  return withProgress(
    (line, signal) =>
      cleanUp(table, {
        ...request,
        owner: owner(),
        signal,
        confirm: async verification => {
          line.clear()
          await request.confirm(verification)
          deleted = 0
        },
        onProgress: done => line.count('Items compared', done),
        onDeleted: sofar => {
          deleted = sofar
          line.count('Old items deleted', sofar)
        },
      }),
    () => cleanUpInterrupted(stack, deleted),
  )
}

/** `deleted`: `undefined` before confirmation, then a lower bound: requests may be in flight. */
function cleanUpInterrupted(stack: string, deleted: number | undefined): ZaelError {
  const message =
    deleted === undefined
      ? 'Interrupted. Nothing was deleted.'
      : `Interrupted: at least ${formatCount(deleted)} old items were deleted.`
  return interrupted(message, {
    hint: `Resume: zael migrate cleanup -s ${stack}`,
    details: {deleted: deleted ?? 0},
  })
}

export async function resolveAllWithProgress(
  table: Table,
  keep: Side,
  request: Pick<ResolveAllOptions, 'ourVersion' | 'confirm'>,
): Promise<ResolveAllResult> {
  const {resolveAll} = await import('../../migrate/resolve.js')
  let resolved: number | undefined
  return withProgress(
    (line, signal) => {
      const confirm: ResolveAllOptions['confirm'] = async conflicts => {
        line.clear()
        await request.confirm(conflicts)
        resolved = 0
      }
      const onProgress = (conflicts: number) => {
        line.count(resolved === undefined ? 'Conflicts found' : 'Conflicts resolved', conflicts)
        if (resolved !== undefined) resolved = conflicts
      }
      return resolveAll(table, keep, {...request, signal, confirm, onProgress})
    },
    () => {
      const message =
        resolved === undefined
          ? 'Interrupted. Nothing was resolved.'
          : `Interrupted: at least ${formatCount(resolved)} conflicts were resolved.`
      return interrupted(message, {
        hint: 'List the remaining conflicts: zael migrate verify --all',
        details: {settled: resolved ?? 0},
      })
    },
  )
}

function interrupted(message: string, options?: ConstructorParameters<typeof ZaelError>[3]): ZaelError {
  return new ZaelError('interrupted', 'migrate.interrupted', message, options)
}
