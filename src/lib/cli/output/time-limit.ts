import {formatDuration} from '../../core/duration.js'
import {ZaelError} from '../../core/errors.js'

/**
 * Does work that has so much time (`undefined`: any). When it is over the signal aborts, and what the work waits for then
 * keeps nobody waiting.
 */
export async function withinTime<T>(ms: number | undefined, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const end = new AbortController()
  if (ms === undefined) return work(end.signal)
  let timer: NodeJS.Timeout | undefined
  const over = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(tooLate(ms))
      end.abort()
    }, ms)
  })
  try {
    return await Promise.race([work(end.signal), over])
  } finally {
    clearTimeout(timer)
  }
}

function tooLate(ms: number): ZaelError {
  const time = formatDuration(ms)
  return new ZaelError('failed', 'time.over', `The time was over before everything was read: --for ${time}.`, {
    hint: 'Give it more time; `zael doctor` says what keeps the table from answering.',
    details: {forMs: ms},
  })
}
