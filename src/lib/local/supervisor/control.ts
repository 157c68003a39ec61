import {once} from 'node:events'
import {createServer, get} from 'node:http'
import type {AddressInfo} from 'node:net'
import type {AggregatorStatus} from './aggregator.js'

/** What a supervisor knows of itself at this moment. */
export interface LiveStatus {
  readonly startToken: string
  readonly uptimeMs: number
  readonly enginePid: number
  /** How often the engine died and was started again. */
  readonly engineRestarts: number
  /** `null`: the stack runs without. */
  readonly aggregator: AggregatorStatus | null
}

/** The port on which a supervisor tells its status. */
export interface ControlServer {
  readonly port: number
  close(): Promise<void>
}

const ANSWER_TIMEOUT_MS = 2_000

/** Tells the status to whoever asks on this machine; there is nothing to be changed through it. */
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
    const answer = JSON.parse(await getText(port)) as LiveStatus | null
    return answer?.startToken === startToken ? answer : undefined
  } catch {
    return undefined // nobody there, or a stranger who speaks otherwise
  }
}

function getText(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = {host: '127.0.0.1', port, agent: false, signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS)}
    get(options, response => {
      let text = ''
      response.setEncoding('utf8').on('data', chunk => {
        text += chunk
      })
      response.on('end', () => resolve(text)).on('error', reject)
    }).on('error', reject)
  })
}
