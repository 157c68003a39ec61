import {createServer, type Server} from 'node:http'
import type {AddressInfo} from 'node:net'
import {serve} from '@hono/node-server'
import express, {type ErrorRequestHandler} from 'express'
import fastify, {type FastifyRequest} from 'fastify'
import {Hono} from 'hono'
import {expressLimiter, leaseOf as leaseOfNode} from '../../src/lib/adapters/express.js'
import {fastifyLimiter, leaseOf as leaseOfFastify} from '../../src/lib/adapters/fastify.js'
import type {GuardLimiter, GuardOptions} from '../../src/lib/adapters/guard.js'
import {honoLimiter, leaseOf as leaseOfHono} from '../../src/lib/adapters/hono.js'
import type {Lease} from '../../src/lib/limiter/lease.js'

/** How a test limits requests: the header `x-user` names the entity by default. */
export type TestOptions = Omit<GuardOptions<unknown>, 'entity' | 'skip'> & {
  readonly limiter: GuardLimiter
  readonly skipPath?: string
  /** The entity by the header `x-user`. */
  readonly entityOf?: (user: string | undefined) => string
  /** Sees the errors that reach the error handler. */
  readonly onError?: (error: unknown) => void
}

const entityBy =
  ({entityOf = (user: string | undefined) => user ?? 'nobody'}: TestOptions) =>
  (user: string | string[] | undefined) =>
    entityOf(user === undefined ? undefined : String(user))

function failed(error: unknown, {onError}: TestOptions): string {
  onError?.(error)
  return codeOf(error)
}

/** The application's handler: responds with a status, or throws. */
export type TestHandler = (path: string, lease: Lease | undefined) => Promise<{status: number; body: string}>

export interface TestServer {
  readonly url: string
  close(): Promise<void>
}

/** Real frameworks on a local port. Their error handlers respond with 500 and the error code. */
export const SERVERS: Readonly<Record<string, (options: TestOptions, handler: TestHandler) => Promise<TestServer>>> = {
  hono: async (options, handler) => {
    const app = new Hono()
    // Without type arguments: Hono infers the type of `c`.
    app.use(
      honoLimiter(options.limiter, {
        ...options,
        entity: c => entityBy(options)(c.req.header('x-user')),
        skip: c => new URL(c.req.raw.url).pathname === options.skipPath,
      }),
    )
    app.get('*', async c => {
      const {status, body} = await handler(c.req.path, leaseOfHono(c))
      return new Response(body, {status})
    })
    app.onError((error, c) => c.text(failed(error, options), 500))
    const server = await new Promise<Server>(resolve => {
      const started = serve({fetch: app.fetch, port: 0, hostname: '127.0.0.1'}, () => resolve(started as Server))
    })
    return running(server)
  },

  express: async (options, handler) => {
    const app = express()
    app.use(
      expressLimiter<express.Request>(options.limiter, {
        ...options,
        entity: request => entityBy(options)(request.get('x-user')),
        skip: request => request.path === options.skipPath,
      }),
    )
    app.get('/{*path}', async (request, response) => {
      const {status, body} = await handler(request.path, leaseOfNode(request))
      response.status(status).send(body)
    })
    const onError: ErrorRequestHandler = (error, _request, response, _next) => {
      response.status(500).send(failed(error, options))
    }
    app.use(onError)
    return listening(createServer(app))
  },

  'node:http': async (options, handler) => {
    const limit = expressLimiter(options.limiter, {
      ...options,
      entity: request => entityBy(options)(request.headers['x-user']),
      skip: request => request.url === options.skipPath,
    })
    return listening(
      createServer(async (request, response) => {
        await limit(request, response, async error => {
          try {
            if (error) throw error
            const {status, body} = await handler(request.url ?? '', leaseOfNode(request))
            response.writeHead(status).end(body)
          } catch (failure) {
            response.writeHead(500).end(failed(failure, options))
          }
        })
      }),
    )
  },

  fastify: async (options, handler) => {
    const app = fastify({forceCloseConnections: true})
    app.addHook(
      'onRequest',
      fastifyLimiter<FastifyRequest>(options.limiter, {
        ...options,
        entity: request => entityBy(options)(request.headers['x-user']),
        skip: request => request.url === options.skipPath,
      }),
    )
    app.get('*', async (request, reply) => {
      const {status, body} = await handler(request.url, leaseOfFastify(request))
      return reply.code(status).send(body)
    })
    app.setErrorHandler((error, _request, reply) => reply.code(500).send(failed(error, options)))
    const url = await app.listen({port: 0, host: '127.0.0.1'})
    return {url, close: () => app.close()}
  },
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unexpected'
}

async function listening(server: Server): Promise<TestServer> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return running(server)
}

function running(server: Server): TestServer {
  const {port} = server.address() as AddressInfo
  const close = () =>
    new Promise<void>(resolve => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  return {url: `http://127.0.0.1:${port}`, close}
}
