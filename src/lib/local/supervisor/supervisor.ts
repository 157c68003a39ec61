import {randomUUID} from 'node:crypto'
import {once} from 'node:events'
import {rm} from 'node:fs/promises'
import {ZaelError} from '../../core/errors.js'
import {sleepMs} from '../../dynamo/retry.js'
import {type Engine, findFreePort, isPortTaken, startEngine} from '../engines/engine.js'
import type {EngineName} from '../engines/kind.js'
import {openDataDir} from '../state-dir/data-dir.js'
import type {WriteLog} from '../state-dir/log.js'
import {DamagedFile} from '../state-dir/private-file.js'
import {ownIdentity} from '../state-dir/process-identity.js'
import {
  endState,
  LOCAL_STACK,
  readState,
  type StackState,
  type StateDir,
  stateDirAt,
  writeState,
} from '../state-dir/state.js'
import {serveStatus} from './control.js'

export interface SupervisorOptions {
  readonly stateDir: string
  /** Absent: the first that can run here and read the data. */
  readonly engine?: EngineName | undefined
  /** Absent: the preferred port if it is free, else any. */
  readonly port?: number | undefined
  readonly preferredPort?: number | undefined
  /** `null`: in memory. */
  readonly dataDir: string | null
  readonly aggregator: boolean
  /** Absent: the default for a new table, any for an existing one. */
  readonly resourceIndex?: 'KEYS_ONLY' | 'ALL' | undefined
  readonly version: string
}

interface SupervisorHooks {
  readonly log: WriteLog
  readonly signal: AbortSignal
  onReady(state: StackState): void
  readonly watchIntervalMs?: number
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>
}

const WATCH_INTERVAL_MS = 2_000

/** Runs until the signal aborts, the state directory is deleted or the engine does not stay up; then cleans up. */
export async function runSupervisor(options: SupervisorOptions, hooks: SupervisorHooks): Promise<void> {
  const {log, signal, onReady, watchIntervalMs = WATCH_INTERVAL_MS, sleep = sleepMs} = hooks
  const stateDir = stateDirAt(options.stateDir)
  const cleanups: Array<() => Promise<void>> = []
  let state: StackState | undefined
  let reason: string | null = null
  try {
    const data =
      options.dataDir === null ? undefined : await openDataDir(options.dataDir, options.engine, stateDir.folder)
    if (data) cleanups.push(() => data.lock.release())
    await rm(stateDir.volatileDir, {recursive: true, force: true})
    cleanups.push(() => rm(stateDir.volatileDir, {recursive: true, force: true}))

    const settings = {engine: data?.engine ?? options.engine, dataDir: data?.folder}
    const choosePort = portChooser(options.preferredPort)
    // Loaded while the engine starts.
    const loading = import('./service.js')
    let engine = await startEngine({...settings, port: options.port, signal}, {choosePort})
    cleanups.push(async () => {
      await engine.stop()
      log('info', 'the engine has stopped')
    })
    const {endpoint, port} = engine
    log('info', 'the engine runs', {engine: engine.name, version: engine.version, pid: engine.pid, endpoint})

    const {StackService} = await loading
    const {aggregator, version, resourceIndex} = options
    const folder = data?.folder ?? stateDir.volatileDir
    const service = new StackService({endpoint, folder, aggregator, resourceIndex, version, log})
    cleanups.push(() => service.close())
    await service.start(engine)
    signal.throwIfAborted()

    const startToken = randomUUID()
    const startedAtMs = Date.now()
    let engineRestarts = 0
    const control = await serveStatus(startToken, () => ({
      uptimeMs: Date.now() - startedAtMs,
      enginePid: engine.pid,
      engineRestarts,
      aggregator: service.status(),
    }))
    cleanups.push(() => control.close())
    state = {
      stack: LOCAL_STACK,
      ...(await ownIdentity()),
      startToken,
      controlPort: control.port,
      engine: engine.name,
      engineVersion: engine.version,
      endpoint,
      port,
      dataDir: data?.folder ?? null,
      aggregator,
      resourceIndex,
      startedAt: new Date(startedAtMs).toISOString(),
      version,
    }
    await rm(stateDir.endFile, {force: true})
    await writeState(stateDir, state)
    log('info', 'the stack is ready', {endpoint, dataDir: state.dataDir})
    onReady(state)

    const orphaned = new AbortController()
    const watch = watchState(stateDir, startToken, watchIntervalMs, () => {
      log('warn', 'the state file is missing: no command can find this stack, so it stops')
      orphaned.abort()
    })
    cleanups.push(async () => clearInterval(watch))
    await watchEngine(engine, {
      restart: () => startEngine({...settings, port, signal}),
      onDown: () => service.stop(),
      onUp: async restarted => {
        engine = restarted
        await service.start(restarted)
        engineRestarts++
      },
      log,
      clock: () => performance.now(),
      sleep,
      signal: AbortSignal.any([signal, orphaned.signal]),
    })
  } catch (error) {
    reason = error instanceof Error ? error.message : String(error)
    throw error
  } finally {
    for (const cleanup of cleanups.reverse())
      await cleanup().catch(error => log('error', 'could not clean up', {reason: `${error}`}))
    if (state) await endState(stateDir, state, reason)
    log(reason === null || signal.aborted ? 'info' : 'error', 'the stack has ended', {reason})
  }
}

/** Once its state is deleted or replaced, no command can stop this stack. */
function watchState(stateDir: StateDir, startToken: string, intervalMs: number, onGone: () => void): NodeJS.Timeout {
  return setInterval(async () => {
    const isOurs = await readState(stateDir).then(
      state => state?.startToken === startToken,
      error => !(error instanceof DamagedFile), // another read error may be temporary
    )
    if (!isOurs) onGone()
  }, intervalMs)
}

function portChooser(preferred: number | undefined): () => Promise<number> {
  let untried = preferred
  return async () => {
    const port = untried
    untried = undefined
    return port !== undefined && !(await isPortTaken(port)) ? port : findFreePort()
  }
}

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
  const stackEnds = signal.aborted ? undefined : once(signal, 'abort').then(() => undefined)
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
  const message = `The engine did not stay up after ${MAX_RESTARTS} restarts: ${reason}`
  return new ZaelError('failed', 'local.engine-lost', message, {hint: 'zael local logs'})
}
