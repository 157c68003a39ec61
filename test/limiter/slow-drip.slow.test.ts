import {createServer, type IncomingMessage, type Server, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'
import {afterAll, beforeAll, beforeEach, expect, inject, it} from 'vitest'
import {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {Namespaces} from '../../src/lib/repository/namespaces/namespaces.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'

/** Passes requests on to the engine; dripping responses get a byte now and then, endlessly. */
class DrippingProxy {
  readonly dripped: string[] = []
  /** Operations whose next request drips. */
  readonly toDrip = new Set<string>()
  endpoint = ''
  readonly #server: Server

  constructor(engine: string) {
    this.#server = createServer((request, response) => void this.#answer(engine, request, response))
  }

  async start(): Promise<void> {
    await new Promise<void>(resolve => this.#server.listen(0, '127.0.0.1', resolve))
    this.endpoint = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }

  async #answer(engine: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const target = String(request.headers['x-amz-target'])
    if (this.toDrip.delete(target.replace(/^.*\./, ''))) {
      this.dripped.push(target)
      response.writeHead(200, {'content-length': '1000000'})
      const drip = setInterval(() => response.write(' '), 50)
      request.socket.on('close', () => clearInterval(drip))
      return
    }
    const headers = {'x-amz-target': target, 'content-type': 'application/x-amz-json-1.0'}
    const signed = {
      ...headers,
      authorization: String(request.headers.authorization),
      'x-amz-date': String(request.headers['x-amz-date']),
    }
    const answer = await fetch(engine, {method: 'POST', headers: signed, body: Buffer.concat(chunks)})
    response.writeHead(answer.status, {'content-type': 'application/x-amz-json-1.0'})
    response.end(Buffer.from(await answer.arrayBuffer()))
  }
}

describeOnEngine('L5 a response that drips endlessly', () => {
  const table = useTable()
  let proxy: DrippingProxy

  beforeAll(async () => {
    proxy = new DrippingProxy(inject('engineEndpoint'))
    await proxy.start()
  })
  afterAll(() => proxy.stop())
  beforeEach(() => {
    proxy.dripped.length = 0
  })

  it.each(['GetItem', 'BatchGetItem', 'UpdateItem'])(
    'ends in a decision at the first %s, later requests are decided, and close() returns',
    async operation => {
      const scene = new Scene(table)
      const name = `drip-${operation}`
      const {namespace} = await new Namespaces(scene.tenant).register(name)
      Object.assign(scene, {namespace: namespace.id})
      await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min')
      proxy.toDrip.add(operation)
      const limiter = new RateLimiter({stack: table.name, namespace: name, endpoint: proxy.endpoint, timeoutMs: 300})
      const request = {entity: 'user-1', resource: 'gpt-4', consume: {rpm: 1}}
      const attempt = () =>
        limiter.acquire(request).then(
          () => 'admitted',
          error => error.code,
        )
      await expect.poll(attempt, {timeout: 60_000}).toBe('admitted')
      expect(proxy.dripped).toHaveLength(1)
      await limiter.close()
    },
  )
})
