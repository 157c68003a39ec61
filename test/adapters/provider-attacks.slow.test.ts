import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {limitedModel} from '../../src/lib/adapters/ai-sdk.js'
import {patiently} from '../../src/lib/adapters/call-charge.js'
import {limitedFetch} from '../../src/lib/adapters/fetch.js'
import {type ProviderAccount, readReportedLimits, readRetryAfterMs} from '../../src/lib/adapters/provider.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, PATIENT_MS, useTable} from '../helpers/table.js'

const NOW_MS = Date.parse('2026-01-01T00:00:00Z')
const answer = (fields: Record<string, string>, status = 200) => ({status, field: (name: string) => fields[name]})

describe('odd header fields of providers', () => {
  it.each<[string, number | undefined]>([
    ['1m30s', 90_000],
    ['6ms', 6],
    ['2m59.56s', 179_560],
    ['1h0m0s', 3_600_000],
    ['0s', 0],
    ['2026-01-01T00:00:07.500Z', 7500],
    ['2026-01-01T02:00:07+02:00', 7000],
    ['2025-12-31T23:59:59Z', undefined],
    ['-5s', undefined],
    ['1d', undefined],
    ['60', undefined],
    ['1735689600', undefined],
    ['12345', undefined],
    ['NaNs', undefined],
    ['s', undefined],
    ['1s, 2s', undefined],
    ['soon 2099', undefined],
    [`${'9'.repeat(400)}s`, undefined],
  ])('reset %j is %s ms away', (reset, resetMs) => {
    const fields = {'x-ratelimit-remaining-requests': '1', 'x-ratelimit-reset-requests': reset}
    expect(readReportedLimits(answer(fields), NOW_MS).requests?.resetMs).toBe(resetMs)
  })

  it.each<[string, number | undefined]>([
    ['0', 0],
    ['0.5', 500],
    ['2, 3', undefined],
    ['12345', 12_345_000],
    ['1e3', undefined],
    ['99999999999999', undefined],
    ['Thu, 01 Jan 2099 00:00:00 GMT', Date.parse('2099-01-01') - NOW_MS],
    ['Thu, 01 Jan 2026 00:00:07 GMT, Thu, 01 Jan 2026 00:00:09 GMT', undefined],
    ['2026-13-45T99:00:00Z', undefined],
  ])('retry-after %j is %s ms away', (text, ms) => {
    expect(readRetryAfterMs(answer({'retry-after': text}), NOW_MS)).toBe(ms)
  })

  it("falls back to our clock if the provider's date is invalid", () => {
    const fields = {'retry-after': 'Thu, 01 Jan 2026 00:00:07 GMT', date: 'yesterday'}
    expect(readRetryAfterMs(answer(fields), NOW_MS)).toBe(7000)
  })
})

describeOnEngine('odd responses of a provider', () => {
  const ACCOUNT = 'provider:openai:org-1'
  const MODEL = 'gpt-4'
  const URL = 'http://provider.test/v1/chat/completions'
  const body = JSON.stringify({model: MODEL, max_tokens: 100, messages: [{role: 'user', content: 'x'.repeat(40)}]})
  const table = useTable()
  let scene: Scene
  let limiter: RateLimiter
  /** Replaces a call. */
  let send: () => Promise<Response>
  beforeEach(async () => {
    scene = new Scene(table)
    limiter = scene.limiter({sleep: async () => {}, denyCacheMs: 0})
    await scene.configure({level: 'resource', resource: MODEL}, 'rpm=100/min', 'tpm=10k/min')
    await scene.configure({level: 'entity', entity: ACCOUNT, resource: MODEL}, 'rpm=60/min', 'tpm=6k/min')
  })
  afterEach(async () => {
    vi.restoreAllMocks()
    await limiter.close()
  })

  const respond =
    (status: number, headers: Record<string, string> = {}) =>
    async () =>
      new Response(status === 200 ? '{"usage":{"prompt_tokens":11,"completion_tokens":7}}' : null, {
        status,
        headers: {'content-type': 'application/json', ...headers},
      })
  const call = (by = limiter, limits?: ProviderAccount['limits']) =>
    limitedFetch(by, {
      entity: 'user-1',
      fetch: () => send(),
      provider: {entity: ACCOUNT, ...(limits && {limits})},
    })(URL, {method: 'POST', body})
  const of = async (entity: string) => ({
    rpm: await scene.totals(entity, MODEL, 'rpm'),
    tpm: await scene.totals(entity, MODEL, 'tpm'),
  })
  const UNTOUCHED = {rpm: {tokens: 60, consumed: 0}, tpm: {tokens: 6000, consumed: 0}}
  const isAdmitted = async (by: RateLimiter, consume: Record<string, number> = {rpm: 1}) =>
    (await by.tryAcquire({entity: ACCOUNT, resource: MODEL, consume})).admitted

  it.each([
    [429, {'retry-after': '0'}],
    [429, {}],
  ])('refunds the charge at status %i with %j, and makes others wait at most a second', async (status, headers) => {
    send = respond(status, headers as Record<string, string>)
    expect((await call()).status).toBe(429)
    const {rpm, tpm} = await of(ACCOUNT)
    expect(rpm.consumed).toBe(0)
    expect(tpm).toEqual({tokens: 6000, consumed: 0})
    scene.nowMs += 1000
    expect(await isAdmitted(scene.limiter())).toBe(true)
  })

  it.each([500, 503, 529, 400, 302, 304])(
    'refunds the charge at status %i, and ignores its retry-after',
    async status => {
      send = respond(status, {'retry-after': '30'})
      const response = await call()
      expect(response.status).toBe(status)
      expect(await of(ACCOUNT)).toEqual(UNTOUCHED)
      expect(await of('user-1')).toMatchObject({rpm: {consumed: 0}, tpm: {consumed: 0}})
    },
  )

  it("changes no capacity and raises no balance if the provider's limit is far above or below ours", async () => {
    send = respond(200, {'x-ratelimit-limit-requests': '1000000', 'x-ratelimit-remaining-requests': '999999'})
    await (await call()).text()
    expect((await of(ACCOUNT)).rpm).toEqual({tokens: 59, consumed: 1})
    send = respond(200, {'x-ratelimit-limit-requests': '3', 'x-ratelimit-remaining-requests': '2'})
    await (await call()).text()
    expect((await of(ACCOUNT)).rpm).toEqual({tokens: 2, consumed: 2})
    scene.nowMs += 60_000
    expect(await scene.limiter().available({entity: ACCOUNT, resource: MODEL})).toMatchObject({rpm: 60})
  })

  it('ignores limits that only the provider has, or that have other names here', async () => {
    send = respond(200, {
      'anthropic-ratelimit-input-tokens-remaining': '0',
      'anthropic-ratelimit-output-tokens-remaining': '0',
      'x-ratelimit-remaining-requests': '1',
    })
    await (await call(limiter, {requests: 'other', tokens: 'tpm'})).text()
    expect(await of(ACCOUNT)).toEqual({rpm: {tokens: 60, consumed: 0}, tpm: {tokens: 5982, consumed: 18}})
  })

  it('keeps the refill since a slow response was sent', async () => {
    const now = performance.now.bind(performance)
    let laterMs = 0
    vi.spyOn(performance, 'now').mockImplementation(() => now() + laterMs)
    const slowly = (ms: number, headers: Record<string, string>) => async () => {
      laterMs += ms
      scene.nowMs += ms
      return respond(200, headers)()
    }
    await limiter.acquire({entity: ACCOUNT, resource: MODEL, consume: {rpm: 20}})
    send = slowly(15_000, {'x-ratelimit-remaining-requests': '10'})
    await (await call()).text()
    // 10 were left when it was sent, and 15 were refilled since.
    expect((await of(ACCOUNT)).rpm.tokens).toBe(25)
    send = slowly(60_000, {'x-ratelimit-remaining-requests': '0'})
    await (await call()).text()
    expect(await scene.limiter().available({entity: ACCOUNT, resource: MODEL})).toMatchObject({rpm: 60})
  })

  it('lets nobody take the refund of a refused call', async () => {
    await limiter.acquire({entity: ACCOUNT, resource: MODEL, consume: {rpm: 59}})
    const other = scene.limiter({denyCacheMs: 0, sleep: async () => {}})
    const taken: boolean[] = []
    const transport: Transport = {
      send: async (operation, input, options) => {
        const isFirst = taken.length === 0
        const answered = await scene.table.transport.send(operation, input, options)
        // After the provider's response, a rival follows each write and would take the refund.
        if (operation === 'UpdateItem' && hasAnswered && (isFirst || !taken.includes(true)))
          taken.push(await isAdmitted(other))
        return answered
      },
    }
    let hasAnswered = false
    send = async () => {
      hasAnswered = true
      return respond(429, {'retry-after': '3'})()
    }
    const mine = scene.limiter({transport, sleep: async () => {}})
    expect((await call(mine)).status).toBe(429)
    expect(taken.length).toBeGreaterThanOrEqual(2)
    expect(taken).not.toContain(true)
    await mine.close()
    await other.close()
  })

  it('refunds many calls refused at once, and clears them together at the reported instant', async () => {
    const limiters = Array.from({length: 6}, () => scene.limiter({denyCacheMs: 0, sleep: async () => {}}))
    const reports = limiters.map(each => vi.spyOn(each, 'reportProviderLimits'))
    send = respond(429, {'retry-after': '40'})
    const responses = await Promise.all(limiters.map(each => call(each)))
    // A response waits for the table for a second only; on a busy machine the writes take longer.
    // The feedback of the first calls can refuse the last ones before they are sent; these report nothing.
    const sent = reports.filter(({mock}) => mock.calls.length > 0)
    const isReported = () => sent.every(({mock}) => mock.settledResults[1]?.type === 'fulfilled')
    await vi.waitUntil(isReported, {timeout: PATIENT_MS})
    expect(responses.map(({status}) => status)).toEqual(limiters.map(() => 429))
    expect(await of(ACCOUNT)).toMatchObject({rpm: {consumed: 0}, tpm: {tokens: 6000, consumed: 0}})
    // Some real time passes between the response and the last feedback.
    scene.nowMs += 30_000
    expect(await isAdmitted(scene.limiter())).toBe(false)
    scene.nowMs += 10_000
    expect(await isAdmitted(scene.limiter())).toBe(true)
    await Promise.all(limiters.map(each => each.close()))
  })

  it('stops calls of the refused size and refunds the request when tokens are refused', async () => {
    send = respond(429, {
      'retry-after': '2',
      'x-ratelimit-remaining-requests': '50',
      'x-ratelimit-remaining-tokens': '5',
    })
    await call()
    const {rpm} = await of(ACCOUNT)
    expect(rpm).toEqual({tokens: 50, consumed: 0})
    scene.nowMs += 1999
    // 100 per second: more than the refill in the real time between response and feedback.
    expect(await isAdmitted(scene.limiter(), {tpm: 300})).toBe(false)
    scene.nowMs += 1
    expect(await isAdmitted(scene.limiter(), {tpm: 110})).toBe(true)
  })

  it('fails before sending if an entity has no limits, and refunds the caller', async () => {
    let sent = 0
    const unknown = limitedFetch(limiter, {
      entity: 'user-1',
      fetch: async () => {
        sent++
        return new Response()
      },
      provider: {entity: 'provider:nobody', resource: 'nothing'},
    })
    await expect(unknown(URL, {method: 'POST', body})).rejects.toMatchObject({code: 'limits.missing'})
    expect(sent).toBe(0)
    expect(await of('user-1')).toMatchObject({rpm: {consumed: 0}, tpm: {consumed: 0}})
  })

  it('does not wait for a table that never responds', async () => {
    await patiently(new Promise(() => {}))
  })

  describe('a table outage', () => {
    /** Never responds, or fails, once the call was sent. */
    const outages: Record<string, () => Promise<never>> = {
      'does not answer': () => new Promise<never>(() => {}),
      fails: () => Promise.reject(new Error('no table')),
    }
    let isOut = false
    let broken: RateLimiter
    const start = (outage: () => Promise<never>) => {
      isOut = false
      const transport: Transport = {
        send: (operation, input, options) => (isOut ? outage() : scene.table.transport.send(operation, input, options)),
      }
      broken = scene.limiter({transport, sleep: async () => {}})
      vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    }
    const out = <T>(result: () => Promise<T>) => {
      isOut = true
      return result()
    }

    it.each(Object.keys(outages))("delivers the provider's response when the table %s", async how => {
      for (const status of [200, 429, 500]) {
        start(outages[how] as () => Promise<never>)
        send = () => out(respond(status, {'retry-after': '3', 'x-ratelimit-remaining-requests': '0'}))
        expect((await call(broken)).status).toBe(status)
      }
    })

    it.each(Object.keys(outages))("delivers the provider's error when the table %s", async how => {
      start(outages[how] as () => Promise<never>)
      const error = new Error('connection lost')
      send = () => out(() => Promise.reject(error))
      await expect(call(broken)).rejects.toBe(error)
      start(outages[how] as () => Promise<never>)
      const {wrapGenerate} = limitedModel(broken, {entity: 'user-1', provider: {entity: ACCOUNT}})
      const refusal = Object.assign(new Error('no'), {statusCode: 429, responseHeaders: {'retry-after': '2'}})
      const model = {modelId: MODEL, provider: 'test'}
      const doGenerate = () => out(() => Promise.reject(refusal))
      await expect(wrapGenerate({model, params: {prompt: 'x'}, doGenerate})).rejects.toBe(refusal)
    })
  })

  it('delivers the response when the limiter is closed during a call', async () => {
    vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const closing = scene.limiter({sleep: async () => {}})
    send = async () => {
      await closing.close()
      return respond(429, {'retry-after': '3'})()
    }
    expect((await call(closing)).status).toBe(429)
  })

  it('keeps the estimate of a stream that the caller leaves midway', async () => {
    send = async () => {
      const stream = new ReadableStream<Uint8Array>({
        pull: controller => controller.enqueue(new TextEncoder().encode('data: {"choices":[]}\n\n')),
      })
      const headers = {'content-type': 'text/event-stream', 'x-ratelimit-remaining-requests': '7'}
      return new Response(stream, {headers})
    }
    const response = await call()
    expect((await of(ACCOUNT)).rpm).toEqual({tokens: 7, consumed: 1})
    const reader = response.body?.getReader()
    await reader?.read()
    await reader?.cancel()
    const {rpm, tpm} = await of(ACCOUNT)
    expect(rpm).toEqual({tokens: 7, consumed: 1})
    expect(tpm.consumed).toBeGreaterThan(0)
  })
})
