import {createServer, request} from 'node:http'
import type {AddressInfo} from 'node:net'
import {buffer} from 'node:stream/consumers'

/** The operation of a request: `BatchWriteItem`, `Query`… */
type Operation = string

type Fate = 'answered' | 'unanswered' | 'cut'

/** A proxy to the engine that observes every request. */
export interface EngineProxy extends AsyncDisposable {
  readonly endpoint: string
}

/**
 * Passes requests on. Where `onRequest` returns "unanswered", the engine does the work and the client hears nothing;
 * where it returns "cut", the connection ends before the engine has heard anything.
 */
export async function engineProxy(
  engine: string,
  onRequest: (operation: Operation) => Fate | Promise<Fate>,
): Promise<EngineProxy> {
  const {hostname, port} = new URL(engine)
  const underway = new Set<Promise<void>>()
  const server = createServer(async (incoming, outgoing) => {
    const {method, url, headers} = incoming
    const operation = String(headers['x-amz-target']).split('.').at(-1) ?? ''
    const fate = await onRequest(operation)
    if (fate === 'cut') {
      incoming.destroy()
      return
    }
    const onward = request({hostname, port, method, path: url, headers}, answer => {
      // Reads to the end even if the client is gone.
      outgoing.once('close', () => answer.resume())
      if (fate === 'unanswered') answer.resume()
      else answer.pipe(outgoing.writeHead(answer.statusCode ?? 500, answer.headers))
    })
    underway.add(new Promise(resolve => onward.once('close', resolve)))
    onward.on('error', () => outgoing.destroy())
    buffer(incoming).then(
      body => onward.end(body),
      () => onward.destroy(),
    )
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      server.close()
      server.closeAllConnections()
      // Waits for pending requests, so that the table is stable.
      await Promise.all(underway)
    },
  }
}
