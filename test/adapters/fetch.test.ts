import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi} from 'vitest'
import {type CallLimiter, type LimitedFetchOptions, leaseOf, limitedFetch} from '../../src/lib/adapters/fetch.js'
import {onAbort} from '../../src/lib/dynamo/abort.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import type {AcquireRequest} from '../../src/lib/limiter/request/options.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {type Case, COUNTED, HALF, type ModelServer, PATHS, startModelServer, TEXT} from './model-server.js'

const OUTAGE = {kind: 'unreachable', at: 1, times: Number.POSITIVE_INFINITY} as const

/** 40 characters, about 10 tokens, and at most 100 for the response. */
const BODY = {
  model: 'gpt-4',
  max_tokens: 100,
  max_output_tokens: 100,
  messages: [{role: 'user', content: 'x'.repeat(40)}],
}
const RESERVED = 110

/** Half of the response by its characters. */
const HALF_TOKENS = Math.ceil(HALF.length / 4)

/** The cost of a call that the provider has counted. Anthropic's JSON also reports reads from the cache. */
const countedBy = (path: string, isJson = false) =>
  COUNTED.input + COUNTED.output + (path === '/v1/messages' ? COUNTED.cacheWrite + (isJson ? COUNTED.cacheRead : 0) : 0)

/** Input as far as known in the middle of a stream: Anthropic reports it at the start. */
const inputBy = (path: string) => (path === '/v1/messages' ? COUNTED.input + COUNTED.cacheWrite : 10)

// Some warnings are shown once per process, and the next files of this process expect theirs.
afterAll(() => {
  vi.resetModules()
})

describeOnBoth('fetch', {}, table => {
  let server: ModelServer
  let scene: Scene
  let limiter: RateLimiter
  let options: LimitedFetchOptions
  beforeAll(async () => {
    server = await startModelServer()
  })
  afterAll(() => server.close())
  beforeEach(async () => {
    scene = new Scene(table)
    limiter = scene.limiter({sleep: async () => {}})
    options = {entity: 'user-1'}
    server.bodies.length = 0
    server.paths.length = 0
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min', 'tpm=1k/min')
  })
  afterEach(() => limiter.close())

  function call(
    path: string,
    what: Case,
    init: RequestInit & {body?: string} = {},
    body: object = BODY,
    by: CallLimiter = limiter,
  ) {
    const send = limitedFetch(by, options)
    return send(`${server.url}${path}`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: {'x-case': what, 'content-type': 'application/json'},
      ...init,
    })
  }
  const stream = (path: string, what: Case, init: RequestInit = {}, body: object = BODY) =>
    call(path, what, init as {body?: string}, {...body, stream: true})

  /** Reads until the end, or until nothing more arrives. */
  async function readHalf({body}: Response): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    const reader = (body as ReadableStream<Uint8Array>).getReader()
    const decoder = new TextDecoder()
    for (let seen = ''; !/there\..*\n\n/.test(seen); )
      seen += decoder.decode((await reader.read()).value, {stream: true})
    return reader
  }

  const charged = async () => {
    const [rpm, tpm] = await Promise.all(['rpm', 'tpm'].map(name => scene.totals('user-1', 'gpt-4', name)))
    return {rpm: rpm?.consumed, tpm: tpm?.consumed}
  }

  it('settles soon if configured', async () => {
    const asked: AcquireRequest[] = []
    const observed: CallLimiter = {
      tryAcquire: request => {
        asked.push(request)
        return limiter.tryAcquire(request)
      },
    }
    options = {...options, settle: 'soon'}
    await (await call('/v1/chat/completions', 'usage', {}, BODY, observed)).text()
    expect(asked).toMatchObject([{settle: 'soon'}])
    await limiter.settled()
    expect(await charged()).toEqual({rpm: 1, tpm: countedBy('/v1/chat/completions')})
  })

  describe.each(PATHS)('%s', path => {
    it.each([
      ['JSON', call],
      ['a stream', stream],
    ])('charges the usage in %s and passes the bytes that the caller has asked for', async (_, ask) => {
      const response = await ask(path, 'usage')
      expect(response).toMatchObject({status: 200, url: `${server.url}${path}`})
      expect(await charged()).toEqual({rpm: 1, tpm: RESERVED})
      const text = await response.text()
      // The caller has not asked for the usage of the chat.
      expect(text).toBe(server.bodies[0]?.replace(/data: .*"choices":\[\].*\n\n/, ''))
      expect(await charged()).toEqual({rpm: 1, tpm: countedBy(path, ask === call)})
    })

    it.each([
      ['JSON', call],
      ['a stream', stream],
    ])('keeps the estimate if %s has no usage', async (_, ask) => {
      await (await ask(path, 'no-usage')).text()
      expect(await charged()).toEqual({rpm: 1, tpm: (ask === stream ? inputBy(path) : 10) + 100})
    })

    it.each([
      ['JSON', call],
      ['a stream', stream],
    ])('charges `maxOutput` or received tokens if %s has no usage and the request no maximum', async (_, ask) => {
      const {max_tokens: _max, max_output_tokens: _output, ...open} = BODY
      const input = ask === stream ? inputBy(path) : 10
      options = {...options, maxOutput: 50}
      await (await ask(path, 'no-usage', {}, open)).text()
      expect(await charged()).toEqual({rpm: 1, tpm: input + 50})
      options = {...options, onAbort: 'refund'}
      await (await ask(path, 'no-usage', {}, open)).text()
      expect(await charged()).toEqual({rpm: 2, tpm: 2 * input + 50 + Math.ceil(TEXT.length / 4)})
    })

    it.each(['error', 'refuse'] as const)(
      'charges nothing if the provider responds with an error status: %s',
      async what => {
        const response = await call(path, what)
        expect(response.status).toBe(what === 'error' ? 500 : 429)
        expect(await response.json()).toEqual({error: {message: 'no'}})
        expect(await charged()).toEqual({rpm: 0, tpm: 0})
      },
    )

    describe.each([
      ['keep', 100],
      ['refund', HALF_TOKENS],
    ] as const)('with onAbort %s', (onAbort, output) => {
      beforeEach(() => {
        options = {...options, onAbort}
      })

      it('charges the maximum or the received tokens when the stream breaks', async () => {
        const reader = await readHalf(await stream(path, 'hang'))
        server.drop()
        await expect(reader.read()).rejects.toThrow('terminated')
        expect(await charged()).toEqual({rpm: 1, tpm: inputBy(path) + output})
      })

      it('charges the maximum or the received tokens when the provider gives up midway', async () => {
        await (await stream(path, 'error-event')).text()
        expect(await charged()).toEqual({rpm: 1, tpm: inputBy(path) + output})
      })

      it.each(['reads on', 'reads no more'] as const)(
        'charges the maximum or the received tokens when the caller aborts and %s',
        async then => {
          const leaving = new AbortController()
          const response = await stream(path, 'hang', {signal: leaving.signal})
          const reader = await readHalf(response)
          expect(await charged()).toEqual({rpm: 1, tpm: RESERVED})
          leaving.abort()
          if (then === 'reads on') await expect(reader.read()).rejects.toThrow('aborted')
          await expect.poll(() => leaseOf(response)?.isEnded).toBe(true)
          expect(await charged()).toEqual({rpm: 1, tpm: inputBy(path) + output})
        },
      )

      it('charges the maximum or the received tokens when the caller cancels the body', async () => {
        const reader = await readHalf(await stream(path, 'hang'))
        await reader.cancel()
        expect(await charged()).toEqual({rpm: 1, tpm: inputBy(path) + output})
      })
    })
  })

  it('keeps the estimate if a call was sent and no response arrives', async () => {
    await expect(call('/v1/messages', 'drop')).rejects.toThrow('fetch failed')
    expect(await charged()).toEqual({rpm: 1, tpm: RESERVED})
    options = {...options, onAbort: 'refund'}
    await expect(call('/v1/messages', 'drop')).rejects.toThrow('fetch failed')
    expect(await charged()).toEqual({rpm: 1, tpm: RESERVED})
  })

  it('charges nothing if the call was certainly never sent', async () => {
    const send = limitedFetch(limiter, options)
    const init = {method: 'POST', body: JSON.stringify(BODY)}
    const closed = await startModelServer()
    await closed.close()
    await expect(send(`${closed.url}/v1/messages`, init)).rejects.toThrow('fetch failed')
    await expect(send('http://nowhere.invalid/v1/messages', init)).rejects.toThrow('fetch failed')
    const left = new AbortController()
    const leaving = limitedFetch(limiter, {
      ...options,
      estimate: () => {
        left.abort()
        return {input: 1, output: 1}
      },
    })
    await expect(leaving(`${server.url}/v1/messages`, {...init, signal: left.signal})).rejects.toThrow('aborted')
    expect(server.paths).toEqual([])
    expect(await charged()).toEqual({rpm: 0, tpm: 0})
  })

  it('charges 4,096 tokens of output if a call without a maximum ends without a count, or as configured', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min', 'tpm=10k/min')
    const {max_tokens: _max, max_output_tokens: _output, ...open} = BODY
    await expect(call('/v1/messages', 'drop', {}, open)).rejects.toThrow('fetch failed')
    expect(await charged()).toEqual({rpm: 1, tpm: 10 + 4096})
    options = {...options, maxOutput: 50}
    await expect(call('/v1/messages', 'drop', {}, open)).rejects.toThrow('fetch failed')
    expect(await charged()).toEqual({rpm: 2, tpm: 10 + 4096 + 60})
  })

  it('keeps the estimate if JSON is not read to its end: the provider has generated all of it', async () => {
    const response = await call('/v1/messages', 'usage')
    await response.body?.cancel()
    expect(await charged()).toEqual({rpm: 1, tpm: RESERVED})
  })

  it('refuses with a 429 that never reaches the provider', async () => {
    options = {...options, headers: 'openai', estimate: () => ({input: 300, output: 390})}
    await (await call('/v1/responses', 'no-usage')).text()
    const response = await call('/v1/responses', 'usage')
    expect(response.status).toBe(429)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/problem+json',
      'retry-after': '23',
      'x-ratelimit-remaining-tokens': '310',
    })
    expect(await response.json()).toMatchObject({status: 429, 'violated-policies': ['tpm']})
    expect(server.paths).toHaveLength(1)
    expect(await charged()).toEqual({rpm: 1, tpm: 690})
  })

  it('sends every call in shadow mode, and charges only calls that fit', async () => {
    options = {...options, enforce: false}
    await limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {rpm: 9, tpm: 1}})
    for (const rpm of [10, 10]) {
      expect((await (await call('/v1/chat/completions', 'usage')).json()) as object).toMatchObject({id: 'c1'})
      expect(await charged()).toEqual({rpm, tpm: 1 + countedBy('/v1/chat/completions')})
    }
  })

  it('waits if allowed, and rejects like fetch when the caller aborts meanwhile', async () => {
    const leaving = new AbortController()
    let waits = 0
    limiter = scene.limiter({
      sleep: async (ms, signal) => {
        if (++waits === 1) scene.nowMs += ms
        else {
          leaving.abort()
          await new Promise<void>(resolve => onAbort(signal as AbortSignal, resolve))
        }
      },
    })
    options = {...options, waitMs: 600_000, estimate: () => ({input: 0, output: 1000})}
    for (let at = 0; at < 2; at++) await (await call('/v1/responses', 'no-usage')).text()
    expect({waits, ...(await charged())}).toEqual({waits: 1, rpm: 2, tpm: 2000})
    const aborted = call('/v1/responses', 'no-usage', {signal: leaving.signal})
    await expect(aborted).rejects.toMatchObject({name: 'AbortError'})
    await limiter.settled()
    expect({waits, ...(await charged())}).toEqual({waits: 2, rpm: 2, tpm: 2000})
    expect(server.paths).toHaveLength(2)
  })

  it('responds with 403 while the model is disabled', async () => {
    const repository = new NamespaceRepository(scene.tenant, undefined)
    await repository.setAccess({level: 'resource', resource: 'gpt-4'}, 'disabled')
    expect((await call('/v1/messages', 'usage')).status).toBe(403)
    expect(server.paths).toEqual([])
  })

  it('responds with 503 in an outage, and after close', async () => {
    const faults = new FaultTransport(table.transport)
    scene.transport = faults
    faults.start(OUTAGE)
    expect((await call('/v1/messages', 'usage')).status).toBe(503)
    await limiter.close()
    expect((await call('/v1/messages', 'usage')).status).toBe(503)
    expect(server.paths).toEqual([])
  })

  it('delivers the response and keeps the estimate when the table fails meanwhile', async () => {
    const faults = new FaultTransport(table.transport)
    scene.transport = faults
    const warned: Error[] = []
    const warn = (warning: Error) => warned.push(warning)
    process.on('warning', warn)
    try {
      const response = await stream('/v1/messages', 'usage')
      faults.start(OUTAGE)
      expect(await response.text()).toBe(server.bodies[0])
      await expect.poll(() => warned).toMatchObject([{name: 'ZaelWarning', code: 'ZAEL_SETTLE'}])
    } finally {
      process.off('warning', warn)
    }
    expect(await charged()).toEqual({rpm: 1, tpm: RESERVED})
  })

  it('skips calls that use no model, and calls by option', async () => {
    expect((await limitedFetch(limiter, options)(`${server.url}/v1/models`)).status).toBe(200)
    expect(await scene.shards('user-1', 'gpt-4')).toEqual([])
    options = {...options, resource: 'gpt-4', skip: ({url}) => url.endsWith('/v1/models?free')}
    expect((await limitedFetch(limiter, options)(`${server.url}/v1/models?free`)).status).toBe(200)
    expect(await scene.shards('user-1', 'gpt-4')).toEqual([])
    await (await limitedFetch(limiter, options)(new URL(`${server.url}/v1/models`))).text()
    expect(await scene.shards('user-1', 'gpt-4')).toEqual([])
    await (await limitedFetch(limiter, options)(new URL(`${server.url}/v1/models`), {method: 'POST'})).text()
    expect(await charged()).toMatchObject({rpm: 1})
  })

  it('reads a Request without consuming its body, and calls the callbacks', async () => {
    options = {
      ...options,
      entity: async ({headers}) => headers.get('x-user') ?? '',
      resource: ({model}) => model?.replace('-mini', '') ?? '',
    }
    const request = new Request(`${server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {'x-user': 'user-1'},
      body: JSON.stringify({...BODY, model: 'gpt-4-mini'}),
    })
    expect(await (await limitedFetch(limiter, options)(request)).json()).toMatchObject({id: 'c1'})
    expect(await charged()).toEqual({rpm: 1, tpm: 18})
  })

  it('refuses models without limits with 400, and throws if the resource of the options has none', async () => {
    const refused = await call('/v1/messages', 'usage', {}, {model: 'unconfigured'})
    expect(await refused.json()).toMatchObject({status: 400, detail: 'The requested resource is not available.'})
    options = {...options, resource: 'unconfigured'}
    await expect(call('/v1/messages', 'usage')).rejects.toMatchObject({code: 'limits.missing'})
    expect(server.paths).toEqual([])
  })
})
