import {setTimeout as sleep} from 'node:timers/promises'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {pickEngine} from './find.js'
import {prepareDataDir} from './folder.js'
import {findFreePort, isPortTaken} from './free-port.js'
import type {EngineKind, EngineName} from './kind.js'
import {type OwnedProcess, type ProcessExit, spawnOwned} from './owned-process.js'
import {answersListTables} from './probe.js'

export interface EngineOptions {
  /** Absent: the first that can run here. */
  engine?: EngineName | undefined
  /** Absent: any free port. */
  port?: number | undefined
  /** Folder for the data, created when missing. Absent: everything stays in memory. */
  dataDir?: string | undefined
  /** Gives up the start, or stops the running engine. */
  signal?: AbortSignal | undefined
}

/** A running engine; it keeps this process alive until it ends, and never outlives it. */
export interface Engine {
  readonly name: EngineName
  readonly version: string
  /** `http://127.0.0.1:PORT` */
  readonly endpoint: string
  readonly port: number
  readonly pid: number
  readonly dataDir: string | undefined
  /** Resolves when the process has ended, for whatever reason. */
  readonly exited: Promise<ProcessExit>
  /** The last lines it wrote to stderr. */
  stderrTail(): string
  /** Resolves when the process is gone; may be called again. */
  stop(): Promise<void>
}

/** What a start depends on besides its options. */
export interface EngineSeams {
  choosePort(): Promise<number>
  /** From the start of the process to its first answer. */
  readyTimeoutMs: number
  /** From the polite signal to the deadly one. */
  stopGraceMs: number
}

// A JVM on a busy machine needs many seconds; the limit is for an engine that hangs.
const DEFAULT_SEAMS: EngineSeams = {choosePort: findFreePort, readyTimeoutMs: 30_000, stopGraceMs: 3_000}

// Between choosing a free port and binding it, somebody else may take it.
const PORT_TRIES = 5
const POLL_INTERVAL_MS = 20
const STDERR_LINES_SHOWN = 10

/** Starts a DynamoDB-compatible engine on loopback and resolves once it answers. */
export async function startEngine(options: EngineOptions = {}, seams: Partial<EngineSeams> = {}): Promise<Engine> {
  const {choosePort, readyTimeoutMs, stopGraceMs} = {...DEFAULT_SEAMS, ...seams}
  const {port: fixedPort, signal} = options
  signal?.throwIfAborted()
  if (fixedPort !== undefined) checkPort(fixedPort)
  const {kind, command, version} = await pickEngine(options.engine)
  const dataDir = options.dataDir === undefined ? undefined : await prepareDataDir(options.dataDir)
  if (dataDir !== undefined) await kind.prepare?.(dataDir)

  for (let triesLeft = fixedPort === undefined ? PORT_TRIES : 1; ; triesLeft--) {
    const port = fixedPort ?? (await choosePort())
    const endpoint = `http://127.0.0.1:${port}`
    const child = await spawnOwned(command(port, dataDir))
    const stop = () => child.stop(stopGraceMs)
    const limits = [AbortSignal.timeout(readyTimeoutMs), ...(signal ? [signal] : [])]
    const outcome = await waitUntilReady(child, kind, endpoint, AbortSignal.any(limits))
    if (outcome === 'ready' && !signal?.aborted) {
      signal?.addEventListener('abort', stop)
      void child.exited.then(() => signal?.removeEventListener('abort', stop))
      const {pid, exited, stderrTail} = child
      return {name: kind.name, version, endpoint, port, pid, dataDir, exited, stderrTail, stop}
    }
    await stop()
    signal?.throwIfAborted()
    // Asking the system again is surer than reading the engine's words, which depend on the language of the machine.
    if (!(await isPortTaken(port))) throw startFailure(kind, child, outcome, readyTimeoutMs)
    if (triesLeft === 1) throw portTaken(port)
  }
}

type Outcome = 'ready' | 'gave up' | ProcessExit

async function waitUntilReady(
  child: OwnedProcess,
  kind: EngineKind,
  endpoint: string,
  giveUp: AbortSignal,
): Promise<Outcome> {
  while (!giveUp.aborted) {
    if (child.stderrTail().includes(kind.announcement) && (await answersListTables(endpoint, giveUp))) return 'ready'
    const exit = await Promise.race([child.exited, sleep(POLL_INTERVAL_MS)])
    if (exit) return exit
  }
  return 'gave up'
}

function checkPort(port: number): void {
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return
  throw new InvalidInput('engine.port', `a port is a whole number from 1 to 65535, not ${port}`, {
    hint: 'Leave the port out to get a free one.',
  })
}

function portTaken(port: number): ZaelError {
  return new ZaelError('conflict', 'engine.port-taken', `port ${port} of 127.0.0.1 is already in use`, {
    hint: 'Stop what listens there, choose another port, or leave the port out to get a free one.',
    details: {port},
  })
}

function startFailure(kind: EngineKind, child: OwnedProcess, outcome: Outcome, readyTimeoutMs: number): ZaelError {
  const what =
    typeof outcome === 'string'
      ? `gave no answer within ${readyTimeoutMs} ms`
      : `ended with ${outcome.signal ?? `code ${outcome.code}`} before it was ready`
  const said = child.stderrTail().split('\n').slice(-STDERR_LINES_SHOWN).join('\n')
  return new ZaelError('failed', 'engine.start-failed', `${kind.name} ${what}${said && `; it said:\n${said}`}`, {
    hint: 'Try the other engine, or an empty data folder if the data may be damaged.',
  })
}
