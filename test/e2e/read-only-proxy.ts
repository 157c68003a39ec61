import {createServer, request} from 'node:http'
import type {AddressInfo} from 'node:net'
import {isRead, type Operation} from '../../src/lib/dynamo/transport.js'

/** A way to the engine on which nothing can be written. */
export interface ReadOnlyProxy extends AsyncDisposable {
  readonly endpoint: string
  /** Operations that were let through since the last call. */
  takeReads(): string[]
  /** Operations that were refused since the last call. */
  takeWrites(): string[]
}

/** Forwards and records reads; records writes and answers them with AccessDenied. */
export async function readOnlyProxy(engine: string): Promise<ReadOnlyProxy> {
  const {hostname, port} = new URL(engine)
  const reads: string[] = []
  const writes: string[] = []
  const server = createServer((incoming, outgoing) => {
    const {method, url, headers} = incoming
    const operation = String(headers['x-amz-target']).split('.').at(-1) ?? ''
    // Without a target it is a question for another service, such as CloudFormation, which no engine answers.
    if (headers['x-amz-target'] !== undefined && !isRead(operation as Operation)) {
      writes.push(operation)
      incoming.resume()
      outgoing.writeHead(400, {'content-type': 'application/x-amz-json-1.0'})
      outgoing.end(JSON.stringify({__type: 'com.amazon.coral.service#AccessDeniedException', Message: 'read only'}))
      return
    }
    reads.push(operation)
    const onward = request({hostname, port, method, path: url, headers}, answer => {
      outgoing.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(outgoing)
    })
    onward.on('error', () => outgoing.destroy())
    incoming.pipe(onward)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    takeReads: () => reads.splice(0),
    takeWrites: () => writes.splice(0),
    [Symbol.asyncDispose]: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
