import {Hono} from 'hono'
import type {RateLimiter} from 'zael'
import {limitedFetch} from 'zael/fetch'
import {honoLimiter} from 'zael/hono'

export interface GatewayOptions {
  readonly limiter: RateLimiter
  /** Where the provider listens, such as `https://api.openai.com`. */
  readonly provider: string
}

/**
 * A gateway in front of a provider of models. Each API key has a limit of requests to the gateway (`rpm`), and for each
 * model one of requests and tokens per day (`rpd`, `tpd`).
 */
export function createGateway({limiter, provider}: GatewayOptions): Hono {
  const modelFetch = limitedFetch(limiter, {
    entity: ({headers}) => headers.get('x-api-key') ?? 'nobody',
    // The fields that clients of OpenAI know; those of the IETF draft are about the requests to the gateway.
    headers: 'openai',
    limits: {requests: 'rpd', tokens: 'tpd'},
  })

  const app = new Hono()
  app.use(
    honoLimiter(limiter, {
      entity: c => c.req.header('x-api-key') ?? 'nobody',
      resource: 'gateway',
      consume: {rpm: 1},
    }),
  )
  // JSON and streams pass as they come. The tokens that were reserved are corrected when the answer has ended.
  app.post('/v1/*', async c =>
    modelFetch(`${provider}${c.req.path}`, {
      method: 'POST',
      headers: {'content-type': 'application/json', 'x-api-key': c.req.header('x-api-key') ?? 'nobody'},
      body: await c.req.text(),
      signal: c.req.raw.signal,
    }),
  )
  return app
}
