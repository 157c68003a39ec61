import {crc32} from 'node:zlib'
import {classifyError} from '../classify.js'
import {capacityOf, dateOf} from '../response-info.js'
import {ServerClock} from '../server-clock.js'
import type {ClosableTransport, Operation, OperationInput, OperationOutput, SendOptions} from '../transport.js'
import type {Access} from './access.js'
import type {HttpAnswer} from './http-answer.js'
import {Exchange, postMessage} from './http-exchange.js'
import {HttpPool} from './http-pool.js'
import type {TransportOptions} from './sdk.js'
import {serviceError, unreadable} from './service-error.js'
import {Signer} from './signature.js'
import {fromWire, toWire} from './wire-json.js'

export interface LeanTransportOptions extends TransportOptions {
  /** Endpoint, region and credentials; called again before the credentials expire. */
  access: () => Access | Promise<Access>
  /** How long connecting may take, including the wait for a free connection. */
  connectTimeoutMs?: number
  /** How long an answer may take, and how long it may stall. */
  requestTimeoutMs?: number
}

/** What requests use until the access changes. */
interface Route {
  readonly access: Access
  readonly signer: Signer
  readonly pool: HttpPool
  readonly renewAtMs: number
}

const TARGET = 'DynamoDB_20120810.'

// Credentials are renewed this long before they expire, as the SDK does.
const RENEW_AHEAD_MS = 300_000
// Where there are no newer ones yet, they are not requested more often than this.
const RENEW_PAUSE_MS = 1_000

/**
 * A transport for the operations on items: signed JSON over keep-alive connections. The SDK needs several times the CPU
 * time for the same; it remains the source of credentials, region and endpoint.
 */
export class LeanTransport implements ClosableTransport {
  readonly #options: LeanTransportOptions
  /** Requests are signed with the server's time, as far as its answers reveal it. */
  readonly #signingClock: ServerClock
  #route: Route | undefined
  #renewal: Promise<Route> | undefined

  constructor(options: LeanTransportOptions) {
    this.#options = options
    this.#signingClock = new ServerClock(options.clock)
  }

  async send<O extends Operation>(
    operation: O,
    input: OperationInput<O>,
    {signal, timeoutMs}: SendOptions = {},
  ): Promise<OperationOutput<O>> {
    const deadlineMs = timeoutMs === undefined ? undefined : performance.now() + timeoutMs
    let exchange: Exchange | undefined
    let stop: (() => void) | undefined
    try {
      signal?.throwIfAborted()
      const ready = this.#route
      const route = ready && this.#signingClock.now() < ready.renewAtMs ? ready : await this.#renewed()
      const request = this.#options.meterCapacity === true ? {ReturnConsumedCapacity: 'INDEXES', ...input} : input
      exchange = new Exchange(this.#message(route, operation, toWire(request)), deadlineMs)
      if (signal) {
        signal.throwIfAborted()
        const underway = exchange
        stop = () => underway.fail(signal.reason)
        signal.addEventListener('abort', stop, {once: true})
      }
      route.pool.start(exchange)
      return this.#read(await exchange.answer, operation, exchange.sentAtMs as number) as OperationOutput<O>
    } catch (error) {
      throw classifyError(error, operation, {signal, sent: exchange?.sentAtMs !== undefined})
    } finally {
      if (stop) signal?.removeEventListener('abort', stop)
    }
  }

  async close(): Promise<void> {
    await this.#renewal?.catch(() => {})
    this.#route?.pool.close()
    this.#route = undefined
  }

  #message({access, signer}: Route, operation: Operation, body: string): string {
    const {host} = access.endpoint
    const headers = signer.sign({host, target: TARGET + operation, body, nowMs: this.#signingClock.now()})
    return postMessage(headers, body)
  }

  #read(answer: HttpAnswer, operation: Operation, sentAtMs: number): unknown {
    const {clock, onResponse} = this.#options
    const receivedAtMs = clock()
    const {status, headers} = answer
    let output: unknown
    try {
      if (status < 200 || status >= 300) throw serviceError(answer)
      output = readSuccess(answer)
      return output
    } finally {
      const serverDateMs = dateOf(headers.get('date'))
      const info = {operation, sentAtMs, receivedAtMs, serverDateMs, capacity: capacityOf(output)}
      this.#signingClock.observe(info)
      onResponse?.(info)
    }
  }

  /** One renewal at a time, shared by all requests that wait for it. */
  #renewed(): Promise<Route> {
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = undefined
    })
    return this.#renewal
  }

  async #renew(): Promise<Route> {
    const before = this.#route
    const nowMs = this.#signingClock.now()
    const access = await this.#newAccess(before, nowMs)
    const isSamePlace = before?.access.endpoint.origin === access.endpoint.origin
    if (!isSamePlace) before?.pool.close()
    const endsAtMs = access.credentials.expiration?.getTime() ?? Infinity
    this.#route = {
      access,
      signer: before?.access === access ? before.signer : new Signer(access.credentials, access.region),
      pool: before && isSamePlace ? before.pool : this.#newPool(access.endpoint),
      renewAtMs: Math.max(endsAtMs - RENEW_AHEAD_MS, nowMs + RENEW_PAUSE_MS),
    }
    return this.#route
  }

  /** Credentials that cannot be renewed now are used until they expire. */
  async #newAccess(before: Route | undefined, nowMs: number): Promise<Access> {
    try {
      return await this.#options.access()
    } catch (error) {
      const endsAtMs = before?.access.credentials.expiration?.getTime() ?? 0
      if (before === undefined || nowMs >= endsAtMs) throw error
      return before.access
    }
  }

  #newPool(origin: URL): HttpPool {
    const {clock, connectTimeoutMs = 3_000, requestTimeoutMs = 10_000} = this.#options
    return new HttpPool({origin, clock, connectTimeoutMs, requestTimeoutMs})
  }
}

function readSuccess(answer: HttpAnswer): unknown {
  const {body, headers} = answer
  const checksum = headers.get('x-amz-crc32')
  if (checksum !== undefined && Number(checksum) !== crc32(body)) {
    throw unreadable(answer, 'the answer does not match its checksum')
  }
  const output = parsed(answer)
  if (typeof output !== 'object' || output === null) throw unreadable(answer, 'the answer is not a JSON object')
  return output
}

function parsed(answer: HttpAnswer): unknown {
  try {
    return fromWire(answer.body.toString())
  } catch {
    throw unreadable(answer, 'the answer is not JSON')
  }
}
