/// <reference lib="esnext.disposable" preserve="true" />
/**
 * For tests of programs that use zael: a table on an embedded engine, with time and faults under control.
 *
 * @packageDocumentation
 */
import {randomBytes, randomUUID} from 'node:crypto'
import {InvalidInput} from '../../core/errors.js'
import type {Limit} from '../../core/limits/limit.js'
import {type LimitTexts, readLimits} from '../../core/limits/limit-text.js'
import {sleepMs} from '../../dynamo/retry.js'
import {createTable, loadTableDefinition} from '../../dynamo/table-definition.js'
import type {ClosableTransport, Operation, SendOptions, Transport} from '../../dynamo/transport.js'
import {RateLimiter} from '../../limiter/rate-limiter.js'
import type {RateLimiterOptions} from '../../limiter/request/options.js'
import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import {Repository} from '../../repository/repository.js'
import {type SteadyTimers, SYSTEM_TIMERS} from '../../repository/table/timers.js'
import {ensureVersion} from '../../repository/table/version.js'
import {type Engine, startEngine} from '../engines/engine.js'
import {localTransport} from '../engines/transport.js'

/** Options of {@link startTestStack}. */
export interface TestStackOptions<Name extends string = string> extends TestSeams {
  /** Virtual time of all limiters: their clock, their pauses, and the renewal of the slots that they hold. */
  readonly time?: TestClock
  /** Limits of every entity for every resource, such as `rpm=60/min`. */
  readonly limits?: LimitTexts<Name>
}

/** Options of {@link TestStack.newLimiter}. The seams default to those of the stack. */
export type TestLimiterOptions<Name extends string = string> = Omit<
  RateLimiterOptions<Name>,
  'stack' | 'endpoint' | 'region' | 'profile' | 'client'
> &
  TestSeams

/** A table on its own in-memory engine. */
export interface TestStack<Name extends string = string> extends AsyncDisposable {
  /** Name of the table. */
  readonly stack: string
  /** `http://127.0.0.1:PORT`, for your own clients. */
  readonly endpoint: string
  readonly limiter: RateLimiter<Name>
  readonly repository: Repository
  /** Opens another limiter with its own caches, as in another process. */
  newLimiter<Other extends string = Name>(options?: TestLimiterOptions<Other>): RateLimiter<Other>
  /**
   * Kills a limiter of this stack, as `kill -9` kills its process: its calls are never answered, and it stops renewing its
   * slots. Others return these slots within 45 s after they were refused: see {@link TestClock.pass}.
   */
  kill(limiter: Pick<RateLimiter, 'close'>): void
  /** Closes the limiters and the repository, and stops the engine. May be called again. */
  close(): Promise<void>
}

/**
 * Starts the embedded engine, creates the table and opens a limiter on it.
 *
 * @example
 * ```ts
 * const stack = await startTestStack({limits: ['rpm=60/min']})
 * afterAll(() => stack.close())
 * ```
 */
export async function startTestStack<Name extends string = string>(
  options: TestStackOptions<Name> = {},
): Promise<TestStack<Name>> {
  const {limits = [], time, ...given} = options
  const seams = {...(time && {clock: time.clock, sleep: time.sleep}), ...given}
  // Throws before anything is started.
  const systemLimits = readLimits(limits)
  const engine = await startEngine({engine: 'dynoxide'})
  const direct = localTransport(engine.endpoint)
  try {
    const stack = await createStack(direct)
    return await openStack<Name>(engine, {direct, stack, time}, systemLimits, seams)
  } catch (error) {
    await direct.close()
    await engine.stop()
    throw error
  }
}

async function createStack(transport: ClosableTransport): Promise<string> {
  const name = `test-${randomUUID()}`
  await createTable(transport, await loadTableDefinition({tableName: name, stream: false}))
  const table = {name, transport, clock: Date.now, randomBytes, backoff: {random: Math.random, sleep: sleepMs}}
  await ensureVersion(table, {by: 'zael:testing'})
  await new Namespaces(table).register(DEFAULT_NAMESPACE)
  return name
}

async function openStack<Name extends string>(
  engine: Engine,
  {direct, stack, time}: {direct: ClosableTransport; stack: string; time: TestClock | undefined},
  systemLimits: readonly Limit[],
  seams: TestSeams,
): Promise<TestStack<Name>> {
  const limiters = new Map<Pick<RateLimiter, 'close'>, MortalProcess>()
  const transport = time?.counting(direct) ?? direct
  const newLimiter = <Other extends string = Name>(options: TestLimiterOptions<Other> = {}): RateLimiter<Other> => {
    const {intercept = seams.intercept, ...rest} = options
    const {intercept: _, ...common} = seams
    const own = new MortalProcess(intercepted(transport, intercept), time?.timers)
    const {timers} = own
    const limiter = new RateLimiter<Other>({...common, ...rest, stack, transport: own, timers})
    limiters.set(limiter, own)
    return limiter
  }
  const {clock} = seams
  const repository = new Repository({stack, transport: direct, ...(clock ? {clock} : {})})
  if (systemLimits.length > 0) await (await repository.namespace()).setLimits({level: 'system'}, systemLimits)
  let closing: Promise<void> | undefined
  const closeAll = async () => {
    await Promise.all([...limiters].map(([limiter, {isAlive}]) => isAlive && limiter.close()))
    await direct.close()
    await engine.stop()
  }
  const close = () => {
    closing ??= closeAll()
    return closing
  }
  return {
    stack,
    endpoint: engine.endpoint,
    limiter: newLimiter(),
    repository,
    newLimiter,
    kill: limiter => {
      const process = limiters.get(limiter)
      if (!process) throw new InvalidInput('testing.kill', 'The limiter is not one of this stack.')
      process.isAlive = false
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** A request to the table. */
export interface InterceptedRequest {
  /** Such as `UpdateItem`. */
  readonly operation: string
  /** The request in DynamoDB's format. */
  readonly input: Readonly<Record<string, unknown>>
}

/** Dependencies that a test can replace. */
export interface TestSeams {
  /** Returns epoch milliseconds, such as {@link TestClock.clock}. */
  readonly clock?: () => number
  /** Resolves after `ms`, or earlier when the signal aborts. Such as {@link TestClock.sleep}. */
  readonly sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
  /** Returns a number in [0, 1), which chooses shards and pauses. */
  readonly random?: () => number
  /** Intercepts requests to the table: count them, delay them, or throw to make them fail. */
  readonly intercept?: (request: InterceptedRequest, send: () => Promise<unknown>) => Promise<unknown>
}

/** The limiters of one process: after `kill -9`, nothing of them is heard. */
class MortalProcess implements Transport {
  isAlive = true
  readonly #transport: Transport
  readonly #timers: SteadyTimers

  constructor(transport: Transport, timers = SYSTEM_TIMERS) {
    this.#transport = transport
    this.#timers = timers
  }

  readonly send = (async (operation: Operation, input: object, options?: SendOptions) => {
    const answer = this.isAlive ? this.#transport.send(operation, input as never, options) : undefined
    await answer?.catch(() => {})
    return this.isAlive ? answer : new Promise(() => {})
  }) as Transport['send']

  get timers(): SteadyTimers {
    const {now, after} = this.#timers
    return {now, after: (ms, run) => after(ms, () => this.isAlive && run())}
  }
}

interface TestTimer {
  readonly atMs: number
  readonly run: () => void
}

/** A manual clock: only `advance`, `pass` and `sleep` move it. */
export class TestClock {
  #nowMs: number
  readonly #pending = new Set<TestTimer>()
  /** Calls to the table without an answer. */
  #underway = 0

  /** Epoch milliseconds. @default now */
  constructor(nowMs: number = Date.now()) {
    this.#nowMs = Math.floor(nowMs)
  }

  /** Pass this as `clock`. */
  readonly clock = (): number => this.#nowMs

  /** Pass this as `sleep`: it moves the clock instead of waiting. */
  readonly sleep = (ms: number): Promise<void> => this.pass(ms)

  /** Moves the clock forward at once, as if all processes had been suspended: they may lose slots that they hold. */
  advance(ms: number): void {
    this.#nowMs += Math.ceil(ms)
  }

  /** Moves the clock forward step by step. Meanwhile, limiters renew their slots, and return the slots of dead ones. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.#nowMs + Math.ceil(ms)
    if (this.#pending.size > 0 || this.#underway > 0) await this.#untilIdle()
    for (let next = this.#firstUntil(untilMs); next; next = this.#firstUntil(untilMs)) {
      this.#pending.delete(next)
      this.#nowMs = Math.max(this.#nowMs, next.atMs)
      next.run()
      await this.#untilIdle()
    }
    this.#nowMs = Math.max(this.#nowMs, untilMs)
  }

  /** @internal */
  readonly timers: SteadyTimers = {
    now: () => this.#nowMs,
    after: (ms, run) => {
      const timer = {atMs: this.#nowMs + Math.ceil(ms), run}
      this.#pending.add(timer)
      return () => this.#pending.delete(timer)
    },
  }

  /** @internal Time stands still until the calls under way are answered: an engine takes real time. */
  counting(transport: Transport): Transport {
    const send = async (operation: Operation, input: object, options?: SendOptions) => {
      this.#underway++
      return transport.send(operation, input as never, options).finally(() => this.#underway--)
    }
    return {send: send as Transport['send']}
  }

  #firstUntil(atMs: number): TestTimer | undefined {
    const [first] = [...this.#pending].sort((a, b) => a.atMs - b.atMs)
    return first && first.atMs <= atMs ? first : undefined
  }

  /** Several turns: the answer to one call leads to the next one. */
  async #untilIdle(): Promise<void> {
    for (let idle = 0; idle < IDLE_TURNS; idle = this.#underway > 0 ? 0 : idle + 1)
      await new Promise(resolve => setImmediate(resolve))
  }
}

const IDLE_TURNS = 3

function intercepted(transport: Transport, intercept: TestSeams['intercept']): Transport {
  if (!intercept) return transport
  const send = async (operation: Operation, input: object, options?: SendOptions) =>
    intercept({operation, input: input as Record<string, unknown>}, () =>
      transport.send(operation, input as never, options),
    )
  return {send: send as Transport['send']}
}
