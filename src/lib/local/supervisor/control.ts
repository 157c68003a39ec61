import {once} from 'node:events'
import {createServer, get} from 'node:http'
import type {AddressInfo} from 'node:net'
import type {z} from 'zod'
import type {liveStatusSchema} from './control-schema.js'

/** What a supervisor knows about itself at this moment. */
export type LiveStatus = Readonly<z.infer<typeof liveStatusSchema>>

export type AggregatorStatus = NonNullable<LiveStatus['aggregator']>

/** The port on which a supervisor serves its status. */
export interface ControlServer {
  readonly port: number
  close(): Promise<void>
}

const RESPONSE_TIMEOUT_MS = 2_000

/** Serves the status to any process on this machine; it is read-only. */
export async function serveStatus(status: () => LiveStatus): Promise<ControlServer> {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json').setHeader('connection', 'close')
    response.end(JSON.stringify(status()))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}

/** The live status, if the supervisor with this token answers on that port. */
export async function fetchStatus(port: number, startToken: string): Promise<LiveStatus | undefined> {
  try {
    const [text, {liveStatusSchema}] = await Promise.all([getText(port), import('./control-schema.js')])
    const {data} = liveStatusSchema.safeParse(JSON.parse(text))
    return data?.startToken === startToken ? data : undefined
  } catch {
    return undefined // nothing listens there, or it is another program
  }
}

function getText(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = {host: '127.0.0.1', port, agent: false, signal: AbortSignal.timeout(RESPONSE_TIMEOUT_MS)}
    get(options, response => {
      let text = ''
      response.setEncoding('utf8').on('data', chunk => {
        text += chunk
      })
      response.on('end', () => resolve(text)).on('error', reject)
    }).on('error', reject)
  })
}
