import {once} from 'node:events'
import {setTimeout as sleep} from 'node:timers/promises'
import {limitedFetch} from '../src/lib/adapters/fetch.js'
import {RateLimiter} from '../src/lib/limiter/rate-limiter.js'
import {ACCOUNT, MODEL} from './provider-account.js'

export type Way = 'no provider option' | 'no feedback' | 'feedback'

/** The first message prepares, the second begins, the third ends the row. */
export type CallerMessage = CallerTask | 'go' | 'stop'

export interface CallerTask {
  readonly way: Way
  readonly endpoint: string
  readonly stack: string
  readonly namespaceId: string
  readonly url: string
}

/** In ms. */
const WAIT_MS = 30_000

const BODY = JSON.stringify({model: MODEL, max_tokens: 1, messages: [{role: 'user', content: 'hi'}]})

async function next(): Promise<CallerMessage> {
  const [message] = await once(process, 'message')
  return message as CallerMessage
}

/** Calls again after each response; after a refusal it waits `retry-after`, as SDKs of providers do. */
async function row({way, url, endpoint, stack, namespaceId}: CallerTask): Promise<void> {
  // Few cores for many processes: a late response is not an error.
  const limiter = new RateLimiter({stack, namespaceId, endpoint, timeoutMs: WAIT_MS})
  const entity = `caller-${process.pid}`
  const provider = {entity: ACCOUNT, limits: {requests: 'rpm', tokens: 'tpm'}}
  const call = limitedFetch(way === 'feedback' ? limiter : {tryAcquire: request => limiter.tryAcquire(request)}, {
    entity,
    waitMs: WAIT_MS,
    ...(way !== 'no provider option' && {provider}),
  })
  // Opens sockets and loads lazy modules before counting starts.
  await limiter.acquire({entity, resource: MODEL, consume: {rpm: 1}})
  process.send?.('ready')
  await next()
  const stop = new AbortController()
  const stopped = next().then(() => stop.abort())
  while (!stop.signal.aborted) {
    try {
      const response = await call(url, {method: 'POST', body: BODY, signal: stop.signal})
      await response.text()
      const seconds = Number(response.headers.get('retry-after') ?? 0)
      if (!response.ok) await sleep(seconds * 1000, undefined, {signal: stop.signal})
    } catch (error) {
      if (!stop.signal.aborted) throw error
    }
  }
  await stopped
  await limiter.close()
  process.send?.('done')
}

// Exits with its parent, however that ends.
process.on('disconnect', () => process.exit())
for (;;) await row((await next()) as CallerTask)
