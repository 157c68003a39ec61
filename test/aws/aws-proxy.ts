import {createServer, type IncomingMessage, request} from 'node:http'
import type {AddressInfo} from 'node:net'
import {buffer, text} from 'node:stream/consumers'

/** One request to AWS, as far as tests need it. */
export interface AwsRequest {
  /** `DescribeStacks`, `PutItem`; for Lambda and S3 the method and the path. */
  readonly operation: string
  /** The service name in the signature: `cloudformation`, `monitoring`. */
  readonly service: string
  readonly region: string
  readonly body: string
}

/** The changes of the proxy to a request: its body, the response, or both without a call of moto. */
export interface Intervention {
  readonly request?: (body: string) => string
  readonly response?: (body: string) => string
  readonly instead?: {readonly status: number; readonly body: string}
  /** The date header of the response. */
  readonly date?: Date
  /** Gives no response; moto gets the request with `forward` only. `onHeld` is called when nothing more happens. */
  readonly hold?: {readonly forward: boolean; readonly onHeld: () => void}
  /** Forwards the request only when this is settled. */
  readonly after?: Promise<unknown>
  /** Closes the connection without a response. */
  readonly hangUp?: true
}

/** A proxy in front of moto that changes single calls. */
export interface AwsProxy extends AsyncDisposable {
  readonly endpoint: string
  /** Operations seen since the last call. */
  takeOperations(): string[]
}

/** Forwards all requests that `intervene` does not change. */
export async function awsProxy(
  moto: string,
  intervene: (request: AwsRequest) => Intervention | undefined = () => undefined,
): Promise<AwsProxy> {
  const {hostname, port} = new URL(moto)
  const seen: string[] = []
  const server = createServer(async (incoming, outgoing) => {
    const bytes = await buffer(incoming)
    const operation = operationOf(incoming, bytes)
    seen.push(operation)
    const intervention = intervene({operation, ...scopeOf(incoming), body: bytes.toString()}) ?? {}
    if (intervention.hangUp) return void outgoing.destroy()
    if (intervention.hold?.forward === false) return intervention.hold.onHeld()
    if (intervention.instead) {
      outgoing.writeHead(intervention.instead.status, {'content-type': contentTypeOf(intervention.instead.body)})
      return void outgoing.end(intervention.instead.body)
    }
    await intervention.after
    const body = intervention.request ? Buffer.from(intervention.request(bytes.toString())) : bytes
    const {'transfer-encoding': _, ...headers} = incoming.headers
    const options = {hostname, port, method: incoming.method, path: incoming.url}
    const forwarded = request({...options, headers: {...headers, 'content-length': body.length}}, async response => {
      if (intervention.hold) {
        await buffer(response)
        return intervention.hold.onHeld()
      }
      if (intervention.date) response.headers.date = intervention.date.toUTCString()
      if (!intervention.response)
        return void response.pipe(outgoing.writeHead(response.statusCode ?? 500, response.headers))
      const changed = intervention.response(await text(response))
      const {'content-length': __, 'x-amz-crc32': ___, ...kept} = response.headers
      outgoing.writeHead(response.statusCode ?? 500, kept)
      outgoing.end(changed)
    })
    forwarded.on('error', () => outgoing.destroy())
    forwarded.end(body)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    takeOperations: () => seen.splice(0),
    [Symbol.asyncDispose]: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** An error response of a service with an XML protocol. */
export function xmlRefusal(code: string, message: string, status = 400): Intervention {
  const body = `<ErrorResponse><Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error></ErrorResponse>`
  return {instead: {status, body}}
}

function operationOf({headers, method, url}: IncomingMessage, body: Buffer): string {
  const target = headers['x-amz-target']
  if (typeof target === 'string') return target.split('.').at(-1) ?? ''
  const isForm = headers['content-type']?.startsWith('application/x-www-form-urlencoded')
  return (isForm && new URLSearchParams(body.toString()).get('Action')) || `${method} ${url}`
}

/** Credential=KEY/DAY/REGION/SERVICE/aws4_request */
function scopeOf({headers}: IncomingMessage): {region: string; service: string} {
  const [, region = '', service = ''] =
    /Credential=[^/]+\/\d+\/([^/]+)\/([^/]+)\//.exec(headers.authorization ?? '') ?? []
  return {region, service}
}

function contentTypeOf(body: string): string {
  return body.startsWith('<') ? 'text/xml' : 'application/x-amz-json-1.1'
}
