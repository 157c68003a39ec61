import {createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'
import {resolveConnection} from '../../../src/lib/dynamo/connection.js'
import type {ClosableTransport} from '../../../src/lib/dynamo/transport.js'
import {createTransport} from '../../../src/lib/dynamo/transports/create.js'
import {createSdkTransport, type SdkTransportOptions} from '../../../src/lib/dynamo/transports/sdk.js'

/** Handles one request after its body has arrived. */
export type Act = (request: IncomingMessage, response: ServerResponse) => void

/** A response like DynamoDB's; errors name their type in the body. */
export function answer(status: number, body: object | string, headers: Record<string, string> = {}): Act {
  return (_, response) => {
    response.writeHead(status, {'content-type': 'application/x-amz-json-1.0', ...headers})
    response.end(typeof body === 'string' ? body : JSON.stringify(body))
  }
}

/** A refusal by the service. */
export function refusal(type: string, extra: object = {}, status = 400): Act {
  return answer(status, {__type: `com.amazonaws.dynamodb.v20120810#${type}`, message: `said ${type}`, ...extra})
}

/** A real HTTP server on loopback that follows a script; the last act repeats. */
export class ScriptedServer {
  script: Act[] = []
  requests: {operation: string; headers: IncomingHttpHeaders; body: Record<string, unknown>}[] = []
  endpoint = ''
  // It never closes idle connections.
  readonly #server = createServer({keepAliveTimeout: 0}, (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', chunk => chunks.push(chunk))
    request.on('end', () => {
      const operation = String(request.headers['x-amz-target']).replace(/^.*\./, '')
      this.requests.push({operation, headers: request.headers, body: JSON.parse(Buffer.concat(chunks).toString())})
      const act = this.script.length > 1 ? this.script.shift() : this.script[0]
      act?.(request, response)
    })
  })

  async start(): Promise<void> {
    await new Promise<void>(resolve => this.#server.listen(0, '127.0.0.1', resolve))
    this.endpoint = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  play(...script: Act[]): void {
    this.script = script
    this.requests = []
  }

  /** The n-th request's body. */
  body(n: number): Record<string, unknown> | undefined {
    return this.requests[n]?.body
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }
}

/** The default transport, and the SDK's as its reference. */
export const TRANSPORTS = [
  {kind: 'lean', create: createTransport},
  {kind: 'SDK', create: createSdkTransport},
] as const

type Settings = Omit<Extract<SdkTransportOptions, {connection: unknown}>, 'connection'>

/** A transport to a local endpoint that ignores this machine's AWS settings. */
export function localTransport(
  endpointUrl: string,
  options: Partial<Settings> = {},
  create: (options: SdkTransportOptions) => ClosableTransport = createTransport,
): ClosableTransport {
  return create({connection: resolveConnection({endpointUrl}, {}), clock: Date.now, ...options})
}
