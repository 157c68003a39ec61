import type {Socket} from 'node:net'
import {AnswerReader, NotHttp} from './http-answer.js'
import type {Exchange} from './http-exchange.js'

interface ConnectionEvents {
  onConnected(): void
  onFree(): void
  /** Called once. With a reason if the connection could not be established. */
  onClosed(reason: Error | undefined): void
}

/** One request at a time, and none after anything unusual. */
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

  /** After a timeout or abort, a late response must not be taken for that of the next request. */
  readonly #onFailure = (): void => this.destroy()

  readonly #onData = (bytes: Buffer): void => {
    const exchange = this.#exchange
    const reader = this.#reader
    try {
      if (!exchange || !reader) throw new NotHttp('an answer without a request')
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
  return Object.assign(new Error('the connection ended before the answer'), {code: 'ECONNRESET'})
}
