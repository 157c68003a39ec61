import {connect, isIP, type Socket} from 'node:net'
import {connect as connectSecurely} from 'node:tls'
import {connectionsClosed, TimeoutError} from '../abort.js'

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

interface ConnectionEvents {
  onConnected(): void
  onFree(): void
  /** Called once. With a reason if the connection could not be established. */
  onClosed(reason: Error | undefined): void
}

/** Handles one request at a time, and none after an error or an unusual response. */
export class HttpConnection {
  hasConnected = false
  idleSinceMs = 0
  readonly #socket: Socket
  readonly #events: ConnectionEvents
  #exchange: Exchange | undefined
  #reader: AnswerReader | undefined
  #isClosed = false

  constructor(socket: Socket, readyEvent: 'connect' | 'secureConnect', events: ConnectionEvents) {
    this.#socket = socket
    this.#events = events
    socket.once(readyEvent, () => {
      if (this.#isClosed) return
      this.hasConnected = true
      events.onConnected()
    })
    socket.on('data', this.#onData)
    socket.on('end', this.#onEnd)
    socket.on('error', error => this.destroy(error))
    socket.on('close', () => this.destroy(cutOff()))
  }

  get isUsable(): boolean {
    return !this.#isClosed && this.#socket.writable
  }

  send(exchange: Exchange): void {
    this.#exchange = exchange
    this.#reader = new AnswerReader()
    exchange.onFailure = this.#onFailure
    this.#socket.ref()
    this.#socket.write(exchange.message)
  }

  /** An idle connection does not keep the process alive. */
  rest(): void {
    this.idleSinceMs = performance.now()
    this.#socket.unref()
  }

  destroy(error?: Error): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#socket.destroy()
    this.#exchange?.fail(error ?? cutOff())
    this.#events.onClosed(this.hasConnected ? undefined : error)
  }

  /** After a timeout or abort, a late response must not count as the response to the next request. */
  readonly #onFailure = (): void => this.destroy()

  readonly #onData = (bytes: Buffer): void => {
    const exchange = this.#exchange
    const reader = this.#reader
    try {
      if (!exchange || !reader) throw new NotHttp('a response without a request')
      const answer = reader.push(bytes)
      if (answer === undefined) {
        if (reader.hasHead) exchange.notePart()
        return
      }
      this.#exchange = undefined
      this.#reader = undefined
      exchange.succeed(answer)
      if (answer.isReusable) this.#events.onFree()
      else this.destroy()
    } catch (error) {
      this.destroy(error as Error)
    }
  }

  readonly #onEnd = (): void => {
    const answer = this.#reader?.end()
    if (answer !== undefined) this.#exchange?.succeed(answer)
    this.destroy()
  }
}

function cutOff(): Error {
  return Object.assign(new Error('the connection ended before the response'), {code: 'ECONNRESET'})
}

export class Exchange {
  readonly answer: Promise<HttpAnswer>
  sentAtMs: number | undefined
  isSettled = false
  onFailure: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #timeout: readonly [ms: number, what: string] | undefined
  #resolve!: (answer: HttpAnswer) => void
  #reject!: (error: unknown) => void

  constructor(
    readonly message: string,
    /** Monotonic clock. Bounds the whole exchange, even if a peer keeps sending single bytes. */
    readonly deadlineMs: number,
  ) {
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  succeed(answer: HttpAnswer): void {
    if (this.isSettled) return
    this.#settle()
    this.#resolve(answer)
  }

  fail(error: unknown): void {
    if (this.isSettled) return
    this.#settle()
    this.#reject(error)
    this.onFailure?.()
  }

  failAfter(ms: number, what: string): void {
    clearTimeout(this.#timer)
    this.#timeout = [ms, what]
    const leftMs = Math.min(ms, Math.ceil(this.deadlineMs - performance.now()))
    const giveUp = () => this.fail(new TimeoutError(`${what} in time`))
    if (leftMs <= 0) giveUp()
    else this.#timer = setTimeout(giveUp, leftMs)
  }

  notePart(): void {
    if (this.#timeout && !this.isSettled) this.failAfter(...this.#timeout)
  }

  #settle(): void {
    this.isSettled = true
    clearTimeout(this.#timer)
  }
}

/** Header names are in lower case. */
export interface HttpAnswer {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly body: Buffer
  readonly isReusable: boolean
}

export class NotHttp extends Error {
  readonly code = 'ERR_NOT_HTTP'
}

interface Head {
  readonly status: number
  readonly headers: Map<string, string>
  /** Undefined: until the connection ends. */
  readonly length: number | 'chunked' | undefined
  readonly keepsAlive: boolean
}

const HEAD_END = '\r\n\r\n'
const LARGEST_HEAD = 65_536
const LARGEST_CHUNK_LINE = 1024
// DynamoDB responds with at most 16 MB of items; as JSON they are a few times as long.
const LARGEST_BODY = 64 * 1024 * 1024
const NOTHING = Buffer.alloc(0)

/** Strict: ambiguous or invalid input is an error, and after anything unusual the connection is not reused. */
export class AnswerReader {
  #rest: Buffer = NOTHING
  #head: Head | undefined
  #parts: Buffer[] = []
  #size = 0
  /** Missing bytes of the current chunk; -1: a size line is next, -2: the trailer. */
  #chunkLeft = -1

  get hasHead(): boolean {
    return this.#head !== undefined
  }

  push(bytes: Buffer): HttpAnswer | undefined {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    while (this.#head === undefined) {
      const end = this.#rest.indexOf(HEAD_END)
      if (end > LARGEST_HEAD || (end < 0 && this.#rest.length > LARGEST_HEAD)) throw new NotHttp('the head has no end')
      if (end < 0) {
        if (!startsLikeHttp(this.#rest)) throw new NotHttp('not an HTTP response')
        return undefined
      }
      const head = parseHead(this.#rest.toString('latin1', 0, end))
      this.#rest = this.#rest.subarray(end + HEAD_END.length)
      // 1xx responses precede the final one.
      if (head.status >= 200) this.#head = head
    }
    const {length} = this.#head
    if (typeof length === 'number' && length > LARGEST_BODY) throw new NotHttp('the response is too long')
    return length === 'chunked' ? this.#readChunks(this.#head) : this.#readLength(this.#head, length)
  }

  /** Returns the response if the end of the connection marks its end. */
  end(): HttpAnswer | undefined {
    const head = this.#head
    return head !== undefined && head.length === undefined ? this.#answer(head, false) : undefined
  }

  #readLength(head: Head, length: number | undefined): HttpAnswer | undefined {
    if (length !== undefined && this.#size + this.#rest.length >= length) {
      const last = this.#rest.subarray(0, length - this.#size)
      const isClean = this.#rest.length === last.length
      this.#keep(last)
      return this.#answer(head, isClean)
    }
    this.#keep(this.#rest)
    this.#rest = NOTHING
    return undefined
  }

  #readChunks(head: Head): HttpAnswer | undefined {
    for (;;) {
      if (this.#chunkLeft > 0) {
        const part = this.#rest.subarray(0, this.#chunkLeft)
        this.#keep(part)
        this.#rest = this.#rest.subarray(part.length)
        this.#chunkLeft -= part.length
        if (this.#chunkLeft > 0) return undefined
      }
      const line = this.#takeLine()
      if (line === undefined) return undefined
      if (this.#chunkLeft === 0) {
        if (line !== '') throw new NotHttp('a chunk is longer than announced')
        this.#chunkLeft = -1
      } else if (this.#chunkLeft === -1) {
        const size = /^([0-9a-f]{1,8})[ \t]*(;.*)?$/i.exec(line)?.[1]
        if (size === undefined) throw new NotHttp('a chunk without a size')
        this.#chunkLeft = Number.parseInt(size, 16) || -2
      } else if (line === '') return this.#answer(head, this.#rest.length === 0)
    }
  }

  #takeLine(): string | undefined {
    const end = this.#rest.indexOf('\r\n')
    if (end > LARGEST_CHUNK_LINE || (end < 0 && this.#rest.length > LARGEST_CHUNK_LINE)) {
      throw new NotHttp('a line without an end')
    }
    if (end < 0) return undefined
    const line = this.#rest.toString('latin1', 0, end)
    this.#rest = this.#rest.subarray(end + 2)
    return line
  }

  #keep(part: Buffer): void {
    this.#size += part.length
    if (this.#size > LARGEST_BODY) throw new NotHttp('the response is too long')
    if (part.length > 0) this.#parts.push(part)
  }

  #answer({status, headers, keepsAlive}: Head, isClean: boolean): HttpAnswer {
    const [first = NOTHING] = this.#parts
    const body = this.#parts.length > 1 ? Buffer.concat(this.#parts) : first
    return {status, headers, body, isReusable: keepsAlive && isClean}
  }
}

function startsLikeHttp(bytes: Buffer): boolean {
  return 'HTTP/1.'.startsWith(bytes.toString('latin1', 0, 7))
}

function parseHead(text: string): Head {
  const [first = '', ...lines] = text.split('\r\n')
  const found = /^HTTP\/1\.([01]) (\d{3})(?: |$)/.exec(first)
  const status = Number(found?.[2])
  if (found === null || status === 101) throw new NotHttp('not an HTTP response')
  const headers = new Map<string, string>()
  for (const line of lines) {
    const colon = line.indexOf(':')
    if (colon < 1 || line.startsWith(' ') || line[colon - 1] === ' ') throw new NotHttp('a header without a name')
    const name = line.slice(0, colon).toLowerCase()
    const value = line.slice(colon + 1).trim()
    const before = headers.get(name)
    headers.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  const keepsAlive = found[1] === '1' && !/\bclose\b/i.test(headers.get('connection') ?? '')
  return {status, headers, length: lengthOf(status, headers), keepsAlive}
}

/** Accepts only an unambiguous length, against response splitting. */
function lengthOf(status: number, headers: ReadonlyMap<string, string>): Head['length'] {
  const coding = headers.get('transfer-encoding')
  const length = headers.get('content-length')
  if (coding !== undefined) {
    if (coding.toLowerCase() !== 'chunked' || length !== undefined) throw new NotHttp('a response of unclear length')
    return 'chunked'
  }
  if (status < 200 || status === 204 || status === 304) return 0
  if (length === undefined) return undefined
  if (!/^\d{1,12}$/.test(length)) throw new NotHttp('a response of unclear length')
  return Number(length)
}
