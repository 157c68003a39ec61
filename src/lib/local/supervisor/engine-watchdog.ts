import {ZaelError} from '../../core/errors.js'
import type {Engine} from '../engines/engine.js'
import type {WriteLog} from '../state-dir/log.js'

/** What keeping an engine alive depends on. */
export interface WatchdogOptions {
  /** Starts the engine again, on its old port. */
  restart: () => Promise<Engine>
  /** Called when the engine is gone, before it is started again. */
  onDown: () => Promise<void>
  /** Called when it runs again; a failure counts like one of the engine. */
  onUp: (engine: Engine) => Promise<void>
  log: WriteLog
  /** Monotonic milliseconds. */
  clock: () => number
  sleep: (ms: number, signal: AbortSignal) => Promise<void>
  signal: AbortSignal
}

// An engine that has run for this long was healthy: what ends it then is a new incident.
const HEALTHY_AFTER_MS = 60_000
const TRIES = 5
const FIRST_PAUSE_MS = 100

/**
 * Watches an engine and starts it again when it dies by itself. Resolves when the signal fires; throws when the engine
 * does not stay up.
 */
export async function watchEngine(first: Engine, options: WatchdogOptions): Promise<void> {
  const {restart, onDown, onUp, log, clock, sleep, signal} = options
  let engine: Engine | undefined = first
  let upSince = clock()
  let tries = 0
  let lastProblem = ''
  const stackEnds = aborted(signal)
  while (!signal.aborted) {
    if (engine) {
      const exit = await Promise.race([engine.exited, stackEnds])
      if (!exit || signal.aborted) return
      lastProblem = `the engine ended with ${exit.signal ?? `code ${exit.code}`}`
      log('error', lastProblem, {engine: engine.name, pid: engine.pid, said: engine.stderrTail()})
      if (clock() - upSince >= HEALTHY_AFTER_MS) tries = 0
      engine = undefined
      await onDown()
    }
    if (tries === TRIES) throw givenUp(lastProblem)
    await sleep(FIRST_PAUSE_MS * 2 ** tries, signal)
    if (signal.aborted) return
    tries++
    try {
      const again = await restart()
      upSince = clock()
      engine = again
      await onUp(again)
      log('info', 'the engine runs again', {engine: again.name, pid: again.pid, endpoint: again.endpoint, try: tries})
    } catch (error) {
      if (signal.aborted) return
      lastProblem = error instanceof Error ? error.message : String(error)
      log('error', 'the engine could not be started again', {reason: lastProblem, try: tries})
      await engine?.stop()
      engine = undefined
    }
  }
}

function givenUp(reason: string): ZaelError {
  return new ZaelError(
    'failed',
    'local.engine-lost',
    `the engine did not stay up after ${TRIES} new starts: ${reason}`,
    {
      hint: 'zael local logs',
    },
  )
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), {once: true})
  })
}
