import {Agent, createServer, request} from 'node:http'
import type {AddressInfo} from 'node:net'
import {buffer, text} from 'node:stream/consumers'
import {CapacityMeter} from '../src/lib/dynamo/capacity.js'
import {capacityOf, isDataOperation, type Operation} from '../src/lib/dynamo/transport.js'

/** Counts the requests of all processes to an engine. */
export interface CountingProxy extends AsyncDisposable {
  readonly endpoint: string
  readonly meter: CapacityMeter
}

/** Forwards requests, asks for their consumed capacity, and adds it up. */
export async function countingProxy(engine: string): Promise<CountingProxy> {
  const meter = new CapacityMeter()
  const {hostname, port} = new URL(engine)
  const agent = new Agent({keepAlive: true})
  const server = createServer(async (incoming, outgoing) => {
    const operation = String(incoming.headers['x-amz-target']).split('.').at(-1) as Operation
    const sent = await text(incoming)
    const isData = isDataOperation(operation)
    const body = isData ? JSON.stringify({...JSON.parse(sent), ReturnConsumedCapacity: 'INDEXES'}) : sent
    // Engines require a signature but do not verify it.
    const headers = {...incoming.headers, 'content-length': Buffer.byteLength(body)}
    const onward = request({hostname, port, agent, method: 'POST', path: '/', headers}, async answer => {
      const bytes = await buffer(answer)
      const capacity = isData ? capacityOf(JSON.parse(bytes.toString())) : []
      meter.observe({operation, capacity})
      const {'x-amz-crc32': _, ...answered} = answer.headers
      outgoing.writeHead(answer.statusCode ?? 500, answered).end(bytes)
    })
    onward.on('error', () => outgoing.destroy())
    onward.end(body)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    meter,
    [Symbol.asyncDispose]: async () => {
      server.close()
      server.closeAllConnections()
      agent.destroy()
    },
  }
}
