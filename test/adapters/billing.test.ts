import OpenAI from 'openai'
import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import {limitedModel} from '../../src/lib/adapters/ai-sdk.js'
import {type CallOptions, limitedFetch, type SettledCall} from '../../src/lib/adapters/fetch.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {
  type BillingProvider,
  PRICE,
  type ProviderEnding,
  startBillingProvider,
  TOKEN,
  WHOLE,
} from './billing-provider.js'
import {SDKS, testModel} from './sdks.js'

const INPUT = 20
/** More than the provider generates: the bound of the charge. */
const MAXIMUM = 60
const MESSAGES = [{role: 'user' as const, content: TOKEN.repeat(INPUT)}]

interface Call {
  readonly url: string
  readonly ending: ProviderEnding
  readonly isStream: boolean
  readonly signal?: AbortSignal
  /** Milliseconds per attempt, and attempts after the first. */
  readonly timeout?: number
  readonly maxRetries?: number
  readonly onText?: (text: string) => void
}

type Caller = (limiter: RateLimiter, options: CallOptions<unknown>, call: Call) => Promise<void>

/** Each sends one call and reads its response to the end, or until it fails. */
const CALLERS: Readonly<Record<string, Caller>> = {
  fetch: async (limiter, options, {url, ending, isStream, signal, onText}) => {
    const send = limitedFetch(limiter, options)
    const body = JSON.stringify({model: 'gpt-4', stream: isStream, max_tokens: MAXIMUM, messages: MESSAGES})
    const headers = {'x-ending': ending}
    const response = await send(`${url}/v1/chat/completions`, {method: 'POST', body, headers, ...(signal && {signal})})
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) onText?.(decoder.decode(chunk, {stream: true}))
  },
  'the OpenAI SDK': async (limiter, options, {url, ending, isStream, signal, timeout, maxRetries = 0, onText}) => {
    const client = new OpenAI({
      apiKey: 'none',
      baseURL: `${url}/v1`,
      fetch: limitedFetch(limiter, options),
      maxRetries,
      ...(timeout && {timeout}),
    })
    const rules = {headers: {'x-ending': ending}, ...(signal && {signal})}
    const body = {model: 'gpt-4', max_tokens: MAXIMUM, messages: MESSAGES}
    if (!isStream) await client.chat.completions.create(body, rules)
    else
      for await (const {choices} of await client.chat.completions.create({...body, stream: true}, rules))
        onText?.(choices[0]?.delta.content ?? '')
  },
  'the AI SDK': async (limiter, options, {url, ending, isStream, signal, onText}) => {
    const sdk = SDKS['ai 7'] as (typeof SDKS)[string]
    const model = testModel(sdk.specification, url, {'x-ending': ending}, {messages: MESSAGES, max_tokens: MAXIMUM})
    const middleware = limitedModel(limiter, options)
    const call = {
      model,
      middleware,
      prompt: TOKEN.repeat(INPUT),
      maxOutputTokens: MAXIMUM,
      ...(signal && {abortSignal: signal}),
    }
    if (!isStream) await sdk.generate(call)
    else for await (const part of sdk.stream(call)) if (part.type === 'text-delta') onText?.(part.text ?? '')
  },
}

describeOnEngine('calls and the bill of the provider', () => {
  const table = useTable()
  let provider: BillingProvider
  let scene: Scene
  let limiter: RateLimiter
  let settled: SettledCall[]
  let options: CallOptions<unknown>
  beforeEach(async () => {
    provider = await startBillingProvider()
    scene = new Scene(table)
    limiter = scene.limiter({sleep: async () => {}})
    settled = []
    options = {entity: 'user-1', price: {'gpt-4': PRICE}, onSettled: call => settled.push(call)}
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=1k/min', 'tpm=1M/min', 'usd=$100/month@UTC')
  })
  afterEach(async () => {
    await limiter.close()
    await provider.close()
  })

  const consumed = async (name: string) => (await scene.totals('user-1', 'gpt-4', name))?.consumed ?? 0

  /** The charge equals the bill, or exceeds it by at most `over` tokens of output for each call. */
  async function expectBilled(calls: number, over = 0): Promise<void> {
    await expect.poll(() => settled.length).toBe(calls)
    const [requests, tokens, cost] = (await Promise.all(['rpm', 'tpm', 'usd'].map(consumed))) as [
      number,
      number,
      number,
    ]
    const {tokens: billed, cost: price} = provider
    expect({requests, isLess: tokens < billed || cost < price}).toEqual({requests: calls, isLess: false})
    expect(tokens - billed).toBeLessThanOrEqual(calls * over)
    // The estimate assumes that input is written to a cache, which costs more.
    const dearer = over === 0 ? 0 : INPUT * (PRICE.cacheWrite - PRICE.input)
    expect(cost - price).toBeLessThanOrEqual(calls * (over * PRICE.output + dearer))
    expect(settled.at(-1)?.charged.tpm).toBe(calls === 1 ? tokens : settled.at(-1)?.charged.tpm)
  }

  describe.each(Object.entries(CALLERS))('of %s', (name, ask) => {
    it.each([
      ['JSON', false, 'complete', 0],
      ['a stream', true, 'complete', 0],
      ['JSON without usage', false, 'silent', MAXIMUM - WHOLE],
      ['a stream without usage', true, 'silent', MAXIMUM - WHOLE],
    ] as const)('are charged as billed after %s', async (_, isStream, ending, over) => {
      await ask(limiter, options, {url: provider.url, ending, isStream})
      await expectBilled(1, over)
    })

    it.each([false, true])(
      'are charged at most the maximum if the caller aborts before the head, stream: %s',
      async isStream => {
        const leaving = new AbortController()
        const call = ask(limiter, options, {url: provider.url, ending: 'no-head', isStream, signal: leaving.signal})
        const failed = call.catch(() => {})
        await expect.poll(() => provider.bills[0]?.output ?? 0).toBeGreaterThan(2)
        leaving.abort()
        await failed
        await expectBilled(1, MAXIMUM)
      },
    )

    it.each([
      ['at most the maximum', false, MAXIMUM],
      ['exactly with drain', true, 0],
    ] as const)('are charged %s if the caller aborts midway', async (_, drain, over) => {
      const leaving = new AbortController()
      options = {...options, drain}
      const call = ask(limiter, options, {
        url: provider.url,
        ending: 'complete',
        isStream: true,
        signal: leaving.signal,
        onText: () => leaving.abort(),
      })
      await call.catch(() => {})
      await expectBilled(1, over)
      if (drain) expect(provider.bills[0]?.output).toBe(WHOLE)
    })

    it('are charged nothing if the provider responds with an error', async () => {
      await ask(limiter, options, {url: provider.url, ending: 'error', isStream: false}).catch(() => {})
      await expect.poll(() => settled).toMatchObject([{charged: {}, usage: undefined}])
      expect([provider.tokens, await consumed('tpm'), await consumed('usd')]).toEqual([0, 0, 0])
    })

    it('are charged at most the maximum if the provider fails after the head', async () => {
      await ask(limiter, options, {url: provider.url, ending: 'error-event', isStream: true}).catch(() => {})
      await expectBilled(1, MAXIMUM)
    })

    it('are charged at most the maximum if the connection breaks after the head', async () => {
      const {url} = provider
      const call = ask(limiter, options, {url, ending: 'half', isStream: true}).catch(() => {})
      await expect.poll(() => provider.bills[0]?.output).toBe(WHOLE / 2)
      const bill = provider
      await provider.close()
      await call
      provider = bill
      await expectBilled(1, MAXIMUM)
    })

    it('are charged nothing if no connection is made', async () => {
      const {url} = provider
      await provider.close()
      await ask(limiter, options, {url, ending: 'complete', isStream: false}).catch(() => {})
      expect([provider.tokens, await consumed('tpm'), await consumed('usd')]).toEqual([0, 0, 0])
    })

    it('are charged exactly if many end at once', async () => {
      const url = provider.url
      const calls = Array.from({length: 40}, (_, at) =>
        ask(limiter, options, {url, ending: 'complete', isStream: at % 2 > 0}),
      )
      await Promise.all(calls)
      await expectBilled(40)
    })

    it.runIf(name === 'the OpenAI SDK')('are charged for each attempt that times out', async () => {
      const call = {url: provider.url, ending: 'no-head', isStream: false, timeout: 300, maxRetries: 2} as const
      await expect(ask(limiter, options, call)).rejects.toThrow('timed out')
      expect(provider.bills).toHaveLength(3)
      await expectBilled(3, MAXIMUM)
    })
  })
})
