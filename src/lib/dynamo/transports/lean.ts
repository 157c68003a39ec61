import {crc32} from 'node:zlib'
import {leftMs} from '../../core/text/duration.js'
import {connectionsClosed, onAbort, unlessStopped} from '../abort.js'
import {classifyError} from '../classify.js'
import {dateOf, ServerClock} from '../server-clock.js'
import {SharedFlight} from '../shared-flight.js'
import {
  type ClosableTransport,
  capacityOf,
  longestExchangeMs,
  type Operation,
  type OperationInput,
  type OperationOutput,
  refusesTime,
  type SendOptions,
  type Timeouts,
  type TransportOptions,
  timeoutsOf,
} from '../transport.js'
import type {Access} from './access.js'
import {Exchange, type HttpAnswer, HttpPool} from './http.js'
import {fromWire, postMessage, Signer, serviceError, toWire, unreadable} from './wire.js'

export interface LeanTransportOptions extends TransportOptions, Timeouts {
  /** Called again before the credentials expire. */
  access: () => Access | Promise<Access>
}

interface Route {
  readonly access: Access
  readonly signer: Signer
  readonly pool: HttpPool
  readonly renewAtMs: number
}

const TARGET = 'DynamoDB_20120810.'

// The SDK renews as early.
const RENEW_AHEAD_MS = 300_000
// Bounds how often credentials are requested while no newer ones are available.
const RENEW_PAUSE_MS = 1_000
// A credentials provider may start a program or ask a server.
const LONGEST_RENEWAL_MS = 30_000

/** Needs a fraction of the SDK's CPU time. The SDK still provides credentials, region and endpoint. */
export class LeanTransport implements ClosableTransport {
  readonly #options: LeanTransportOptions
  /** Signs with the server's time, as far as it is known. */
  readonly #signingClock: ServerClock
  #route: Route | undefined
  readonly #renewal = new SharedFlight<Route>(LONGEST_RENEWAL_MS)
  readonly #longestMs: number

  constructor(options: LeanTransportOptions) {
    this.#options = options
    this.#longestMs = longestExchangeMs(options)
    this.#signingClock = new ServerClock(options.clock)
  }

  async send<O extends Operation>(
    operation: O,
    input: OperationInput<O>,
    {signal, timeoutMs}: SendOptions = {},
  ): Promise<OperationOutput<O>> {
    const mayTakeMs = timeoutMs === undefined ? this.#longestMs : Math.min(leftMs(timeoutMs), this.#longestMs)
    const deadlineMs = performance.now() + mayTakeMs
    let exchange: Exchange | undefined
    let unsubscribe: (() => void) | undefined
    try {
      signal?.throwIfAborted()
      const ready = this.#route
      const isValid = ready !== undefined && this.#signingClock.now() < ready.renewAtMs
      const route = isValid ? ready : await unlessStopped(this.#renewed(), {signal, deadlineMs})
      const request = this.#options.meterCapacity === true ? {ReturnConsumedCapacity: 'INDEXES', ...input} : input
      const body = toWire(request)
      const {host} = route.access.endpoint
      const signable = {host, target: TARGET + operation, body, nowMs: this.#signingClock.now()}
      exchange = new Exchange(postMessage(route.signer.sign(signable), body), deadlineMs)
      if (signal) {
        signal.throwIfAborted()
        const underway = exchange
        unsubscribe = onAbort(signal, () => underway.fail(signal.reason))
      }
      route.pool.start(exchange)
      return this.#read(await exchange.answer, operation, exchange.sentAtMs as number) as OperationOutput<O>
    } catch (error) {
      throw classifyError(error, operation, {signal, sent: exchange?.sentAtMs !== undefined})
    } finally {
      unsubscribe?.()
    }
  }

  async close(): Promise<void> {
    this.#renewal.abandon(connectionsClosed())
    this.#route?.pool.close()
    this.#route = undefined
  }

  #read(answer: HttpAnswer, operation: Operation, sentAtMs: number): unknown {
    const {clock, onResponse, meterCapacity = false} = this.#options
    const receivedAtMs = clock()
    const {status, headers} = answer
    let output: unknown
    let isTimeRefused = false
    try {
      if (status < 200 || status >= 300) {
        const error = serviceError(answer)
        isTimeRefused = refusesTime(error)
        throw error
      }
      output = readSuccess(answer)
      return output
    } finally {
      const serverDateMs = dateOf(headers.get('date'))
      const capacity = meterCapacity ? capacityOf(output) : []
      const info = {operation, sentAtMs, receivedAtMs, serverDateMs, isTimeRefused, capacity}
      this.#signingClock.observe(info)
      onResponse?.(info)
    }
  }

  #renewed(): Promise<Route> {
    return this.#renewal.join(abandoned => this.#renew(abandoned))
  }

  async #renew(abandoned: AbortSignal): Promise<Route> {
    const before = this.#route
    const nowMs = this.#signingClock.now()
    const access = await this.#newAccess(before, nowMs)
    abandoned.throwIfAborted()
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

  /** If renewal fails, uses the old credentials until they expire. */
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
    return new HttpPool({origin, clock: this.#options.clock, ...timeoutsOf(this.#options)})
  }
}

function readSuccess(answer: HttpAnswer): unknown {
  const {body, headers} = answer
  const checksum = headers.get('x-amz-crc32')
  if (checksum !== undefined && Number(checksum) !== crc32(body)) {
    throw unreadable(answer, 'the response does not match its checksum')
  }
  let output: unknown
  try {
    output = fromWire(body.toString())
  } catch {
    throw unreadable(answer, 'the response is not JSON')
  }
  if (typeof output !== 'object' || output === null) throw unreadable(answer, 'the response is not a JSON object')
  return output
}
