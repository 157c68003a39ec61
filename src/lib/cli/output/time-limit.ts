import {ZaelError} from '../../core/errors.js'
import {formatDuration} from '../../core/text/duration.js'

/** Does work within a time limit in ms (`undefined`: none). At the limit the signal aborts and the error is thrown at once. */
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
  return new ZaelError('failed', 'time.over', `Timed out before everything was read (--for ${time}).`, {
    hint: 'Allow more time, or find out why the table does not respond: zael doctor',
    details: {forMs: ms},
  })
}
