import {ZaelError} from '../../core/errors.js'
import {formatCount} from '../../core/text.js'
import type {ChangeReach} from '../../inspect/change-effect.js'
import type {ApplyResult} from '../../manifest/apply.js'
import type {Plan} from '../../manifest/plan.js'
import type {LimitsChange, NamespaceRepository} from '../../repository/repository.js'
import type {SyncOptions} from '../../repository/sync/bucket-sync.js'
import {type ProgressStream, withProgress} from '../output/progress.js'

/**
 * Changes limits and shows how many live buckets were updated. The limits themselves are written first and regardless of
 * Ctrl-C: an interrupted change is still made.
 */
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
        `The limits are changed, and ${formatCount(done)} live buckets are up to date; the others are updated by their next request.`,
      ),
    stream,
  )
}

/** What live buckets lose by a plan; reads only. */
export async function lossOf(namespace: NamespaceRepository, {changes}: Plan, nowMs: number): Promise<ChangeReach> {
  const {lossReach} = await import('../../inspect/change-effect.js')
  return lossReach(
    namespace,
    changes.filter(change => change.kind === 'limits'),
    nowMs,
  )
}

/** Applies a plan. Ctrl-C lets requests in flight finish; the result then counts what was not tried. */
export async function applyWithProgress(namespace: NamespaceRepository, plan: Plan): Promise<ApplyResult> {
  const {applyPlan} = await import('../../manifest/apply.js')
  return withProgress(
    (line, signal) => {
      const onProgress = ({done, failed}: {done: number; failed: number}) =>
        line.bar('Applying', done + failed, plan.changes.length)
      return applyPlan(namespace, plan, {onProgress, signal})
    },
    () => new ZaelError('interrupted', 'manifest.interrupted', 'Interrupted; run the command again to apply the rest.'),
  )
}
