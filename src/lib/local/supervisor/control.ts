import {createHmac, randomUUID, timingSafeEqual} from 'node:crypto'
import {once} from 'node:events'
import {createServer, get} from 'node:http'
import type {AddressInfo} from 'node:net'
import type {z} from 'zod'
import type {liveStatusSchema} from '../state-dir/schemas.js'

export type LiveStatus = Readonly<z.infer<typeof liveStatusSchema>>

export type AggregatorStatus = NonNullable<LiveStatus['aggregator']>

export interface ControlServer {
  readonly port: number
  close(): Promise<void>
}

const RESPONSE_TIMEOUT_MS = 2_000

/** Far more than a status needs: another program on the port may send anything. */
const MAX_ANSWER_LENGTH = 64 * 1024

const PROOF_HEADER = 'x-zael-proof'

/** Every local process can connect, so neither side sends the token: both prove it with the client's nonce. */
export async function serveStatus(startToken: string, status: () => LiveStatus): Promise<ControlServer> {
  const server = createServer((request, response) => {
    response.setHeader('connection', 'close')
    const nonce = provenNonce(request.headers.authorization ?? '', startToken)
    if (nonce === undefined) {
      response.writeHead(404).end()
      return
    }
    const body = JSON.stringify(status())
    response.setHeader('content-type', 'application/json').setHeader(PROOF_HEADER, proofOf(startToken, nonce, body))
    response.end(body)
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

export async function fetchStatus(port: number, startToken: string): Promise<LiveStatus | undefined> {
  const nonce = randomUUID()
  try {
    const [{body, proof}, {liveStatusSchema}] = await Promise.all([
      ask(port, `zael ${nonce} ${proofOf(startToken, nonce)}`),
      import('../state-dir/schemas.js'),
    ])
    return isSame(proof, proofOf(startToken, nonce, body)) ? liveStatusSchema.parse(JSON.parse(body)) : undefined
  } catch {
    return undefined // nothing listens there, or it is another program
  }
}

function proofOf(startToken: string, nonce: string, body?: string): string {
  return createHmac('sha256', startToken)
    .update(JSON.stringify(body === undefined ? ['request', nonce] : ['answer', nonce, body]))
    .digest('hex')
}

function provenNonce(authorization: string, startToken: string): string | undefined {
  const [, nonce, proof] = /^zael ([\w-]{16,64}) ([0-9a-f]{64})$/.exec(authorization) ?? []
  return nonce !== undefined && isSame(proof ?? '', proofOf(startToken, nonce)) ? nonce : undefined
}

/** In constant time. */
function isSame(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b))
}

function ask(port: number, authorization: string): Promise<{body: string; proof: string}> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS)
    const call = get({host: '127.0.0.1', port, agent: false, signal, headers: {authorization}}, response => {
      let body = ''
      response.setEncoding('utf8').on('data', chunk => {
        body += chunk
        if (body.length > MAX_ANSWER_LENGTH) call.destroy(new Error('the answer is too long'))
      })
      const proof = String(response.headers[PROOF_HEADER] ?? '')
      response.on('end', () => resolve({body, proof})).on('error', reject)
    }).on('error', reject)
  })
}
