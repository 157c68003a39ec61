import {type ChildProcessWithoutNullStreams, spawn} from 'node:child_process'
import {once} from 'node:events'
import {join} from 'node:path'
import {createInterface} from 'node:readline'
import {fileURLToPath} from 'node:url'
import {describe, inject} from 'vitest'
import {type Outcome, run} from '../e2e/zael.js'
import {pythonEnvironment} from '../helpers/python-environment.js'

/** The tested releases of zae-limiter: the first and the last with our table layout. */
export type Release = '0.10' | '0.17'

const DRIVER = fileURLToPath(new URL('driver.py', import.meta.url))

const programs: Readonly<Record<Release, string | undefined>> = {
  '0.10': pythonEnvironment({name: 'zae-limiter-0.10', usedFor: 'Tests with zae-limiter 0.10'}),
  '0.17': pythonEnvironment({name: 'zae-limiter-0.17', usedFor: 'Tests with zae-limiter 0.17'}),
}

/** Like `describe`, for tests with the Python clients; skipped without Python or an engine. */
export const describeWithPeers = describe.skipIf(
  inject('engineEndpoint') === '' || programs['0.10'] === undefined || programs['0.17'] === undefined,
)

/** An error that the Python client raised, by the name of its class. */
class PythonError extends Error {
  constructor(
    readonly type: string,
    message: string,
  ) {
    super(`${type}: ${message}`)
    this.name = 'PythonError'
  }
}

interface Reply {
  readonly id: number
  readonly result?: unknown
  readonly error?: {readonly type: string; readonly message: string}
}

/** A process with one release of the Python client. Its input closes when this process ends, and it ends too. */
export class PythonProcess implements AsyncDisposable {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #waiting = new Map<number, {resolve: (value: unknown) => void; reject: (error: Error) => void}>()
  #stderr = ''
  #requests = 0

  constructor(readonly release: Release) {
    const python = join(programs[release] ?? '', 'python')
    this.#child = spawn(python, ['-W', 'ignore', DRIVER, inject('engineEndpoint')], {stdio: 'pipe'})
    this.#child.stderr.setEncoding('utf8').on('data', text => {
      this.#stderr = (this.#stderr + text).slice(-4000)
    })
    this.#child.stdin.on('error', () => {})
    createInterface({input: this.#child.stdout}).on('line', line => this.#settle(JSON.parse(line)))
    this.#child.once('close', (code, signal) => {
      const error = new Error(`the driver of zae-limiter ${release} ended (${signal ?? code}): ${this.#stderr}`)
      for (const {reject} of this.#waiting.values()) reject(error)
      this.#waiting.clear()
    })
  }

  /** One request to `driver.py`. */
  request<T>(op: string, fields: Readonly<Record<string, unknown>>): Promise<T> {
    const id = ++this.#requests
    return new Promise<T>((resolve, reject) => {
      if (this.#child.exitCode !== null) return reject(new Error(`the driver has ended: ${this.#stderr}`))
      this.#waiting.set(id, {resolve: resolve as (value: unknown) => void, reject})
      this.#child.stdin.write(`${JSON.stringify({...fields, id, op})}\n`)
    })
  }

  /** The instant of all later calls. Default: the machine's clock. */
  async setClock(ms: number | null): Promise<void> {
    await this.request('clock', {ms})
  }

  /** Opens a namespace and registers it if it is new, as an application does when it starts. */
  async open(stack: string, namespace: string): Promise<PythonClient> {
    const opened = await this.request<{client: number; namespaceId: string}>('open', {stack, namespace})
    return new PythonClient(this, stack, namespace, opened)
  }

  /** Runs the release's stream processor on stream records. */
  stream(stack: string, records: readonly object[]): Promise<{processed: number; refills: number; errors: string[]}> {
    return this.request('stream', {stack, records})
  }

  /** Runs the release's provisioner, like its `limits plan` and `limits apply`. */
  provision<T>(event: Readonly<Record<string, unknown>>): Promise<T> {
    return this.request('provision', {event})
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const closed = once(this.#child, 'close')
    this.#child.stdin.end()
    const force = setTimeout(() => this.#child.kill('SIGKILL'), 10_000)
    await closed
    clearTimeout(force)
  }

  #settle({id, result, error}: Reply): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    if (error) waiting?.reject(new PythonError(error.type, error.message))
    else waiting?.resolve(result)
  }
}

/** A limit in Python's form; everything after the period is of 0.17. */
export interface PythonLimit {
  readonly name: string
  readonly capacity: number
  readonly refill_amount: number
  readonly refill_period_seconds: number
  readonly schedule?: readonly PythonScheduleEntry[]
  readonly reset_schedule?: readonly PythonScheduleEntry[]
  readonly reset_after_seconds?: number
  readonly soft?: true
}

export interface PythonScheduleEntry {
  readonly cron: string
  readonly tz?: string
  readonly scale?: number
}

export interface AcquireOptions {
  readonly times?: number
  /** Concurrent requests. Default: 1. */
  readonly concurrency?: number
  /** Actions on the lease before it ends. */
  readonly adjust?: Readonly<Record<string, number>>
  readonly release?: Readonly<Record<string, number>>
  readonly rollBack?: boolean
  /** Further resources of the same request, all or nothing (0.17). */
  readonly also?: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** Replaces the configured limits. */
  readonly limits?: readonly PythonLimit[]
}

export interface Acquired {
  readonly admitted: number
  /** How many of them a bypass admitted (0.17). */
  readonly bypassed: number
  readonly refused: number
  readonly errors: number
  /** The first refusal or error. */
  readonly first: {readonly type: string; readonly message: string} | null
}

/** Runs the command line of a release, `zae-limiter`, against the engine. */
export async function runPythonProgram(release: Release, args: readonly string[]): Promise<Outcome> {
  const access = {AWS_ACCESS_KEY_ID: 'testing', AWS_SECRET_ACCESS_KEY: 'testing', AWS_EC2_METADATA_DISABLED: 'true'}
  const program = join(programs[release] ?? '', 'zae-limiter')
  return run(program, [...args, '--endpoint-url', inject('engineEndpoint')], {env: {...access, AWS_MAX_ATTEMPTS: '1'}})
}

/** A namespace opened by one Python process. */
export class PythonClient {
  readonly namespaceId: string
  readonly #client: number

  constructor(
    readonly process: PythonProcess,
    readonly stack: string,
    /** Its name. */
    readonly namespace: string,
    opened: {readonly client: number; readonly namespaceId: string},
  ) {
    this.#client = opened.client
    this.namespaceId = opened.namespaceId
  }

  acquire(
    entity: string,
    resource: string,
    consume: Readonly<Record<string, number>>,
    options: AcquireOptions = {},
  ): Promise<Acquired> {
    return this.process.request('acquire', {client: this.#client, entity, resource, consume, ...options})
  }

  /** A method of its repository: `set_limits`, `disable_resource`, `top_up`. */
  repository<T>(method: string, args: Readonly<Record<string, unknown>> = {}): Promise<T> {
    return this.process.request('call', {client: this.#client, target: 'repository', method, args})
  }

  /** A method of its limiter: `available`, `get_usage_summary`. */
  limiter<T>(method: string, args: Readonly<Record<string, unknown>> = {}): Promise<T> {
    return this.process.request('call', {client: this.#client, target: 'limiter', method, args})
  }
}

/** A plain limit: `capacity` tokens that refill once per period. */
export function limit(
  name: string,
  capacity: number,
  periodSeconds = 60,
  more: Partial<PythonLimit> = {},
): PythonLimit {
  return {name, capacity, refill_amount: capacity, refill_period_seconds: periodSeconds, ...more}
}

/** An allowance per window; the window is given by a calendar or by the time since its first use (0.17). */
export function quota(name: string, amount: number, window: {cron: string; tz?: string} | {afterSeconds: number}) {
  const plain = {name, capacity: amount, refill_amount: 0, refill_period_seconds: 1}
  return 'cron' in window ? {...plain, reset_schedule: [window]} : {...plain, reset_after_seconds: window.afterSeconds}
}
