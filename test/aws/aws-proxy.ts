import {createServer, type IncomingMessage, request} from 'node:http'
import type {AddressInfo} from 'node:net'
import {buffer, text} from 'node:stream/consumers'

/** One request to AWS, as far as tests care. */
export interface AwsRequest {
  /** `DescribeStacks`, `PutItem`; for Lambda and S3 the method and the path. */
  readonly operation: string
  /** By the name in the signature: `cloudformation`, `monitoring`. */
  readonly service: string
  readonly region: string
  readonly body: string
}

/** What becomes of a request: another body on the way there, another answer on the way back, or no word to moto at all. */
export interface Meddling {
  readonly request?: (body: string) => string
  readonly answer?: (body: string) => string
  readonly instead?: {readonly status: number; readonly body: string}
  /** What the answer says of the time. */
  readonly date?: Date
  /** Nobody answers at all. */
  readonly hangUp?: true
}

/** A way to moto with somebody on it who changes single calls. */
export interface AwsProxy extends AsyncDisposable {
  readonly endpoint: string
  /** Operations seen since the last call. */
  takeOperations(): string[]
}

/** Passes everything on but what `meddle` wants otherwise. */
export async function awsProxy(
  moto: string,
  meddle: (request: AwsRequest) => Meddling | undefined = () => undefined,
): Promise<AwsProxy> {
  const {hostname, port} = new URL(moto)
  const seen: string[] = []
  const server = createServer(async (incoming, outgoing) => {
    const bytes = await buffer(incoming)
    const operation = operationOf(incoming, bytes)
    seen.push(operation)
    const meddling = meddle({operation, ...scopeOf(incoming), body: bytes.toString()}) ?? {}
    if (meddling.hangUp) return void outgoing.destroy()
    if (meddling.instead) {
      outgoing.writeHead(meddling.instead.status, {'content-type': contentTypeOf(meddling.instead.body)})
      return void outgoing.end(meddling.instead.body)
    }
    const sent = meddling.request ? Buffer.from(meddling.request(bytes.toString())) : bytes
    const {'transfer-encoding': _, ...headers} = incoming.headers
    const options = {hostname, port, method: incoming.method, path: incoming.url}
    const onward = request({...options, headers: {...headers, 'content-length': sent.length}}, async answer => {
      if (meddling.date) answer.headers.date = meddling.date.toUTCString()
      if (!meddling.answer) return void answer.pipe(outgoing.writeHead(answer.statusCode ?? 500, answer.headers))
      const changed = meddling.answer(await text(answer))
      const {'content-length': __, 'x-amz-crc32': ___, ...kept} = answer.headers
      outgoing.writeHead(answer.statusCode ?? 500, kept)
      outgoing.end(changed)
    })
    onward.on('error', () => outgoing.destroy())
    onward.end(sent)
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

/** A refusal as services with XML answers word it. */
export function xmlRefusal(code: string, message: string, status = 400): Meddling {
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
