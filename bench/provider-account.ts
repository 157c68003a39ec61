import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'

export const ACCOUNT = 'provider:bench:org-1'
export const MODEL = 'gpt-4'

export interface AccountCount {
  readonly served: number
  readonly refused: number
  /** Requests from outside zael on the same account. */
  readonly outside: number
  /** Burst plus refill of the account. */
  readonly allowed: number
}

export interface ProviderAccount {
  readonly url: string
  /** Fills the account and counts from zero; `outsideShare` of it is used outside zael from now on. */
  start(outsideShare: number): void
  stop(): AccountCount
  close(): Promise<void>
}

/**
 * Starts a provider with a token bucket of requests. Each response has OpenAI's fields; a refusal has `retry-after` in whole
 * seconds, as in the HTTP standard.
 */
export async function openAccount(perMinute: number, burst: number): Promise<ProviderAccount> {
  const perMs = perMinute / 60_000
  let [tokens, refilledMs, startedMs] = [burst, 0, 0]
  let [served, refused, outside] = [0, 0, 0]
  let timer: NodeJS.Timeout | undefined
  const take = (): boolean => {
    const nowMs = performance.now()
    tokens = Math.min(burst, tokens + (nowMs - refilledMs) * perMs)
    refilledMs = nowMs
    if (tokens < 1) return false
    tokens--
    return true
  }
  const server = createServer((request, response) => {
    request.resume()
    const isServed = take()
    if (isServed) served++
    else refused++
    response.writeHead(isServed ? 200 : 429, {
      'content-type': 'application/json',
      'x-ratelimit-limit-requests': String(burst),
      'x-ratelimit-remaining-requests': String(Math.floor(tokens)),
      'x-ratelimit-reset-requests': `${Math.ceil((burst - tokens) / perMs)}ms`,
      ...(!isServed && {'retry-after': String(Math.ceil((1 - tokens) / perMs / 1000))}),
    })
    response.end('{"usage":{"prompt_tokens":1,"completion_tokens":1}}')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/chat/completions`,
    start: outsideShare => {
      startedMs = refilledMs = performance.now()
      tokens = burst
      served = refused = outside = 0
      if (outsideShare === 0) return
      timer = setInterval(() => take() && outside++, 1 / (perMs * outsideShare))
    },
    stop: () => {
      clearInterval(timer)
      return {served, refused, outside, allowed: burst + (performance.now() - startedMs) * perMs}
    },
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
