import {ZaelError} from '../../core/errors.js'
import type {ApplyResult} from '../../manifest/apply.js'
import type {Plan} from '../../manifest/plan.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {interruptible} from '../output/interrupt.js'
import {progressBar} from '../output/progress.js'

/** Carries a plan out with a bar on the terminal. Ctrl-C lets what is under way finish; the result tells what is left. */
export async function applyWithProgress(namespace: NamespaceRepository, plan: Plan): Promise<ApplyResult> {
  const {applyPlan} = await import('../../manifest/apply.js')
  const bar = progressBar('Applying', plan.changes.length)
  const onProgress = ({done, failed}: {done: number; failed: number}) => bar.update(done + failed)
  try {
    return await interruptible(
      signal => applyPlan(namespace, plan, {onProgress, signal}),
      () => new ZaelError('interrupted', 'manifest.interrupted', 'stopped on the way; run it again to do the rest'),
    )
  } finally {
    bar.end()
  }
}
