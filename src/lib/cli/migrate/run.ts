import {hostname} from 'node:os'
import {ZaelError} from '../../core/errors.js'
import type {CleanUpResult} from '../../migrations/cleanup.js'
import type {MigrationResult} from '../../migrations/run.js'
import type {Verification, VerifyOptions} from '../../migrations/verify.js'
import type {StepProgress} from '../../migrations/walk/pass.js'
import type {StepId} from '../../migrations/walk/steps.js'
import type {Table} from '../../repository/table/table.js'
import {formatCount} from '../output/facts.js'
import {interruptible} from '../output/interrupt.js'
import {migrationBar} from '../output/migrate-progress.js'
import {progressCount} from '../output/progress.js'

/** How a migration is run from the command line. */
export interface RunRequest {
  readonly ourVersion: string
  readonly rateLimit: number | undefined
  readonly until: StepId | undefined
  readonly followMs: number | undefined
}

/** Whom others find at work. */
const owner = (): string => `${process.env.USER ?? 'somebody'}@${hostname()} (process ${process.pid})`

/** Migrates, shows how far it is, and can be stopped with Ctrl-C at any instant. */
export async function migrateWithProgress(table: Table, stack: string, request: RunRequest): Promise<MigrationResult> {
  const {migrateTable} = await import('../../migrations/run.js')
  const bar = migrationBar()
  let step = 'indexes'
  const onProgress = (progress: StepProgress) => {
    step = progress.step
    bar.update(progress)
  }
  try {
    return await interruptible(
      signal => migrateTable(table, {...request, owner: owner(), signal, onProgress}),
      () =>
        new ZaelError('interrupted', 'migrate.interrupted', `Interrupted in step "${step}". What is done stays done.`, {
          hint: `Run it again to go on: zael migrate run -s ${stack}`,
          details: {step},
        }),
    )
  } finally {
    bar.end()
  }
}

/** Compares old and new, counts on the terminal, and can be stopped with Ctrl-C. */
export async function verifyWithProgress(
  table: Table,
  options: {readonly ourVersion: string; readonly all?: boolean | undefined},
): Promise<Verification> {
  const {verifyMigration} = await import('../../migrations/verify.js')
  return counting(options, request => verifyMigration(table, request))
}

/** Tells what a clean-up would delete; throws when something stands in its way. */
export async function compareWithProgress(table: Table, ourVersion: string): Promise<Verification> {
  const {compareForCleanUp} = await import('../../migrations/cleanup.js')
  return counting({ourVersion}, request => compareForCleanUp(table, request))
}

async function counting(
  options: VerifyOptions,
  compare: (request: VerifyOptions) => Promise<Verification>,
): Promise<Verification> {
  const count = progressCount('Items compared')
  try {
    return await interruptible(
      signal => compare({...options, signal, onProgress: count.update}),
      () => new ZaelError('interrupted', 'migrate.interrupted', 'Interrupted; nothing was written.'),
    )
  } finally {
    count.end()
  }
}

/** Deletes old items once they are compared and somebody agrees; can be stopped with Ctrl-C. */
export async function cleanUpWithProgress(
  table: Table,
  stack: string,
  request: {
    readonly ourVersion: string
    readonly rateLimit: number | undefined
    readonly confirm: (verification: Verification) => Promise<void>
  },
): Promise<CleanUpResult> {
  const {cleanUp} = await import('../../migrations/cleanup.js')
  let bar = progressCount('Items compared')
  let deleted: number | undefined
  const confirm = async (verification: Verification) => {
    bar.end()
    await request.confirm(verification)
    deleted = 0
    bar = progressCount('Old items deleted')
  }
  const onDeleted = (sofar: number) => {
    deleted = sofar
    bar.update(sofar)
  }
  try {
    return await interruptible(
      signal =>
        cleanUp(table, {...request, owner: owner(), signal, confirm, onProgress: done => bar.update(done), onDeleted}),
      () => cleanUpInterrupted(stack, deleted),
    )
  } finally {
    bar.end()
  }
}

/** `deleted` is `undefined` while nobody has agreed to anything; later on, a request may have been under way. */
export function cleanUpInterrupted(stack: string, deleted: number | undefined): ZaelError {
  const said =
    deleted === undefined
      ? 'Interrupted. Nothing was deleted.'
      : `Interrupted: at least ${formatCount(deleted)} old items are deleted, the rest is still there.`
  return new ZaelError('interrupted', 'migrate.interrupted', said, {
    hint: `Run it again to go on: zael migrate cleanup -s ${stack}`,
    details: {deleted: deleted ?? 0},
  })
}
