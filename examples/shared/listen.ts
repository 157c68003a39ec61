import type {Server} from 'node:http'
import type {AddressInfo} from 'node:net'

/** A server on a free port of the loopback interface. */
export interface HttpServer {
  readonly url: string
  close(): Promise<void>
}

export async function listen(server: Server): Promise<HttpServer> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const close = () =>
    new Promise<void>(resolve => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  return {url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close}
}
