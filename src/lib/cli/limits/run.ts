import {hostname} from 'node:os'
import {ZaelError} from '../../core/errors.js'
import {parseDuration} from '../../core/text/duration.js'
import {formatCount} from '../../core/text/text.js'
import type {Preview} from '../../insight/preview/preview.js'
import type {ApplyOptions, ApplyResult} from '../../manifest/apply.js'
import type {Manifest} from '../../manifest/manifest.js'
import type {Plan} from '../../manifest/plan.js'
import type {SyncOptions} from '../../repository/limits/bucket-sync.js'
import type {LimitsChange, NamespaceRepository} from '../../repository/repository.js'
import type {LockRecord} from '../../schema/lock-record.js'
import {confirm} from '../output/confirm.js'
import {EXIT} from '../output/exit.js'
import {interruptible, listenForEnd, nothingChanged} from '../output/interrupt.js'
import {ProgressLine, type ProgressStream, withProgress} from '../output/progress.js'
import {applyQuestion} from './manifest-presenter.js'

/** Writes the limits first and regardless of Ctrl-C: an interrupted change is still made. */
export async function changeWithProgress(
  change: (options: SyncOptions) => Promise<LimitsChange>,
  stream?: ProgressStream,
): Promise<LimitsChange> {
  let done = 0
  return withProgress(
    (line, signal) => {
      const onProgress: SyncOptions['onProgress'] = ({checked, failed}) => {
        done = checked - failed
        line.count('Live buckets updated', done)
      }
      return change({onProgress, signal})
    },
    () =>
      new ZaelError(
        'interrupted',
        'limits.interrupted',
        `Interrupted. The change is stored, and ${formatCount(done)} live buckets are updated. Requests update the others within 60 seconds.`,
      ),
    stream,
  )
}

export interface PreviewedPlan {
  readonly plan: Plan
  readonly preview: Preview
}

export async function planWithPreview(
  namespace: NamespaceRepository,
  manifest: Manifest,
  nowMs: number,
): Promise<PreviewedPlan> {
  const [{planManifest}, {previewChanges}, {moveTexts}] = await Promise.all([
    import('../../manifest/plan.js'),
    import('../../insight/preview/preview.js'),
    import('../../insight/preview/move.js'),
  ])
  return withProgress(
    async (line, signal) => {
      const onProgress = ({done, total}: {done: number; total: number}) => line.bar('Comparing', done, total)
      const plan = await planManifest(namespace, manifest, {onProgress, signal})
      const meant = plan.changes.flatMap(change => {
        return change.kind === 'limits' ? [{...change, named: change.after.map(({name}) => name)}] : []
      })
      const changed = plan.changes.flatMap(change => {
        return change.kind === 'entity' && change.action === 'update' ? [{entity: change.entity, ...change.after}] : []
      })
      const moves = await moveTexts(namespace, changed, nowMs)
      const preview = {...(await previewChanges(namespace, meant, nowMs, signal)), moves}
      if (signal.aborted) throw nothingChanged(INTERRUPTED)
      return {plan, preview}
    },
    () => nothingChanged(INTERRUPTED),
  )
}

const INTERRUPTED = 'manifest.interrupted'

export async function confirmPlan({plan, preview}: PreviewedPlan, yes: boolean): Promise<void> {
  const question = applyQuestion(plan, preview)
  if (question === undefined) return
  await interruptible(
    signal => confirm(question, {yes, signal}),
    () => nothingChanged(INTERRUPTED),
  )
}

export interface AppliedPlan {
  readonly result: ApplyResult
  readonly exitCode: number
}

/** Runs the work while no other run can apply a manifest. Signals release the lock; `kill -9` lets it expire. */
export async function withApplyLock<T>(
  namespace: NamespaceRepository,
  wait: string | undefined,
  work: (lock: {hold(): Promise<void>}) => Promise<T>,
): Promise<T> {
  const waitMs = wait === undefined ? 0 : parseDuration(wait)
  return withProgress(
    async (line, signal) => {
      const onWait = ({owner, since}: LockRecord) => line.draw(() => `Waiting for ${owner}, since ${since}`)
      const lock = await namespace.applyLock.take({owner: await holderOf(namespace), waitMs, onWait, signal})
      line.clear()
      try {
        return await work(lock)
      } finally {
        await lock.abandon()
      }
    },
    () => nothingChanged(INTERRUPTED),
  )
}

async function holderOf({audit}: NamespaceRepository): Promise<string> {
  const [author = 'unknown', host] = [await audit.author(), hostname()]
  return `${author} (process ${process.pid}${author.endsWith(`@${host}`) ? '' : ` on ${host}`})`
}

/** The first signal lets requests in flight finish; a second one ends the process. */
export async function applyWithProgress(
  namespace: NamespaceRepository,
  plan: Plan,
  lock: ApplyOptions['lock'],
): Promise<AppliedPlan> {
  const {applyPlan} = await import('../../manifest/apply.js')
  const line = new ProgressLine(process.stderr)
  const end = listenForEnd()
  try {
    const onProgress = ({done, failed}: {done: number; failed: number}) =>
      line.bar('Applying', done + failed, plan.changes.length)
    const onVerify = ({done, total}: {done: number; total: number}) => line.bar('Comparing', done, total)
    const result = await applyPlan(namespace, plan, {onProgress, onVerify, signal: end.signal, lock})
    const exitCode = {complete: EXIT.ok, failed: failureCode(result), interrupted: EXIT.interrupted}[result.outcome]
    return {result, exitCode: result.outcome === 'interrupted' && end.signal.aborted ? await end.reached : exitCode}
  } finally {
    end.stop()
    line.clear()
  }
}

function failureCode({failures, mismatches, stopped, recordFailure}: ApplyResult): number {
  const errors = [stopped, recordFailure, ...failures.map(({error}) => error)]
  return mismatches.length > 0 || errors.some(error => error?.kind === 'conflict') ? EXIT.conflict : EXIT.failed
}
