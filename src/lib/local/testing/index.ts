/// <reference lib="esnext.disposable" preserve="true" />
/**
 * For tests of programs that use zael: a table on an embedded engine, with time and faults under control.
 *
 * @packageDocumentation
 */
import {randomBytes, randomUUID} from 'node:crypto'
import type {Limit} from '../../core/limits/limit.js'
import {type LimitTexts, readLimits} from '../../core/limits/limit-text.js'
import {sleepMs} from '../../dynamo/retry.js'
import {createTable, loadTableDefinition} from '../../dynamo/table-definition.js'
import type {ClosableTransport, Operation, SendOptions, Transport} from '../../dynamo/transport.js'
import {RateLimiter} from '../../limiter/rate-limiter.js'
import type {RateLimiterOptions} from '../../limiter/request/options.js'
import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import {Repository} from '../../repository/repository.js'
import {ensureVersion} from '../../repository/table/version.js'
import {type Engine, startEngine} from '../engines/engine.js'
import {localTransport} from '../engines/transport.js'

/** Options of {@link startTestStack}. */
export interface TestStackOptions<Name extends string = string> extends TestSeams {
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
  /** Closes the limiters and the repository, and stops the engine. May be called again. */
  close(): Promise<void>
}

/**
 * Starts the embedded engine, creates the table and gives a limiter on it.
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
  const {limits = [], ...seams} = options
  // Throws before anything is started.
  const systemLimits = readLimits(limits)
  const engine = await startEngine({engine: 'dynoxide'})
  const direct = localTransport(engine.endpoint)
  try {
    const stack = await createStack(direct)
    return await openStack<Name>(engine, direct, stack, systemLimits, seams)
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
  direct: ClosableTransport,
  stack: string,
  systemLimits: readonly Limit[],
  seams: TestSeams,
): Promise<TestStack<Name>> {
  const limiters: RateLimiter<string>[] = []
  const newLimiter = <Other extends string = Name>(options: TestLimiterOptions<Other> = {}): RateLimiter<Other> => {
    const {intercept = seams.intercept, ...rest} = options
    const {intercept: _, ...common} = seams
    const limiter = new RateLimiter<Other>({...common, ...rest, stack, transport: intercepted(direct, intercept)})
    limiters.push(limiter as unknown as RateLimiter<string>)
    return limiter
  }
  const {clock} = seams
  const repository = new Repository({stack, transport: direct, ...(clock ? {clock} : {})})
  if (systemLimits.length > 0) await (await repository.namespace()).setLimits({level: 'system'}, systemLimits)
  let closing: Promise<void> | undefined
  const closeAll = async () => {
    await Promise.all(limiters.map(limiter => limiter.close()))
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

/** A manual clock: only `advance` and `sleep` move it. */
export class TestClock {
  #nowMs: number

  /** Epoch milliseconds. @default now */
  constructor(nowMs: number = Date.now()) {
    this.#nowMs = Math.floor(nowMs)
  }

  /** Pass this as `clock`. */
  readonly clock = (): number => this.#nowMs

  /** Pass this as `sleep`: it moves the clock instead of waiting. */
  readonly sleep = async (ms: number): Promise<void> => this.advance(ms)

  /** Moves the clock forward. */
  advance(ms: number): void {
    this.#nowMs += Math.ceil(ms)
  }
}

function intercepted(transport: Transport, intercept: TestSeams['intercept']): Transport {
  if (!intercept) return transport
  const send = async (operation: Operation, input: object, options?: SendOptions) =>
    intercept({operation, input: input as Record<string, unknown>}, () =>
      transport.send(operation, input as never, options),
    )
  return {send: send as Transport['send']}
}
