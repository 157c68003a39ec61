import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi} from 'vitest'
import {limitedModel} from '../../src/lib/adapters/ai-sdk.js'
import {limitedFetch} from '../../src/lib/adapters/fetch.js'
import {readReportedLimits, readRetryAfterMs} from '../../src/lib/adapters/provider.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {Buckets} from '../../src/lib/repository/buckets/buckets.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'

const NOW_MS = Date.parse('2026-01-01T00:00:00Z')
const answer = (fields: Record<string, string>, status = 200) => ({status, field: (name: string) => fields[name]})

describe('header fields of providers', () => {
  it('reads the fields of OpenAI', () => {
    const fields = {
      'x-ratelimit-limit-requests': '600',
      'x-ratelimit-remaining-requests': '12',
      'x-ratelimit-reset-requests': '6m0s',
      'x-ratelimit-remaining-tokens': '0',
      'x-ratelimit-reset-tokens': '20ms',
    }
    expect(readReportedLimits(answer(fields), NOW_MS)).toEqual({
      requests: {left: 12, limit: 600, resetMs: 360_000},
      tokens: {left: 0, limit: undefined, resetMs: 20},
    })
  })

  it("reads the fields of Anthropic, by the provider's clock", () => {
    const fields = {
      date: 'Thu, 01 Jan 2026 01:00:00 GMT',
      'anthropic-ratelimit-requests-remaining': '3',
      'anthropic-ratelimit-requests-reset': '2026-01-01T01:00:05Z',
      'anthropic-ratelimit-input-tokens-remaining': '39000',
      'anthropic-ratelimit-output-tokens-remaining': '8000',
    }
    expect(readReportedLimits(answer(fields), NOW_MS)).toMatchObject({
      requests: {left: 3, resetMs: 5000},
      input: {left: 39_000},
      output: {left: 8000},
    })
  })

  it.each(['-1', 'NaN', '', '1e99', '12.5', '9'.repeat(40), 'Infinity', '0x10'])(
    'ignores the invalid value %j',
    text => {
      expect(readReportedLimits(answer({'x-ratelimit-remaining-requests': text}), NOW_MS)).toEqual({})
    },
  )

  it.each<[Record<string, string>, number | undefined]>([
    [{'retry-after': '2'}, 2000],
    [{'retry-after': '2', 'retry-after-ms': '150'}, 150],
    [{'retry-after': 'Thu, 01 Jan 2026 00:00:07 GMT'}, 7000],
    [{'retry-after': 'Thu, 01 Jan 2026 01:00:07 GMT', date: 'Thu, 01 Jan 2026 01:00:00 GMT'}, 7000],
    [{'retry-after': 'Thu, 01 Jan 2015 00:00:07 GMT'}, undefined],
    [{'retry-after': '-5'}, undefined],
    [{'retry-after': 'soon'}, undefined],
    [{}, undefined],
  ])('%j means %s ms', (fields, expected) => {
    expect(readRetryAfterMs(answer(fields), NOW_MS)).toBe(expected)
  })
})

describeOnEngine('a provider account shared by all callers', () => {
  const ACCOUNT = 'provider:openai:org-1'
  const table = useTable()
  let scene: Scene
  let limiter: RateLimiter
  let reply: {status: number; headers?: Record<string, string>} = {status: 200}
  let received = 0
  const server = createServer((_, response) => {
    received++
    response.writeHead(reply.status, {'content-type': 'application/json', ...reply.headers})
    response.end(JSON.stringify(reply.status === 200 ? {usage: {prompt_tokens: 11, completion_tokens: 7}} : {}))
  })
  let url = ''
  beforeAll(async () => {
    await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/chat/completions`
  })
  afterAll(
    () =>
      new Promise(resolve => {
        server.close(resolve)
        server.closeAllConnections()
      }),
  )
  beforeEach(async () => {
    scene = new Scene(table)
    limiter = scene.limiter({sleep: async () => {}})
    reply = {status: 200}
    received = 0
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'tpm=10k/min')
    await scene.configure({level: 'entity', entity: ACCOUNT, resource: 'gpt-4'}, 'rpm=60/min', 'tpm=6k/min')
    await scene.configure({level: 'entity', entity: ACCOUNT, resource: 'models'}, 'rpm=60/min')
  })
  afterEach(() => limiter.close())

  const body = JSON.stringify({model: 'gpt-4', max_tokens: 100, messages: [{role: 'user', content: 'x'.repeat(40)}]})
  const call = async (entity = 'user-1') => {
    const send = limitedFetch(limiter, {entity, provider: {entity: ACCOUNT}})
    const response = await send(url, {method: 'POST', body})
    return {status: response.status, body: await response.json()}
  }
  const of = async (entity: string) => ({
    rpm: await scene.totals(entity, 'gpt-4', 'rpm'),
    tpm: await scene.totals(entity, 'gpt-4', 'tpm'),
  })

  it('charges and settles the account beside the caller', async () => {
    expect((await call()).status).toBe(200)
    expect(await of('user-1')).toMatchObject({rpm: {consumed: 1}, tpm: {consumed: 18}})
    expect(await of(ACCOUNT)).toEqual({rpm: {tokens: 59, consumed: 1}, tpm: {tokens: 5982, consumed: 18}})
  })

  it('refuses for all callers, and refunds them', async () => {
    await limiter.acquire({entity: ACCOUNT, resource: 'gpt-4', consume: {rpm: 60}})
    const refused = await call()
    expect(refused).toMatchObject({status: 429, body: {'limited-by': 'provider', 'violated-policies': ['rpm']}})
    expect(received).toBe(0)
    expect(await of('user-1')).toEqual({rpm: {tokens: 100, consumed: 0}, tpm: {tokens: 10_000, consumed: 0}})
  })

  it('counts a refusal by the account for the caller too, with the write of the refund', async () => {
    await limiter.acquire({entity: ACCOUNT, resource: 'models', consume: {rpm: 60}})
    const send = limitedFetch(limiter, {entity: 'user-1', provider: {entity: ACCOUNT, resource: 'models'}})
    const refuse = () => send(url, {method: 'POST', body})
    await refuse()
    scene.calls.length = 0
    expect((await refuse()).status).toBe(429)
    expect(scene.calls).toHaveLength(2)
    await limiter.close()
    const counts = async (entity: string, resource: string) =>
      (await new Buckets(scene.tenant).find(entity, resource))?.shards[0]?.counts
    const accounts = new Map([[`${ACCOUNT}#models`, 2]])
    expect(await counts('user-1', 'gpt-4')).toMatchObject({requests: 0, refused: 0, refusedByParent: 2, accounts})
    expect(await counts(ACCOUNT, 'models')).toMatchObject({requests: 1, refused: 2, refusedByParent: 0})
  })

  it('lowers the balance if a response reports less, and makes no call otherwise', async () => {
    reply = {status: 200, headers: {'x-ratelimit-remaining-requests': '7', 'x-ratelimit-remaining-tokens': '6000'}}
    await call()
    expect((await of(ACCOUNT)).rpm).toEqual({tokens: 7, consumed: 1})
    reply = {status: 200, headers: {'x-ratelimit-remaining-requests': '6', 'x-ratelimit-remaining-tokens': '6000'}}
    scene.calls.length = 0
    await call()
    expect(scene.calls.filter(name => name === 'BatchGetItem')).toHaveLength(0)
  })

  it('refuses calls of every process until the instant reported by a 429', async () => {
    // The adapter subtracts the time since the response; the scene's clock stands still meanwhile.
    const frozen = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
    onTestFinished(() => frozen.mockRestore())
    reply = {status: 429, headers: {'retry-after': '3', 'x-ratelimit-remaining-requests': '0'}}
    expect((await call()).status).toBe(429)
    expect(await of('user-1')).toMatchObject({rpm: {consumed: 0}, tpm: {consumed: 0}})
    expect(await of(ACCOUNT)).toMatchObject({rpm: {consumed: 0}, tpm: {tokens: 6000}})
    reply = {status: 200}
    received = 0
    const other = scene.limiter({sleep: async () => {}})
    const send = limitedFetch(other, {entity: 'user-2', provider: {entity: ACCOUNT}})
    scene.nowMs += 2999
    for (const use of [() => call(), async () => send(url, {method: 'POST', body})])
      expect((await use()).status).toBe(429)
    expect(received).toBe(0)
    scene.nowMs += 1
    expect((await call()).status).toBe(200)
    expect(received).toBe(1)
    await other.close()
  })

  it('waits for the provider as for other refusals', async () => {
    await limiter.acquire({entity: ACCOUNT, resource: 'gpt-4', consume: {rpm: 60}})
    const sleep = async (ms: number) => {
      scene.nowMs += ms
    }
    const patient = scene.limiter({sleep})
    const send = limitedFetch(patient, {entity: 'user-1', waitMs: 5000, provider: {entity: ACCOUNT}})
    expect((await send(url, {method: 'POST', body})).status).toBe(200)
    await patient.close()
  })

  it('charges input and output limits separately', async () => {
    await scene.configure(
      {level: 'entity', entity: ACCOUNT, resource: 'gpt-4'},
      'rpm=60/min',
      'itpm=1k/min',
      'otpm=1k/min',
    )
    const provider = {entity: ACCOUNT, limits: {input: 'itpm', output: 'otpm'}}
    const send = limitedFetch(limiter, {entity: 'user-1', provider})
    await (await send(url, {method: 'POST', body})).text()
    expect(await scene.totals(ACCOUNT, 'gpt-4', 'itpm')).toEqual({tokens: 989, consumed: 11})
    expect(await scene.totals(ACCOUNT, 'gpt-4', 'otpm')).toEqual({tokens: 993, consumed: 7})
  })

  it('applies feedback from responses and errors of the AI SDK', async () => {
    const {wrapGenerate} = limitedModel(limiter, {entity: 'user-1', provider: {entity: ACCOUNT}})
    const model = {modelId: 'gpt-4', provider: 'test'}
    const result = {content: [], usage: {inputTokens: 5, outputTokens: 5}}
    const headers = {'x-ratelimit-remaining-requests': '9'}
    const params = {prompt: 'x'}
    await wrapGenerate({model, params, doGenerate: async () => ({...result, response: {headers}})})
    expect((await of(ACCOUNT)).rpm).toEqual({tokens: 9, consumed: 1})
    const refusal = Object.assign(new Error('no'), {statusCode: 429, responseHeaders: {'retry-after': '2'}})
    await expect(wrapGenerate({model, params, doGenerate: () => Promise.reject(refusal)})).rejects.toBe(refusal)
    expect((await of(ACCOUNT)).rpm).toEqual({tokens: expect.closeTo(-1, 1), consumed: 1})
  })
})
