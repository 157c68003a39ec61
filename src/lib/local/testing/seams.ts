import type {Operation, SendOptions, Transport} from '../../dynamo/transport.js'

/** A request on its way to the table. */
export interface InterceptedRequest {
  /** Such as `UpdateItem`. */
  readonly operation: string
  /** In DynamoDB's own spelling. */
  readonly input: Readonly<Record<string, unknown>>
}

/** What a test can replace. */
export interface TestSeams {
  /** Epoch milliseconds; a {@link TestClock} has one. */
  readonly clock?: () => number
  /** Resolves after `ms`, or earlier when the signal aborts; a {@link TestClock} has one. */
  readonly sleep?: (ms: number, signal?: AbortSignal) => Promise<void>
  /** In [0, 1): draws shards and pauses. */
  readonly random?: () => number
  /** Stands between the limiter and the table: count requests, delay them, or throw to have them fail. */
  readonly intercept?: (request: InterceptedRequest, send: () => Promise<unknown>) => Promise<unknown>
}

/** A clock that moves only when told, and waits that move it. */
export class TestClock {
  #nowMs: number

  /** Starts now unless said otherwise; epoch milliseconds. */
  constructor(nowMs: number = Date.now()) {
    this.#nowMs = Math.floor(nowMs)
  }

  /** For `clock`. */
  readonly clock = (): number => this.#nowMs

  /** For `sleep`: moves the clock at once. */
  readonly sleep = async (ms: number): Promise<void> => this.advance(ms)

  /** Moves the clock. */
  advance(ms: number): void {
    this.#nowMs += Math.ceil(ms)
  }
}

/** The transport with an interceptor in front of it, if there is one. */
export function intercepted(transport: Transport, intercept: TestSeams['intercept']): Transport {
  if (!intercept) return transport
  const send = async (operation: Operation, input: object, options?: SendOptions) =>
    intercept({operation, input: input as Record<string, unknown>}, () =>
      transport.send(operation, input as never, options),
    )
  return {send: send as Transport['send']}
}
