import {afterEach, beforeEach, describe, expect, it} from 'vitest'
import type {CallOptions, SettledCall} from '../../src/lib/adapters/fetch.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {AcquireRequest} from '../../src/lib/limiter/request/options.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {CALLERS, MAX_OUTPUT, MAXIMUM} from './billed-calls.js'
import {type BillingProvider, PRICE, startBillingProvider, TOKEN, WHOLE} from './billing-provider.js'
import {chargedTo, configureBilled, expectBilled} from './expect-billed.js'

describeOnBoth('calls and the bill of the provider', {}, table => {
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
    await configureBilled(scene)
  })
  afterEach(async () => {
    await limiter.close()
    await provider.close()
  })

  async function expectSettled(calls: number, over = 0): Promise<void> {
    await expect.poll(() => settled.length).toBe(calls)
    await expectBilled(scene, provider, calls, over)
    if (calls === 1) expect(settled[0]?.charged.tpm).toBe((await chargedTo(scene)).tokens)
  }

  describe.each(Object.entries(CALLERS))('of %s', (name, ask) => {
    it.each([
      ['JSON', false, 'complete', 0],
      ['a stream', true, 'complete', 0],
      ['JSON without usage', false, 'silent', MAXIMUM - WHOLE],
      ['a stream without usage', true, 'silent', MAXIMUM - WHOLE],
    ] as const)('are charged as billed after %s', async (_, isStream, ending, over) => {
      await ask(limiter, options, {url: provider.url, ending, isStream})
      await expectSettled(1, over)
    })

    it.each([
      ['JSON', false, 'complete', 0],
      ['a stream', true, 'complete', 0],
      ['JSON without usage', false, 'silent', MAX_OUTPUT - WHOLE],
      ['a stream without usage', true, 'silent', MAX_OUTPUT - WHOLE],
    ] as const)('are charged as billed after %s, if they set no maximum', async (_, isStream, ending, over) => {
      await ask(limiter, options, {url: provider.url, ending, isStream, isUnbounded: true})
      await expectSettled(1, over)
    })

    it.runIf(name !== 'the AI SDK').each([
      ['exactly', 'own', 0, 1],
      ['at most the maximum', 'old', MAXIMUM - WHOLE, 3],
    ] as const)(
      'are charged %s if the provider rejects stream_options, and not asked again if that is needless',
      async (_, ending, over, rejected) => {
        const call = {url: provider.url, ending, isStream: true} as const
        const texts: string[] = []
        for (let at = 0; at < 3; at++) await ask(limiter, options, {...call, onText: text => texts.push(text)})
        expect(texts.join('')).toContain(TOKEN)
        await expectSettled(3, over)
        expect(provider.rejected).toBe(rejected)
      },
    )

    it.each([
      ['JSON', false, undefined],
      ['a stream', true, undefined],
      ['a stream, because another connection failed', true, Object.assign(new Error('other'), {code: 'ECONNREFUSED'})],
    ] as const)(
      'are charged at most the maximum if the caller aborts %s before the head',
      async (_, isStream, reason) => {
        const leaving = new AbortController()
        const call = ask(limiter, options, {url: provider.url, ending: 'no-head', isStream, signal: leaving.signal})
        const failed = call.catch(() => {})
        await expect.poll(() => provider.bills[0]?.output ?? 0).toBeGreaterThan(2)
        leaving.abort(reason)
        await failed
        await expectSettled(1, MAXIMUM)
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
      await expectSettled(1, over)
      if (drain) expect(provider.bills[0]?.output).toBe(WHOLE)
    })

    it('are charged nothing if the provider responds with an error', async () => {
      await ask(limiter, options, {url: provider.url, ending: 'error', isStream: false}).catch(() => {})
      await expect.poll(() => settled).toMatchObject([{charged: {}, usage: undefined}])
      expect(await chargedTo(scene)).toEqual({requests: 0, tokens: 0, cost: 0})
      expect(provider.tokens).toBe(0)
    })

    it.each([
      ['exactly if an error reports usage', false, 'billed-error', 0],
      ['exactly if an error of a stream reports usage', true, 'billed-error', 0],
      ['at most the maximum if a content filter stops them', false, 'filtered', MAXIMUM],
    ] as const)('are charged %s', async (_, isStream, ending, over) => {
      await ask(limiter, options, {url: provider.url, ending, isStream}).catch(() => {})
      await expectSettled(1, over)
    })

    it('are charged at most the maximum if the provider fails after the head', async () => {
      await ask(limiter, options, {url: provider.url, ending: 'error-event', isStream: true}).catch(() => {})
      await expectSettled(1, MAXIMUM)
    })

    it('are charged at most the maximum if the connection breaks after the head', async () => {
      const {url} = provider
      const call = ask(limiter, options, {url, ending: 'half', isStream: true}).catch(() => {})
      await expect.poll(() => provider.bills[0]?.output).toBe(WHOLE / 2)
      const bill = provider
      await provider.close()
      await call
      provider = bill
      await expectSettled(1, MAXIMUM)
    })

    it.each([false, true])(
      'are charged nothing if no connection is made, port blocked by fetch: %s',
      async isBlocked => {
        const {url} = provider
        await provider.close()
        const call = {url: isBlocked ? 'http://127.0.0.1:6000' : url, ending: 'complete', isStream: false} as const
        await ask(limiter, options, call).catch(() => {})
        expect(await chargedTo(scene)).toEqual({requests: 0, tokens: 0, cost: 0})
        expect(provider.tokens).toBe(0)
      },
    )

    it('are charged nothing if the caller aborts before they are sent', async () => {
      const leaving = new AbortController()
      const aborting = {
        tryAcquire: (request: AcquireRequest) => limiter.tryAcquire(request).finally(() => leaving.abort()),
      }
      const call = {url: provider.url, ending: 'complete', isStream: true, signal: leaving.signal} as const
      await ask(aborting, options, call).catch(() => {})
      // The refund may follow the rejection.
      await expect.poll(() => chargedTo(scene)).toEqual({requests: 0, tokens: 0, cost: 0})
      expect(provider.tokens).toBe(0)
    })

    it('are charged exactly if many end at once', async () => {
      const url = provider.url
      const calls = Array.from({length: 40}, (_, at) =>
        ask(limiter, options, {url, ending: 'complete', isStream: at % 2 > 0}),
      )
      await Promise.all(calls)
      await expectSettled(40)
    })

    it.runIf(name === 'the OpenAI SDK')('are charged for each attempt that times out', async () => {
      const call = {url: provider.url, ending: 'no-head', isStream: false, timeout: 300, maxRetries: 2} as const
      await expect(ask(limiter, options, call)).rejects.toThrow('timed out')
      expect(provider.bills).toHaveLength(3)
      await expectSettled(3, MAXIMUM)
    })
  })
})
