import {EXIT} from '../../core/errors.js'

export interface AwaitedEnd {
  /** The exit code. */
  readonly reached: Promise<number>
  /** Aborted at that moment. */
  readonly signal: AbortSignal
  stop(): void
}

/** Ends at the time limit (ms; `undefined`: none) or with the first signal; a second signal ends the process at once. */
export function listenForEnd(forMs?: number): AwaitedEnd {
  let resolve: (exitCode: number) => void = () => {}
  const reached = new Promise<number>(settle => {
    resolve = settle
  })
  const over = new AbortController()
  const reach = (exitCode: number) => {
    resolve(exitCode)
    over.abort()
  }
  const onInterrupt = () => reach(EXIT.interrupted)
  const onTerminate = () => reach(EXIT.terminated)
  process.once('SIGINT', onInterrupt)
  process.once('SIGTERM', onTerminate)
  const timer = forMs === undefined ? undefined : setTimeout(() => reach(EXIT.ok), forMs)
  return {
    reached,
    signal: over.signal,
    stop: () => {
      process.off('SIGINT', onInterrupt)
      process.off('SIGTERM', onTerminate)
      clearTimeout(timer)
    },
  }
}
