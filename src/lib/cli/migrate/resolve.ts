import {ZaelError} from '../../core/errors.js'
import type {Side} from '../../migrations/resolve.js'
import type {ResolveAllOptions, ResolveAllResult} from '../../migrations/resolve-all.js'
import type {Table} from '../../repository/table/table.js'
import {formatCount} from '../output/facts.js'
import {interruptible} from '../output/interrupt.js'
import {progressCount} from '../output/progress.js'

/** Settles all conflicts the same way once somebody agrees; can be stopped with Ctrl-C. */
export async function resolveAllWithProgress(
  table: Table,
  keep: Side,
  request: Pick<ResolveAllOptions, 'ourVersion' | 'confirm'>,
): Promise<ResolveAllResult> {
  const {resolveAll} = await import('../../migrations/resolve-all.js')
  let bar = progressCount('Conflicts found')
  let settled: number | undefined
  const confirm: ResolveAllOptions['confirm'] = async conflicts => {
    bar.end()
    await request.confirm(conflicts)
    settled = 0
    bar = progressCount('Conflicts settled')
  }
  const onProgress = (conflicts: number) => {
    if (settled !== undefined) settled = conflicts
    bar.update(conflicts)
  }
  try {
    return await interruptible(
      signal => resolveAll(table, keep, {...request, signal, confirm, onProgress}),
      () => {
        const said =
          settled === undefined
            ? 'Interrupted. Nothing was settled.'
            : `Interrupted: at least ${formatCount(settled)} conflicts are settled.`
        return new ZaelError('interrupted', 'migrate.interrupted', said, {
          hint: '`zael migrate verify --all` lists those that are left.',
          details: {settled: settled ?? 0},
        })
      },
    )
  } finally {
    bar.end()
  }
}
