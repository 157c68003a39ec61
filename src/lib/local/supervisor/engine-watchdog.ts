import {ZaelError} from '../../core/errors.js'
import type {Engine} from '../engines/engine.js'
import type {WriteLog} from '../state-dir/log.js'

interface WatchdogOptions {
  /** Uses the same port. */
  restart: () => Promise<Engine>
  onDown: () => Promise<void>
  /** A failure here counts as a failure of the engine. */
  onUp: (engine: Engine) => Promise<void>
  log: WriteLog
  /** Monotonic milliseconds. */
  clock: () => number
  sleep: (ms: number, signal: AbortSignal) => Promise<void>
  signal: AbortSignal
}

// After a crash later than this, restarts are counted from zero.
const HEALTHY_AFTER_MS = 60_000
const MAX_RESTARTS = 5
const FIRST_BACKOFF_MS = 100

/** Restarts with exponential backoff. Resolves when the signal aborts; throws when the engine does not stay up. */
export async function watchEngine(first: Engine, options: WatchdogOptions): Promise<void> {
  const {restart, onDown, onUp, log, clock, sleep, signal} = options
  let engine: Engine | undefined = first
  let upSince = clock()
  let restarts = 0
  let lastProblem = ''
  const stackEnds = whenAborted(signal)
  while (!signal.aborted) {
    if (engine) {
      const exit = await Promise.race([engine.exited, stackEnds])
      if (!exit || signal.aborted) return
      lastProblem = `the engine ended with ${exit.signal ?? `code ${exit.code}`}`
      log('error', lastProblem, {engine: engine.name, pid: engine.pid, said: engine.stderrTail()})
      if (clock() - upSince >= HEALTHY_AFTER_MS) restarts = 0
      engine = undefined
      await onDown()
    }
    if (restarts === MAX_RESTARTS) throw engineLost(lastProblem)
    await sleep(FIRST_BACKOFF_MS * 2 ** restarts, signal)
    if (signal.aborted) return
    restarts++
    try {
      const restarted = await restart()
      upSince = clock()
      engine = restarted
      await onUp(restarted)
      const {name, pid, endpoint} = restarted
      log('info', 'the engine runs again', {engine: name, pid, endpoint, try: restarts})
    } catch (error) {
      if (signal.aborted) return
      lastProblem = error instanceof Error ? error.message : String(error)
      log('error', 'the engine could not be restarted', {reason: lastProblem, try: restarts})
      await engine?.stop()
      engine = undefined
    }
  }
}

function engineLost(reason: string): ZaelError {
  const message = `the engine did not stay up after ${MAX_RESTARTS} restarts: ${reason}`
  return new ZaelError('failed', 'local.engine-lost', message, {hint: 'zael local logs'})
}

function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), {once: true})
  })
}
