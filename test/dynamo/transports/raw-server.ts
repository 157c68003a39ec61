import {type AddressInfo, createServer, type Socket} from 'node:net'

/** A server below HTTP: it reads and sends bytes, for faults that no HTTP server makes. */
export class RawServer {
  readonly sockets = new Set<Socket>()
  /** Completely received requests, over all connections. */
  requests: string[] = []
  connections = 0
  endpoint = ''
  /** Handles a request. */
  onRequest: (socket: Socket, request: string) => void = () => {}
  onConnection: (socket: Socket) => void = () => {}
  #closed: (() => void)[] = []

  readonly #server = createServer(socket => {
    this.connections++
    this.sockets.add(socket)
    let text = ''
    socket.on('error', () => {})
    socket.on('close', () => {
      this.sockets.delete(socket)
      for (const notify of this.#closed.splice(0)) notify()
    })
    socket.on('data', bytes => {
      text += bytes.toString('latin1')
      const head = text.indexOf('\r\n\r\n')
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1])
      if (head < 0 || text.length < head + 4 + length) return
      const request = text
      text = ''
      this.requests.push(request)
      this.onRequest(socket, request)
    })
    this.onConnection(socket)
  })

  async start(): Promise<void> {
    await new Promise<void>(resolve => this.#server.listen(0, '127.0.0.1', resolve))
    this.endpoint = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Restarts counting, with this behaviour. */
  play(onRequest: (socket: Socket, request: string) => void): void {
    this.onRequest = onRequest
    this.onConnection = () => {}
    this.requests = []
    this.connections = 0
  }

  /** Resolves when at most this many connections are open. */
  async untilOpen(count: number): Promise<void> {
    while (this.sockets.size > count) await new Promise<void>(resolve => this.#closed.push(resolve))
  }

  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy()
    await new Promise(resolve => this.#server.close(resolve))
  }
}

/** A whole response as bytes. */
export function httpText(body: string, {status = '200 OK', headers = [] as string[]} = {}): string {
  const lines = [`HTTP/1.1 ${status}`, `content-length: ${Buffer.byteLength(body)}`, ...headers]
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}
