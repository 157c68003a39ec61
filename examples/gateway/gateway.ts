import {Hono} from 'hono'
import {proxy} from 'hono/proxy'
import type {RateLimiter} from 'zael'
import {hashKey, limitedFetch} from 'zael/fetch'
import {honoLimiter} from 'zael/hono'
import type {PriceTable} from 'zael/prices'

export interface GatewayOptions {
  readonly limiter: RateLimiter
  /** Where the provider listens, such as `https://api.openai.com`. */
  readonly provider: string
  /** Prices of all models, such as `(await loadPrices('prices.json')).models`. */
  readonly prices: PriceTable
  /** Models in order of preference: if a call of one is refused, the next one is tried. */
  readonly fallback: readonly string[]
}

/**
 * A gateway in front of a provider of models. Each API key has limits of requests per minute (`rpm`) and in flight
 * (`parallel`). For each model it has limits of requests, tokens and dollars per day, and its team shares a budget (`usd`).
 */
export function createGateway({limiter, provider, prices, fallback}: GatewayOptions): Hono {
  const modelFetch = limitedFetch(limiter, {
    // Keys are neither stored nor logged. An unknown key has no team: only the limits of the model apply to it.
    entity: ({headers}) => hashKey(headers.get('x-api-key')),
    limits: {requests: 'rpd', tokens: 'tpd', cost: 'usd'},
    price: prices,
    fallback,
    // If the reader leaves a stream, the adapter reads on until `usage`, so the charge is exact.
    drain: true,
    // Refused calls get OpenAI's header fields, for the limits of the model. The IETF fields report the gateway's limit.
    headers: 'openai',
    onSettled: ({model, error}) => {
      if (error) console.error(`A call of ${model} stays charged as estimated`, error)
    },
  })

  const app = new Hono()
  app.use(
    honoLimiter(limiter, {
      entity: c => hashKey(c.req.header('x-api-key')),
      resource: 'gateway',
      consume: {rpm: 1},
    }),
  )
  // JSON and streams pass. Reserved tokens and dollars are settled when the response ends. `proxy` removes the field
  // content-encoding, because fetch has decoded the response.
  app.post('/v1/*', async c =>
    proxy(`${provider}${c.req.path}`, {
      customFetch: modelFetch,
      method: 'POST',
      headers: {'content-type': 'application/json', 'x-api-key': c.req.header('x-api-key') ?? ''},
      body: await c.req.text(),
      signal: c.req.raw.signal,
    }),
  )
  return app
}
