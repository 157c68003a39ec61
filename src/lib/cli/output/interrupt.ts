import {ZaelError} from '../../core/errors.js'

export type MakeInterrupted = () => ZaelError

/** Ctrl-C and SIGTERM during a command. */
export interface Interruption {
  /** Aborted by the first of them. */
  readonly signal: AbortSignal
  /** What is told of an interruption from now on. */
  tell(interrupted: MakeInterrupted): void
}

/**
 * Does long work that Ctrl-C (exit code 130) and SIGTERM (143) stop; `interrupted` makes the error. A second signal ends
 * the process at once.
 */
export async function interruptible<T>(
  work: (signal: AbortSignal, interruption: Interruption) => Promise<T>,
  interrupted: MakeInterrupted,
): Promise<T> {
  const stop = new AbortController()
  let kind: 'interrupted' | 'terminated' = 'interrupted'
  let make = interrupted
  const onInterrupt = () => end('interrupted')
  const onTerminate = () => end('terminated')
  const stopListening = () => {
    process.off('SIGINT', onInterrupt)
    process.off('SIGTERM', onTerminate)
  }
  const end = (by: typeof kind) => {
    kind = by
    stopListening()
    stop.abort()
  }
  process.on('SIGINT', onInterrupt)
  process.on('SIGTERM', onTerminate)
  const interruption: Interruption = {
    signal: stop.signal,
    tell: next => {
      make = next
    },
  }
  try {
    return await work(stop.signal, interruption)
  } catch (error) {
    if (!stop.signal.aborted || !(error instanceof ZaelError)) throw error
    if (error.code === 'dynamo.aborted') throw ofKind(kind, make())
    throw error.kind === 'interrupted' ? ofKind(kind, error) : error
  } finally {
    stopListening()
  }
}

function ofKind(kind: 'interrupted' | 'terminated', error: ZaelError): ZaelError {
  const {code, message, hint, details, cause} = error
  return new ZaelError(kind, code, message, {...(hint === undefined ? {} : {hint}), details, cause})
}

/** The error of a command that has changed nothing yet; `hint`: what is worth knowing all the same. */
export function nothingChanged(code: string, hint?: string): ZaelError {
  return new ZaelError('interrupted', code, 'Interrupted: nothing was changed.', hint === undefined ? {} : {hint})
}
