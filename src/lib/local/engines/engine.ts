import {once} from 'node:events'
import {request} from 'node:http'
import {type AddressInfo, createServer} from 'node:net'
import {setTimeout as sleep} from 'node:timers/promises'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {pickEngine} from './find.js'
import {type EngineKind, type EngineName, prepareDataDir} from './kind.js'
import {type OwnedProcess, type ProcessExit, spawnOwned} from './owned-process.js'

/** Another process can take the port before the caller binds it. */
export async function findFreePort(): Promise<number> {
  return bindOnce(0)
}

export async function isPortTaken(port: number): Promise<boolean> {
  try {
    await bindOnce(port)
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
  }
}

async function bindOnce(port: number): Promise<number> {
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  const {port: bound} = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return bound
}

export interface EngineOptions {
  /** Absent: the first that can run here. */
  engine?: EngineName | undefined
  /** Absent: any free port. */
  port?: number | undefined
  /** Created if missing. Absent: in memory. */
  dataDir?: string | undefined
  /** Aborts the start only: a running engine is stopped last, after the services that use it. */
  signal?: AbortSignal | undefined
}

/** Keeps this process alive until it ends, and never outlives it. */
export interface Engine {
  readonly name: EngineName
  readonly version: string
  readonly endpoint: string
  readonly port: number
  readonly pid: number
  readonly dataDir: string | undefined
  readonly exited: Promise<ProcessExit>
  stderrTail(): string
  /** Resolves when the process has exited; may be called again. */
  stop(): Promise<void>
}

export interface EngineSeams {
  choosePort(): Promise<number>
  /** From the start of the process to its first successful response. */
  readyTimeoutMs: number
  /** From SIGTERM to SIGKILL. */
  stopGraceMs: number
}

// A JVM on a busy machine needs many seconds; the limit is for an engine that hangs.
const DEFAULT_SEAMS: EngineSeams = {choosePort: findFreePort, readyTimeoutMs: 30_000, stopGraceMs: 3_000}

const PORT_ATTEMPTS = 5
const POLL_INTERVAL_MS = 20
const STDERR_LINES_SHOWN = 10

/** Resolves once the engine responds. */
export async function startEngine(options: EngineOptions = {}, seams: Partial<EngineSeams> = {}): Promise<Engine> {
  const {choosePort, readyTimeoutMs, stopGraceMs} = {...DEFAULT_SEAMS, ...seams}
  const {port: fixedPort, signal} = options
  signal?.throwIfAborted()
  if (fixedPort !== undefined) checkPort(fixedPort)
  const {kind, command, version} = await pickEngine(options.engine)
  const dataDir = options.dataDir === undefined ? undefined : await prepareDataDir(options.dataDir)
  if (dataDir !== undefined) await kind.prepare?.(dataDir)

  for (let attemptsLeft = fixedPort === undefined ? PORT_ATTEMPTS : 1; ; attemptsLeft--) {
    const port = fixedPort ?? (await choosePort())
    const endpoint = `http://127.0.0.1:${port}`
    const child = await spawnOwned(command(port, dataDir))
    const stop = () => child.stop(stopGraceMs)
    const limits = [AbortSignal.timeout(readyTimeoutMs), ...(signal ? [signal] : [])]
    const outcome = await waitUntilReady(child, kind, endpoint, AbortSignal.any(limits))
    if (outcome === 'ready' && !signal?.aborted) {
      const {pid, exited, stderrTail} = child
      return {name: kind.name, version, endpoint, port, pid, dataDir, exited, stderrTail, stop}
    }
    await stop()
    signal?.throwIfAborted()
    // Probing the port is more reliable than parsing the engine's message, which depends on the machine's language.
    if (!(await isPortTaken(port))) throw startFailure(kind, child, outcome, readyTimeoutMs)
    if (attemptsLeft === 1) throw portTaken(port)
  }
}

type Outcome = 'ready' | 'timed out' | ProcessExit

async function waitUntilReady(
  child: OwnedProcess,
  kind: EngineKind,
  endpoint: string,
  limit: AbortSignal,
): Promise<Outcome> {
  while (!limit.aborted) {
    if (child.stderrTail().includes(kind.announcement) && (await answersListTables(endpoint, limit))) return 'ready'
    const exit = await Promise.race([child.exited, sleep(POLL_INTERVAL_MS)])
    if (exit) return exit
  }
  return 'timed out'
}

// Engines check that a signature is present and well-formed, not that it is valid.
const PROBE_HEADERS = {
  'content-type': 'application/x-amz-json-1.0',
  'x-amz-target': 'DynamoDB_20120810.ListTables',
  'x-amz-date': '20200101T000000Z',
  authorization:
    'AWS4-HMAC-SHA256 Credential=local/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=0',
}

function answersListTables(endpoint: string, signal: AbortSignal): Promise<boolean> {
  return new Promise(resolve => {
    // No agent: a keep-alive connection would outlast the probe and delay the engine's shutdown.
    const call = request(endpoint, {method: 'POST', headers: PROBE_HEADERS, agent: false, signal}, response => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    call.on('error', () => resolve(false))
    call.end('{}')
  })
}

function checkPort(port: number): void {
  if (Number.isInteger(port) && port >= 1 && port <= 65_535) return
  throw new InvalidInput('engine.port', `A port is a whole number from 1 to 65535, not ${port}.`, {
    hint: 'Omit the port to use a free one.',
  })
}

function portTaken(port: number): ZaelError {
  return new ZaelError('conflict', 'engine.port-taken', `Port ${port} of 127.0.0.1 is already in use.`, {
    hint: 'Stop the program that uses the port, choose another port, or omit the port to use a free one.',
    details: {port},
  })
}

function startFailure(kind: EngineKind, child: OwnedProcess, outcome: Outcome, readyTimeoutMs: number): ZaelError {
  const what =
    typeof outcome === 'string'
      ? `did not respond within ${readyTimeoutMs} ms`
      : `ended with ${outcome.signal ?? `code ${outcome.code}`} before it was ready`
  const output = child.stderrTail().split('\n').slice(-STDERR_LINES_SHOWN).join('\n')
  return new ZaelError('failed', 'engine.start-failed', `${kind.name} ${what}${output && `; its output:\n${output}`}`, {
    hint: 'Try another engine with --engine, or an empty data folder if the data is damaged.',
  })
}
