import v8 from 'node:v8'
import {runInNewContext} from 'node:vm'
import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {type LimitedFetchOptions, leaseOf, limitedFetch, type SettledCall} from '../../src/lib/adapters/fetch.js'
import {Unavailable} from '../../src/lib/dynamo/errors.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'

const CALL = {model: 'gpt-4', max_tokens: 10, messages: [{role: 'user', content: 'hello'}]}
const JSON_CALL = JSON.stringify(CALL)

const formOf = (fields: Record<string, string>): FormData => {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.set(name, value)
  return form
}

const streamOf = (text: string): ReadableStream<Uint8Array> =>
  new Response(text).body as unknown as ReadableStream<Uint8Array>

type Fate = 'charged' | 'refused' | 'free'

/** Every way to a model: its path, its body, and what becomes of it. */
const ROUTES: readonly (readonly [string, string, () => unknown, Fate])[] = [
  ['POST', '/v1/chat/completions', () => JSON_CALL, 'charged'],
  ['POST', '/v1/completions', () => JSON_CALL, 'charged'],
  ['POST', '/v1/responses', () => JSON_CALL, 'charged'],
  ['POST', '/v1/messages', () => JSON_CALL, 'charged'],
  ['POST', '/v1/messages/batches', () => JSON.stringify({requests: [{custom_id: '1', params: CALL}]}), 'refused'],
  ['POST', '/v1/embeddings', () => JSON.stringify({model: 'gpt-4', input: 'x'}), 'charged'],
  ['POST', '/v1/moderations', () => JSON.stringify({input: 'x'}), 'refused'],
  ['POST', '/v1/images/generations', () => JSON.stringify({prompt: 'x'}), 'refused'],
  ['POST', '/v1/images/edits', () => formOf({model: 'gpt-4', prompt: 'x'}), 'charged'],
  ['POST', '/v1/audio/transcriptions', () => formOf({model: 'gpt-4'}), 'charged'],
  ['POST', '/v1/audio/speech', () => JSON.stringify({model: 'gpt-4', input: 'x'}), 'charged'],
  ['POST', '/v1/batches', () => JSON.stringify({input_file_id: 'f', endpoint: '/v1/chat/completions'}), 'refused'],
  ['POST', '/v1/threads/t1/runs', () => JSON.stringify({assistant_id: 'a'}), 'refused'],
  ['POST', '/v1/batches/', () => JSON.stringify({model: 'gpt-4', input_file_id: 'f'}), 'refused'],
  ['POST', '/v1/batch/jobs', () => JSON.stringify({model: 'gpt-4', input_files: ['f']}), 'refused'],
  ['POST', '/v1/fine_tuning/jobs', () => JSON.stringify({model: 'gpt-4', training_file: 'f'}), 'refused'],
  ['POST', '/v1/projects/p/locations/l/batchPredictionJobs', () => JSON.stringify({model: 'gpt-4'}), 'refused'],
  ['POST', '/model-invocation-job', () => JSON.stringify({model: 'gpt-4', modelId: 'gpt-4'}), 'refused'],
  ['POST', '/v1/batches/b1/cancel', () => undefined, 'free'],
  ['POST', '/v1beta/batches/b1:cancel', () => undefined, 'free'],
  ['POST', '/v1beta/models/gpt-4:generateContent', () => '{"contents": []}', 'charged'],
  ['POST', '/v1beta/models/gpt-4:streamGenerateContent?alt=sse', () => '{"contents": []}', 'charged'],
  ['POST', '/model/gpt-4/converse', () => '{"messages": []}', 'charged'],
  ['POST', '/model/gpt-4/invoke-with-response-stream', () => '{}', 'charged'],
  ['POST', '/openai/deployments/gpt-4/chat/completions', () => '{"messages": []}', 'charged'],
  ['POST', '/v1/chat/completions', () => new TextEncoder().encode(JSON_CALL), 'charged'],
  ['POST', '/v1/chat/completions', () => new Blob([JSON_CALL]), 'charged'],
  ['POST', '/v1/chat/completions', () => streamOf(JSON_CALL), 'charged'],
  ['POST', '/v1/chat/completions', () => streamOf(`${' '.repeat(2 ** 24)}${JSON_CALL}`), 'refused'],
  ['POST', '/v1/chat/completions', () => 'not JSON', 'refused'],
  ['POST', '/v1/chat/completions', () => ({model: 'gpt-4'}), 'refused'],
  ['POST', '/v1/chat/completions', () => ({toString: () => JSON_CALL}), 'charged'],
  ['POST', '/v1/chat/completions', () => '{"model": ["gpt-4"]}', 'refused'],
  ['POST', '/v1/chat/completions', () => '{"model": ""}', 'refused'],
  ['POST', '/v1/chat/completions', () => undefined, 'refused'],
  ['PUT', '/v1/anything', () => '{}', 'refused'],
  ['POST', '/v1/files', () => formOf({purpose: 'batch'}), 'free'],
  ['POST', '/v1/uploads/u1/parts', () => formOf({}), 'free'],
  ['POST', '/v1/responses/r1/cancel', () => undefined, 'free'],
  ['POST', '/v1beta/models/gpt-4:countTokens', () => '{}', 'free'],
  ['POST', '/v1/messages/count_tokens', () => JSON_CALL, 'free'],
  ['POST', '/model/gpt-4/count-tokens', () => '{}', 'free'],
  ['POST', '/v1beta/models/gpt-4:batchGenerateContent', () => '{}', 'refused'],
  ['POST', '/v1beta/models/gpt-4:batchEmbedContents', () => '{}', 'charged'],
  ['POST', '/v1/files', () => JSON_CALL, 'charged'],
  ['POST', '/v1/files/../chat/completions', () => streamOf(`${' '.repeat(2 ** 24)}${JSON_CALL}`), 'refused'],
  ['POST', '/v1/x/%2E%2E/files/%2e%2e/chat/completions', () => '', 'refused'],
  ['GET', '/v1/models', () => undefined, 'free'],
  ['DELETE', '/v1/responses/r1', () => undefined, 'free'],
]

describeOnBoth('routes to a model', {}, table => {
  let scene: Scene
  let limiter: RateLimiter
  let sent: string[]
  let options: LimitedFetchOptions
  beforeEach(async () => {
    scene = new Scene(table)
    limiter = scene.limiter()
    sent = []
    options = {
      entity: 'user-1',
      fetch: async (_, init) => {
        if (init?.body) sent.push(await new Response(init.body as never).text())
        return new Response('{"usage": {"prompt_tokens": 5, "completion_tokens": 3}}')
      },
    }
    for (const resource of ['gpt-4', 'mini', 'unknown'])
      await scene.configure(
        {level: 'resource', resource},
        'rpm=100/min',
        'tpm=1k/min',
        'itpm=1k/min',
        'otpm=1k/min',
        'usd=$1/min',
      )
  })
  afterEach(() => limiter.close())

  const consumed = async (resource: string, name = 'tpm') =>
    (await scene.totals('user-1', resource, name))?.consumed ?? 0

  const call = async (body: unknown, path = '/v1/chat/completions', method = 'POST') => {
    const init = {method, ...(body !== undefined && {body, duplex: 'half'})} as RequestInit
    const response = await limitedFetch(limiter, options)(`http://127.0.0.1${path}`, init)
    const text = await response.text()
    return {status: response.status, text}
  }

  it.each(ROUTES)('%s %s with %s is %4$s', async (method, path, body, fate) => {
    const {status, text} = await call(body(), path, method)
    expect({status, rpm: await consumed('gpt-4', 'rpm')}).toEqual({
      status: fate === 'refused' ? 400 : 200,
      rpm: fate === 'charged' ? 1 : 0,
    })
    if (fate === 'refused') expect(JSON.parse(text)).toMatchObject({title: 'Unknown model'})
  })

  it('refuses batches despite a resource, unless unknown models are charged to one', async () => {
    const batch = JSON.stringify({model: 'gpt-4', input_file_id: 'f'})
    options = {...options, resource: 'gpt-4'}
    expect([(await call(batch, '/v1/batches')).status, sent]).toEqual([400, []])
    options = {...options, onUnknownModel: {resource: 'gpt-4'}}
    expect((await call(batch, '/v1/batches')).status).toBe(200)
    expect(await consumed('gpt-4', 'rpm')).toBe(1)
  })

  it('counts a response of sound or images in bytes, not as text', async () => {
    const headers = {'content-type': 'audio/mpeg'}
    options = {...options, fetch: async () => new Response(new Uint8Array(20_000).fill(0xe7), {headers})}
    await call(JSON.stringify({model: 'gpt-4', input: 'x'.repeat(40)}), '/v1/audio/speech')
    expect(await consumed('gpt-4')).toBe(10 + 200)
  })

  it('keeps the reserved cost of a call without usage: its input may be of the dearest kind', async () => {
    const price = {'gpt-4': {input: 1000, output: 2000, cacheWrite: 1250, hourCacheWrite: 3000}}
    options = {...options, price, fetch: async () => Promise.reject(new Error('aborted'))}
    await call(JSON_CALL).catch(() => {})
    expect(await consumed('gpt-4', 'usd')).toBe(2 * 3000 + 10 * 2000)
  })

  it.each([
    ['/v1/chat/completions', {num_predict: 1}],
    ['/v1/responses', {max_tokens: 1}],
  ])('does not take a field that %s ignores for its maximum', async (path, ignored) => {
    options = {...options, maxOutput: 50, fetch: async () => Promise.reject(new Error('aborted'))}
    const {max_tokens: _, ...open} = CALL
    await call(JSON.stringify({...open, ...ignored}), path).catch(() => {})
    expect(await consumed('gpt-4')).toBe(2 + 50)
  })

  it('lets calls pass that use no model, also with a resource and prices', async () => {
    options = {...options, resource: 'gpt-4', price: {'gpt-4': {input: 1, output: 1}}}
    expect((await call(undefined, '/v1/models', 'GET')).status).toBe(200)
    expect((await call(formOf({purpose: 'batch'}), '/v1/files')).status).toBe(200)
    expect(await consumed('gpt-4', 'rpm')).toBe(0)
  })

  it('charges the model in the path, whatever the body says', async () => {
    const {status} = await call(JSON.stringify({...CALL, model: 'mini'}), '/openai/deployments/gpt-4/chat/completions')
    expect([status, await consumed('gpt-4'), await consumed('mini')]).toEqual([200, 8, 0])
  })

  it.each([
    ['header fields of Bedrock', {'x-amzn-bedrock-input-token-count': '7', 'x-amzn-bedrock-output-token-count': '4'}],
    ['a stream whose type is in capitals', {'content-type': 'TEXT/EVENT-STREAM'}],
  ])('reads the usage in %s', async (_, headers) => {
    const event = `data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 4}}\n\n`
    options = {...options, fetch: async () => new Response('content-type' in headers ? event : '{}', {headers})}
    await call(JSON_CALL)
    expect(await consumed('gpt-4')).toBe(11)
  })

  it('charges the whole estimate for a stream that ends without its last event', async () => {
    const headers = {'content-type': 'text/event-stream'}
    const event = 'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'
    options = {...options, maxOutput: 50, fetch: async () => new Response(event, {headers})}
    const {max_tokens: _, ...open} = CALL
    await call(JSON.stringify(open))
    expect(await consumed('gpt-4')).toBe(2 + 50)
  })

  it('charges calls of an unknown model to a resource, if configured', async () => {
    options = {...options, onUnknownModel: {resource: 'unknown'}}
    expect((await call('not JSON')).status).toBe(200)
    expect([await consumed('unknown', 'rpm'), await consumed('unknown')]).toEqual([1, 8])
    options = {...options, onUnknownModel: 'refuse', skip: ({url}) => url.endsWith('/completions')}
    expect((await call('not JSON')).status).toBe(200)
    expect(await consumed('unknown', 'rpm')).toBe(1)
  })

  describe('a fallback', () => {
    const drain = (resource: string) =>
      limiter.acquire({entity: 'user-1', resource, consume: {tpm: 1000}}).then(lease => lease.commit())

    it('calls the first model that is admitted, and charges only it', async () => {
      options = {...options, fallback: ['gpt-4', 'mini']}
      expect((await call(JSON_CALL)).status).toBe(200)
      await drain('gpt-4').catch(() => limiter.acquire({entity: 'user-1', resource: 'gpt-4', consume: {tpm: 990}}))
      expect((await call(streamOf(JSON_CALL))).status).toBe(200)
      expect(sent.map(body => JSON.parse(body).model)).toEqual(['gpt-4', 'mini'])
      expect(JSON.parse(sent[1] as string)).toEqual({...CALL, model: 'mini'})
      expect([await consumed('mini', 'rpm'), await consumed('mini')]).toEqual([1, 8])
      expect(await consumed('gpt-4', 'rpm')).toBe(1)
    })

    it('changes the model in the path', async () => {
      const urls: string[] = []
      const {fetch: send} = options
      options = {
        ...options,
        fallback: ['gpt-4', 'mini'],
        fetch: async (input, init) => {
          urls.push(String(input))
          return (send as typeof fetch)(input, init)
        },
      }
      await drain('gpt-4')
      const body = '{"contents":["hello"]}'
      expect((await call(body, '/v1beta/models/gpt-4:generateContent')).status).toBe(200)
      expect([urls, sent]).toEqual([['http://127.0.0.1/v1beta/models/mini:generateContent'], [body]])
      expect([await consumed('mini'), await consumed('gpt-4', 'rpm')]).toEqual([8, 0])
    })

    it('does not lead upwards, nor to other models, and ends with the refusal of the last one', async () => {
      options = {...options, fallback: ['gpt-4', 'mini']}
      await drain('mini')
      expect((await call(JSON.stringify({...CALL, model: 'mini'}))).status).toBe(429)
      expect((await call(JSON.stringify({...CALL, model: 'unknown'}))).status).toBe(200)
      await drain('gpt-4')
      expect((await call(JSON_CALL)).status).toBe(429)
      expect(await consumed('gpt-4', 'rpm')).toBe(0)
    })
  })

  it('charges input, output and cost to limits of their own', async () => {
    options = {
      ...options,
      limits: {input: 'itpm', output: 'otpm', cost: 'usd'},
      price: {'gpt-4': {input: 1000, output: 2000}},
    }
    await call(JSON_CALL)
    const names = ['rpm', 'itpm', 'otpm', 'usd', 'tpm']
    expect(await Promise.all(names.map(name => consumed('gpt-4', name)))).toEqual([1, 5, 3, 11_000, 0])
  })

  it('reserves money before the call is sent, and refuses it if too little is left', async () => {
    options = {...options, price: {'gpt-4': {input: 1000, output: 100_000}}}
    expect((await call(JSON_CALL)).status).toBe(429)
    expect(sent).toEqual([])
  })

  it('refuses models without a price, or charges the highest', async () => {
    options = {...options, price: {other: {input: 1000, output: 2000}}}
    const {status, text} = await call(JSON_CALL)
    expect([status, JSON.parse(text).title, await consumed('gpt-4', 'usd')]).toEqual([400, 'Unknown price', 0])
    options = {...options, onUnknownPrice: 'highest'}
    expect((await call(JSON_CALL)).status).toBe(200)
    expect(await consumed('gpt-4', 'usd')).toBe(11_000)
  })

  it.each([
    ['unknown', () => undefined],
    ['no number', () => Number.NaN],
    [
      'failing',
      () => {
        throw new Error('no price')
      },
    ],
  ])('charges the reserved cost if the price is %s after the call', async (_, late) => {
    let asked = 0
    options = {...options, price: () => (asked++ < 4 ? 0.25 : late())}
    expect((await call(JSON_CALL)).status).toBe(200)
    expect([await consumed('gpt-4', 'usd'), await consumed('gpt-4')]).toEqual([250_000, 8])
  })

  it('charges input and output to one limit, if both name it', async () => {
    options = {...options, limits: {input: 'tpm', output: 'tpm'}}
    await call(JSON_CALL)
    expect(await consumed('gpt-4')).toBe(8)
  })

  it.each([{max_tokens: Number.MAX_SAFE_INTEGER}, {max_tokens: Number.MAX_SAFE_INTEGER, n: 1e9}])(
    'refuses calls that ask for more than any limit: %j',
    async asked => {
      options = {...options, price: {'gpt-4': {input: 1, output: 2}}}
      expect((await call(JSON.stringify({...CALL, ...asked}))).status).toBe(429)
    },
  )

  it('refuses models without limits like other bad requests', async () => {
    const {status, text} = await call(JSON.stringify({...CALL, model: 'none'}))
    expect([status, JSON.parse(text).detail]).toEqual([400, 'The requested resource is not available.'])
    options = {...options, resource: 'none'}
    await expect(call(JSON_CALL)).rejects.toMatchObject({code: 'limits.missing'})
  })

  it.each([
    [500, 0],
    [429, 0],
    [408, 12],
    [504, 12],
    [524, 12],
  ])(
    'after status %i, charges %i tokens: a proxy that stops waiting does not stop the bill',
    async (status, tokens) => {
      options = {...options, fetch: async () => new Response('{}', {status})}
      expect((await call(JSON_CALL)).status).toBe(status)
      expect(await consumed('gpt-4')).toBe(tokens)
      options = {...options, onAbort: 'refund'}
      await call(JSON_CALL)
      expect(await consumed('gpt-4')).toBe(tokens)
    },
  )

  it('settles the usage of an error whose body takes long', async () => {
    const error = new TransformStream<Uint8Array, Uint8Array>()
    const writer = error.writable.getWriter()
    const write = (text: string) => writer.write(new TextEncoder().encode(text))
    options = {...options, fetch: async () => new Response(error.readable as never, {status: 500})}
    vi.useFakeTimers({toFake: ['setTimeout']})
    const answered = limitedFetch(limiter, options)('http://127.0.0.1/', {method: 'POST', body: JSON_CALL})
    void write('{"error": {},')
    await vi.waitFor(async () => {
      await vi.advanceTimersByTimeAsync(1000)
      expect(await consumed('gpt-4')).toBe(12)
    })
    const response = await answered
    vi.useRealTimers()
    void write('"usage": {"prompt_tokens": 5, "completion_tokens": 30}}')
    void writer.close()
    expect(await response.json()).toHaveProperty('usage')
    await expect.poll(() => consumed('gpt-4')).toBe(35)
  })

  it('settles a call whose response nobody reads', async () => {
    v8.setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    options = {...options, maxOutput: 50}
    const {max_tokens: _, ...open} = CALL
    await limitedFetch(limiter, options)('http://127.0.0.1/', {method: 'POST', body: JSON.stringify(open)})
    expect(await consumed('gpt-4')).toBe(2)
    await expect
      .poll(() => {
        collect()
        return consumed('gpt-4')
      })
      .toBe(2 + 50)
  })

  it.each([
    ['a connection that breaks', {code: 'EHOSTUNREACH', syscall: 'read'}, 12],
    ['a connection that is not made', {code: 'EHOSTUNREACH', syscall: 'connect'}, 0],
    ['an error that causes itself', {}, 12],
  ])('after %s, charges %3$i tokens', async (_, fields, tokens) => {
    const error: Error = Object.assign(new Error('failed'), fields)
    error.cause ??= error
    options = {...options, fetch: () => Promise.reject(new TypeError('fetch failed', {cause: error}))}
    await expect(call(JSON_CALL)).rejects.toThrow('fetch failed')
    expect(await consumed('gpt-4')).toBe(tokens)
  })

  it('warns once of calls without a maximum whose responses have no usage', async () => {
    const warned: Error[] = []
    const warn = (warning: Error) => warned.push(warning)
    process.on('warning', warn)
    const headers = {'content-type': 'text/event-stream'}
    const events = 'data: {"choices": [{"delta": {"content": "x"}}]}\n\ndata: [DONE]\n\n'
    options = {...options, fetch: async () => new Response(events, {headers})}
    const {max_tokens: _, ...open} = CALL
    // Other tests of this process may have caused the warning.
    vi.resetModules()
    const {limitedFetch: send} = await import('../../src/lib/adapters/fetch.js')
    for (const asked of [CALL, open, open]) {
      const init = {method: 'POST', body: JSON.stringify(asked)}
      await (await send(limiter, options)('http://127.0.0.1/v1/chat/completions', init)).text()
    }
    await expect.poll(() => warned).toMatchObject([{code: 'ZAEL_NO_USAGE', message: expect.stringContaining('gpt-4')}])
    process.off('warning', warn)
  })

  describe('onSettled', () => {
    let settled: SettledCall[]
    beforeEach(() => {
      settled = []
      options = {...options, onSettled: call => settled.push(call)}
    })

    it('reports no charge of calls that shadow mode admits', async () => {
      options = {...options, enforce: false}
      expect((await call(JSON.stringify({...CALL, max_tokens: 5000}))).status).toBe(200)
      expect(settled).toMatchObject([{usage: {input: 5, output: 3}, charged: {}}])
      expect(settled[0]?.charged).toEqual({})
    })

    it('reports no charge of calls that the caller refunds', async () => {
      const response = await limitedFetch(limiter, options)('http://127.0.0.1/', {method: 'POST', body: JSON_CALL})
      await leaseOf(response)?.rollback()
      await response.text()
      await expect.poll(() => settled).toMatchObject([{charged: {}}])
      expect(settled[0]?.charged).toEqual({})
    })

    it.each(['now', 'soon'] as const)('reports that an outage outlasts the retries, settling %s', async settle => {
      limiter = scene.limiter({sleep: async () => {}})
      const {transport} = scene
      const send = options.fetch as typeof fetch
      options = {
        ...options,
        settle,
        fetch: (...asked) => {
          scene.transport = {send: () => Promise.reject(new Unavailable('UpdateItem', false))}
          return send(...asked)
        },
      }
      await call(JSON_CALL)
      await expect.poll(() => settled).toMatchObject([{charged: {rpm: 1, tpm: 12}, error: {name: 'Unavailable'}}])
      scene.transport = transport
      expect(await consumed('gpt-4')).toBe(12)
    })
  })

  it('weighs tokens as configured, with one rule for all providers', async () => {
    const usage = {input_tokens: 100, cache_read_input_tokens: 1000, cache_creation_input_tokens: 10, output_tokens: 7}
    options = {...options, fetch: async () => new Response(JSON.stringify({usage}))}
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'tpm=10k/min')
    await call(JSON_CALL, '/v1/messages')
    expect(await consumed('gpt-4')).toBe(1117)
    options = {...options, weights: {cachedInput: 0, cacheWrite: 1.25, output: 5}}
    await call(JSON_CALL, '/v1/messages')
    expect(await consumed('gpt-4')).toBe(1117 + Math.ceil(100 + 12.5 + 35))
  })

  it('counts the text of a stream at its end, not with each part', async () => {
    const part = `data: ${JSON.stringify({choices: [{delta: {content: 'x'}}]})}\n\n`
    let counted = 0
    const tokenizer = (text: string) => {
      counted++
      return text.length
    }
    const headers = {'content-type': 'text/event-stream'}
    options = {...options, tokenizer, fetch: async () => new Response(part.repeat(50), {headers})}
    await call(JSON_CALL)
    // Once for the input.
    expect(counted).toBeLessThan(5)
    expect(await consumed('gpt-4')).toBe('hello'.length + 50)
    options = {...options, settleEvery: 10}
    await call(JSON_CALL)
    expect(counted).toBeLessThan(5 + 10)
    expect(await consumed('gpt-4')).toBe(2 * ('hello'.length + 50))
  })

  it('charges output beyond the estimate while it arrives', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=100/min', 'tpm=10k/min')
    const events = new TransformStream<Uint8Array, Uint8Array>()
    const writer = events.writable.getWriter()
    const say = (text: string) =>
      writer.write(new TextEncoder().encode(`data: ${JSON.stringify({choices: [{delta: {content: text}}]})}\n\n`))
    options = {
      ...options,
      settleEvery: 50,
      fetch: async () => new Response(events.readable as never, {headers: {'content-type': 'text/event-stream'}}),
    }
    const response = await limitedFetch(limiter, options)('http://127.0.0.1/v1/x', {method: 'POST', body: JSON_CALL})
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    const reserved = await consumed('gpt-4')
    void say('x'.repeat(400))
    await reader.read()
    await expect.poll(() => consumed('gpt-4')).toBe(reserved + 90)
    void say('x'.repeat(40))
    await reader.read()
    void writer.close()
    while (!(await reader.read()).done);
    expect(await consumed('gpt-4')).toBe(reserved + 100)
  })
})
