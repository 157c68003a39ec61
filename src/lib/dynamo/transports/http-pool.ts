import {connect, isIP, type Socket} from 'node:net'
import {connect as connectSecurely} from 'node:tls'
import {connectionsClosed} from '../abort.js'
import {type Exchange, HttpConnection} from './http-connection.js'

interface HttpPoolOptions {
  readonly origin: URL
  /** Includes the wait for a free connection. */
  readonly connectTimeoutMs: number
  /** How long a response may take to begin, and how long it may stall. */
  readonly requestTimeoutMs: number
  readonly clock: () => number
}

// A hot process has dozens of buckets in flight.
const MAX_CONNECTIONS = 128

// Load balancers and NAT drop idle connections after some minutes, sometimes silently.
const LONGEST_IDLE_MS = 60_000

/** An exchange is one request on one keep-alive connection and is never retried. */
export class HttpPool {
  readonly #options: HttpPoolOptions
  readonly #all = new Set<HttpConnection>()
  readonly #idle: HttpConnection[] = []
  readonly #waiting = new Set<Exchange>()
  #connecting = 0
  #session: Buffer | undefined

  constructor(options: HttpPoolOptions) {
    this.#options = options
  }

  start(exchange: Exchange): void {
    const free = this.#takeIdle()
    if (free !== undefined) this.#send(free, exchange)
    else {
      this.#waiting.add(exchange)
      exchange.onFailure = () => this.#waiting.delete(exchange)
      exchange.failAfter(this.#options.connectTimeoutMs, 'no connection')
      try {
        this.#openForWaiting()
      } catch (error) {
        exchange.fail(error)
      }
    }
  }

  close(): void {
    const reason = connectionsClosed()
    for (const exchange of this.#waiting) exchange.fail(reason)
    for (const connection of this.#all) connection.destroy(reason)
  }

  #takeIdle(): HttpConnection | undefined {
    const oldestMs = performance.now() - LONGEST_IDLE_MS
    for (let connection = this.#idle.pop(); connection !== undefined; connection = this.#idle.pop()) {
      if (connection.isUsable && connection.idleSinceMs >= oldestMs) return connection
      connection.destroy()
    }
    return undefined
  }

  #send(connection: HttpConnection, exchange: Exchange): void {
    exchange.failAfter(this.#options.requestTimeoutMs, 'no answer')
    if (exchange.isSettled) this.#onFree(connection)
    else {
      exchange.sentAtMs = this.#options.clock()
      connection.send(exchange)
    }
  }

  #openForWaiting(): void {
    if (this.#connecting >= this.#waiting.size || this.#all.size >= MAX_CONNECTIONS) return
    const isSecure = this.#options.origin.protocol === 'https:'
    const connection = new HttpConnection(this.#connect(isSecure), isSecure ? 'secureConnect' : 'connect', {
      onConnected: () => {
        clearTimeout(giveUp)
        this.#connecting--
        this.#onFree(connection)
      },
      onFree: () => this.#onFree(connection),
      onClosed: reason => {
        clearTimeout(giveUp)
        this.#onClosed(connection, reason)
      },
    })
    // A hanging attempt must not block the next one. Waiting exchanges have their own timeouts.
    const giveUp = setTimeout(() => connection.destroy(), this.#options.connectTimeoutMs)
    this.#all.add(connection)
    this.#connecting++
  }

  #onFree(connection: HttpConnection): void {
    const [next] = this.#waiting
    if (next === undefined) {
      connection.rest()
      this.#idle.push(connection)
      return
    }
    this.#waiting.delete(next)
    this.#send(connection, next)
  }

  #onClosed(connection: HttpConnection, reason: Error | undefined): void {
    this.#all.delete(connection)
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
    if (!connection.hasConnected) this.#connecting--
    if (reason !== undefined) {
      const [next] = this.#waiting
      next?.fail(reason)
    }
    this.#openForWaiting()
  }

  #connect(isSecure: boolean): Socket {
    const {hostname, port} = this.#options.origin
    const host = hostname.replace(/^\[|\]$/g, '')
    if (!isSecure) return connect({host, port: Number(port || 80), noDelay: true})
    const socket = connectSecurely({
      host,
      port: Number(port || 443),
      ALPNProtocols: ['http/1.1'],
      ...(isIP(host) === 0 ? {servername: host} : {}),
      ...(this.#session === undefined ? {} : {session: this.#session}),
    })
    socket.setNoDelay(true)
    // Resuming a session saves most of the next handshake.
    socket.on('session', session => {
      this.#session = session
    })
    return socket
  }
}
