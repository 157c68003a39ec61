import {changedError, ZaelError} from '../../core/errors.js'
import {formatDuration} from '../../core/text/duration.js'
import {EXIT} from './exit.js'

export type MakeInterrupted = () => ZaelError

export interface Interruption {
  readonly signal: AbortSignal
  /** Sets the error of a later interruption. */
  failWith(interrupted: MakeInterrupted): void
}

/** Ctrl-C (exit code 130) and SIGTERM (143) abort with `interrupted()`. A second signal ends the process at once. */
export async function interruptible<T>(
  work: (signal: AbortSignal, interruption: Interruption) => Promise<T>,
  interrupted: MakeInterrupted,
): Promise<T> {
  const end = listenForEnd()
  let make = interrupted
  const interruption: Interruption = {
    signal: end.signal,
    failWith: next => {
      make = next
    },
  }
  try {
    return await work(end.signal, interruption)
  } catch (error) {
    if (!end.signal.aborted || !(error instanceof ZaelError)) throw error
    const kind = (await end.reached) === EXIT.terminated ? 'terminated' : 'interrupted'
    if (error.code === 'dynamo.aborted') throw changedError(make(), {kind})
    throw error.kind === 'interrupted' ? changedError(error, {kind}) : error
  } finally {
    end.stop()
  }
}

export function nothingChanged(code: string, hint?: string): ZaelError {
  return new ZaelError('interrupted', code, 'Interrupted: nothing was changed.', hint === undefined ? {} : {hint})
}

export interface AwaitedEnd {
  /** Resolves to the exit code. */
  readonly reached: Promise<number>
  readonly signal: AbortSignal
  stop(): void
}

/** Ends after `forMs` (`undefined`: never) or on the first signal. A second signal ends the process at once. */
export function listenForEnd(forMs?: number): AwaitedEnd {
  let resolve: (exitCode: number) => void = () => {}
  const reached = new Promise<number>(settle => {
    resolve = settle
  })
  const over = new AbortController()
  const stopListening = () => {
    process.off('SIGINT', onInterrupt)
    process.off('SIGTERM', onTerminate)
  }
  const reach = (exitCode: number) => {
    if (exitCode !== EXIT.ok) stopListening()
    resolve(exitCode)
    over.abort()
  }
  const onInterrupt = () => reach(EXIT.interrupted)
  const onTerminate = () => reach(EXIT.terminated)
  process.on('SIGINT', onInterrupt)
  process.on('SIGTERM', onTerminate)
  const timer = forMs === undefined ? undefined : setTimeout(() => reach(EXIT.ok), forMs)
  return {
    reached,
    signal: over.signal,
    stop: () => {
      stopListening()
      clearTimeout(timer)
    },
  }
}

/** `undefined`: no limit. At the limit the signal aborts and the error is thrown without waiting for the work. */
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
  return new ZaelError('failed', 'time.over', `The command timed out (--for ${time}).`, {
    hint: 'Allow more time, or check the connection: zael doctor',
    details: {forMs: ms},
  })
}
