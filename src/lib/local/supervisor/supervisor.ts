import {randomUUID} from 'node:crypto'
import {rm} from 'node:fs/promises'
import {sleepMs} from '../../dynamo/retry.js'
import {type Engine, type EngineOptions, type EngineSeams, startEngine} from '../engines/engine.js'
import {findFreePort, isPortTaken} from '../engines/free-port.js'
import type {EngineName} from '../engines/kind.js'
import {openDataDir} from '../state-dir/data-dir.js'
import type {WriteLog} from '../state-dir/log.js'
import {type StateDir, stateDirAt} from '../state-dir/paths.js'
import {ownIdentity} from '../state-dir/process-identity.js'
import {endState, LOCAL_STACK, readState, type StackState, writeState} from '../state-dir/state.js'
import {serveStatus} from './control.js'
import {watchEngine} from './engine-watchdog.js'

/** What a supervisor is told by whoever starts it; goes through JSON. */
export interface SupervisorOptions {
  /** Folder of the stack's home. */
  readonly home: string
  /** Absent: the first that can run here and can read the data. */
  readonly engine?: EngineName
  /** Absent: the preferred one if it is free, else any. */
  readonly port?: number
  readonly preferredPort?: number
  /** `null`: everything stays in memory. */
  readonly dataDir: string | null
  readonly aggregator: boolean
  /** Version of zael. */
  readonly version: string
}

/** What a supervisor is given by its process. */
export interface SupervisorHooks {
  readonly log: WriteLog
  /** Fires when the stack shall end. */
  readonly signal: AbortSignal
  /** Called once the stack can be used. */
  ready(state: StackState): void
}

const WATCH_INTERVAL_MS = 2_000

/** Runs a stack until the signal fires, its home is deleted or its engine is lost for good; leaves nothing running behind. */
export async function runSupervisor(options: SupervisorOptions, surroundings: SupervisorHooks): Promise<void> {
  const {log, signal} = surroundings
  const home = stateDirAt(options.home)
  const undo: Array<() => Promise<void>> = []
  let state: StackState | undefined
  let reason: string | null = null
  try {
    const data = options.dataDir === null ? undefined : await openDataDir(options.dataDir, options.engine)
    if (data) undo.push(() => data.lock.release())
    await rm(home.volatileDir, {recursive: true, force: true})
    undo.push(() => rm(home.volatileDir, {recursive: true, force: true}))

    const settings = {engine: data?.engine ?? options.engine, dataDir: data?.folder}
    const choosePort = portChooser(options.preferredPort)
    // The rest of the house is loaded while the engine starts.
    const loading = import('./service.js')
    let engine = await startUnless(signal, {...settings, port: options.port}, {choosePort})
    undo.push(async () => {
      await engine.stop()
      log('info', 'the engine has stopped')
    })
    const {endpoint, port} = engine
    log('info', 'the engine runs', {engine: engine.name, version: engine.version, pid: engine.pid, endpoint})

    const {StackService} = await loading
    const {aggregator, version} = options
    const service = new StackService({endpoint, folder: data?.folder ?? home.volatileDir, aggregator, version, log})
    undo.push(() => service.close())
    await service.start(engine)
    signal.throwIfAborted()

    const startToken = randomUUID()
    const startedAtMs = Date.now()
    let engineRestarts = 0
    const control = await serveStatus(() => ({
      startToken,
      uptimeMs: Date.now() - startedAtMs,
      enginePid: engine.pid,
      engineRestarts,
      aggregator: service.status(),
    }))
    undo.push(() => control.close())
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
      startedAt: new Date(startedAtMs).toISOString(),
      version,
    }
    await rm(home.endFile, {force: true})
    await writeState(home, state)
    log('info', 'the stack is ready', {endpoint, dataDir: state.dataDir})
    surroundings.ready(state)

    const forgotten = new AbortController()
    const watch = watchState(home, startToken, () => {
      log('warn', 'the state file is gone, so nobody can find this stack any more')
      forgotten.abort()
    })
    undo.push(async () => clearInterval(watch))
    await watchEngine(engine, {
      restart: () => startUnless(signal, {...settings, port}),
      onDown: () => service.stop(),
      onUp: async again => {
        engine = again
        await service.start(again)
        engineRestarts++
      },
      log,
      clock: () => performance.now(),
      sleep: sleepMs,
      signal: AbortSignal.any([signal, forgotten.signal]),
    })
  } catch (error) {
    reason = error instanceof Error ? error.message : String(error)
    throw error
  } finally {
    for (const step of undo.reverse())
      await step().catch(error => log('error', 'could not clean up', {reason: `${error}`}))
    if (state) await endState(home, state, reason)
    log(reason === null || signal.aborted ? 'info' : 'error', 'the stack has ended', {reason})
  }
}

/** Tells when a home was deleted, or has passed to another stack: nobody would ever stop this one. */
function watchState(home: StateDir, startToken: string, onGone: () => void): NodeJS.Timeout {
  return setInterval(async () => {
    const isOurs = await readState(home).then(
      state => state?.startToken === startToken,
      () => true, // unreadable for a moment is not gone
    )
    if (!isOurs) onGone()
  }, WATCH_INTERVAL_MS)
}

/** The signal gives up the start only: once the engine runs, it is stopped after those who use it. */
async function startUnless(signal: AbortSignal, options: EngineOptions, seams?: Partial<EngineSeams>): Promise<Engine> {
  const start = new AbortController()
  const giveUp = () => start.abort(signal.reason)
  signal.throwIfAborted()
  signal.addEventListener('abort', giveUp)
  try {
    return await startEngine({...options, signal: start.signal}, seams)
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}

function portChooser(preferred: number | undefined): () => Promise<number> {
  let first = preferred
  return async () => {
    const wanted = first
    first = undefined
    return wanted !== undefined && !(await isPortTaken(wanted)) ? wanted : findFreePort()
  }
}
