import {ZaelError} from '../../core/errors.js'
import {formatCount} from '../../core/text/text.js'
import type {Preview} from '../../insight/preview/preview.js'
import type {ApplyResult} from '../../manifest/apply.js'
import type {Manifest} from '../../manifest/manifest.js'
import type {Plan} from '../../manifest/plan.js'
import type {SyncOptions} from '../../repository/limits/bucket-sync.js'
import type {LimitsChange, NamespaceRepository} from '../../repository/repository.js'
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
        `Interrupted. The limits are changed and ${formatCount(done)} live buckets updated. The next request updates each of the others.`,
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
  const [{planManifest}, {previewChanges}] = await Promise.all([
    import('../../manifest/plan.js'),
    import('../../insight/preview/preview.js'),
  ])
  return withProgress(
    async (line, signal) => {
      const onProgress = ({done, total}: {done: number; total: number}) => line.bar('Comparing', done, total)
      const plan = await planManifest(namespace, manifest, {onProgress, signal})
      const meant = plan.changes.flatMap(change => {
        return change.kind === 'limits' ? [{...change, named: change.after.map(({name}) => name)}] : []
      })
      const preview = await previewChanges(namespace, meant, nowMs, signal)
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

/** The first signal lets requests in flight finish; a second one ends the process. */
export async function applyWithProgress(namespace: NamespaceRepository, plan: Plan): Promise<AppliedPlan> {
  const {applyPlan} = await import('../../manifest/apply.js')
  const line = new ProgressLine(process.stderr)
  const end = listenForEnd()
  try {
    const onProgress = ({done, failed}: {done: number; failed: number}) =>
      line.bar('Applying', done + failed, plan.changes.length)
    const result = await applyPlan(namespace, plan, {onProgress, signal: end.signal})
    const exitCode = {complete: EXIT.ok, failed: EXIT.failed, interrupted: EXIT.interrupted}[result.outcome]
    return {result, exitCode: result.outcome === 'interrupted' && end.signal.aborted ? await end.reached : exitCode}
  } finally {
    end.stop()
    line.clear()
  }
}
