import {ZaelError} from '../../core/errors.js'
import type {SyncOptions} from '../../repository/limit-sync.js'
import type {LimitsChange} from '../../repository/repository.js'
import {formatCount} from './facts.js'
import {interruptible} from './interrupt.js'
import {type ProgressStream, progressCount} from './progress.js'

/**
 * Changes limits and counts on the terminal the live buckets that followed. The limits are written before the first
 * bucket and without regard to Ctrl-C, so a change that is stopped is still made.
 */
export async function withBucketProgress(
  change: (options: SyncOptions) => Promise<LimitsChange>,
  stream: ProgressStream = process.stderr,
): Promise<LimitsChange> {
  const count = progressCount('Live buckets in line', stream)
  let done = 0
  const onProgress: SyncOptions['onProgress'] = ({checked, failed}) => {
    done = checked - failed
    count.update(done)
  }
  try {
    return await interruptible(
      signal => change({onProgress, signal}),
      () =>
        new ZaelError(
          'interrupted',
          'limits.interrupted',
          `The limits are changed, and ${formatCount(done)} live buckets are in line; the others follow with their next request.`,
        ),
    )
  } finally {
    count.end()
  }
}
