import {once} from 'node:events'
import {createServer, get} from 'node:http'
import type {AddressInfo} from 'node:net'

/** What the aggregator of a local stack has done since it started, and how far behind it is. */
export interface AggregatorStatus {
  readonly records: number
  readonly batches: number
  readonly snapshots: number
  readonly refills: number
  readonly splits: number
  readonly archived: number
  readonly errors: number
  readonly lastError: string | null
  /** Age of the last record processed; 0 when no record is waiting. */
  readonly lagMs: number
  /** Records in the table's stream; `null` until the first count, and while records wait to be read. */
  readonly streamLength: number | null
}

/** What a supervisor knows about itself at this moment. */
export interface LiveStatus {
  readonly startToken: string
  readonly uptimeMs: number
  readonly enginePid: number
  /** How often the engine crashed and was restarted. */
  readonly engineRestarts: number
  /** `null`: the stack runs without. */
  readonly aggregator: AggregatorStatus | null
}

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
    const status = JSON.parse(await getText(port)) as LiveStatus | null
    return status?.startToken === startToken ? status : undefined
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
