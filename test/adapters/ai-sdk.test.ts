import {afterAll, afterEach, beforeAll, beforeEach, describe, expect, it} from 'vitest'
import {type LimitedModelOptions, limitedModel} from '../../src/lib/adapters/ai-sdk.js'
import {onAbort} from '../../src/lib/dynamo/abort.js'
import type {RateLimiter} from '../../src/lib/limiter/rate-limiter.js'
import {FaultTransport} from '../helpers/fault-transport.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {type Case, HALF, type ModelServer, startModelServer, TEXT} from './model-server.js'
import {SDKS, type SdkCall, testModel} from './sdks.js'

const OUTAGE = {kind: 'unreachable', at: 1, times: Number.POSITIVE_INFINITY} as const

/** 40 characters, about 10 tokens, and at most 100 for the response. */
const RESERVED = 110
const COUNTED = 18
const HALF_TOKENS = 10 + Math.ceil(HALF.length / 4)

describeOnBoth('models of the AI SDK', {}, table => {
  let server: ModelServer
  let scene: Scene
  let limiter: RateLimiter
  let options: LimitedModelOptions
  beforeAll(async () => {
    server = await startModelServer()
  })
  afterAll(() => server.close())
  beforeEach(async () => {
    scene = new Scene(table)
    limiter = scene.limiter({sleep: async () => {}})
    options = {entity: 'user-1'}
    server.paths.length = 0
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min', 'tpm=1k/min')
  })
  afterEach(() => limiter.close())

  const charged = async () => {
    const [rpm, tpm] = await Promise.all(['rpm', 'tpm'].map(name => scene.totals('user-1', 'gpt-4', name)))
    return {rpm: rpm?.consumed, tpm: tpm?.consumed}
  }

  it.each([
    ['cannot read a response of success', {statusCode: 200}, RESERVED],
    ['gets the status of a proxy that stopped waiting', {statusCode: 504}, RESERVED],
    ['has no key', {name: 'AI_LoadAPIKeyError'}, 0],
  ])('charges the estimate if the SDK %s and the provider may bill it', async (_, fields, tpm) => {
    const doGenerate = () => Promise.reject(Object.assign(new Error('failed'), fields))
    const params = {prompt: 'x'.repeat(40), maxOutputTokens: 100}
    const call = {doGenerate, model: {modelId: 'gpt-4', provider: 'test'}, params}
    await expect(limitedModel(limiter, options).wrapGenerate(call)).rejects.toThrow('failed')
    expect((await charged()).tpm).toBe(tpm)
  })

  /** A call whose stream has only the given part. */
  async function stream(params: object, part?: object, provider = 'test'): Promise<void> {
    const parts = new ReadableStream<object>({
      start: controller => {
        if (part) controller.enqueue(part)
        controller.close()
      },
    })
    const call = {
      doStream: async () => ({stream: parts}),
      model: {modelId: 'gpt-4', provider},
      params: {prompt: 'x'.repeat(40), ...params},
    }
    for await (const _ of (await limitedModel(limiter, options).wrapStream(call)).stream);
  }

  it('charges the whole estimate for a stream that ends without its last part', async () => {
    options = {...options, maxOutput: 50}
    await stream({})
    expect((await charged()).tpm).toBe(60)
  })

  it.each([
    ['of version 5', 'unknown', {inputTokens: 10, outputTokens: 1, totalTokens: 11}],
    ['of version 6', {unified: 'other', raw: undefined}, {inputTokens: {total: 10}, outputTokens: {total: 1}}],
    ['of version 7', {unified: 'interrupted', raw: undefined}, {inputTokens: {total: 10}, outputTokens: {total: 1}}],
    ['with an error', {unified: 'error', raw: undefined}, {inputTokens: {total: 10}, outputTokens: {total: 1}}],
  ])('charges the estimate for a last part %s that the SDK adds to a broken stream', async (_, finishReason, usage) => {
    await stream({maxOutputTokens: 100}, {type: 'finish', finishReason, usage})
    expect((await charged()).tpm).toBe(RESERVED)
  })

  it.each<[string, object, object, string, number]>([
    [
      'of the provider, with more than the SDK counts',
      {
        inputTokens: {total: 10},
        outputTokens: {total: 20},
        raw: {prompt_tokens: 10, completion_tokens: 20, total_tokens: 70},
      },
      {},
      'xai',
      70,
    ],
    [
      'of Google in version 5',
      {inputTokens: 10, outputTokens: 20, totalTokens: 30},
      {google: {usageMetadata: {promptTokenCount: 10, candidatesTokenCount: 20, toolUsePromptTokenCount: 40}}},
      'google.generative-ai',
      70,
    ],
    [
      'of Bedrock in version 5, without its caches',
      {inputTokens: 10, outputTokens: 20, totalTokens: 30, cachedInputTokens: 25},
      {bedrock: {usage: {cacheWriteInputTokens: 15}}},
      'amazon-bedrock',
      70,
    ],
  ])('charges the usage %s', async (_, usage, providerMetadata, provider, tokens) => {
    await stream({}, {type: 'finish', finishReason: 'stop', usage, providerMetadata}, provider)
    expect((await charged()).tpm).toBe(tokens)
  })

  it('charges the cost and tier in the body of a response', async () => {
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min', 'tpm=1k/min', 'usd=$1/min')
    const price = {'gpt-4': {input: 1, output: 1, priority: {input: 1000, output: 2000}}}
    const usage = {inputTokens: 10, outputTokens: 20, totalTokens: 30}
    const body = {usage: {prompt_tokens: 10, completion_tokens: 20}, service_tier: 'priority'}
    const result = {content: [], usage, response: {body}}
    const call = {doGenerate: async () => result, model: {modelId: 'gpt-4', provider: 'openai'}, params: {prompt: 'x'}}
    await limitedModel(limiter, {...options, price}).wrapGenerate(call)
    expect((await scene.totals('user-1', 'gpt-4', 'usd')).consumed).toBe(10_000 + 40_000)
  })

  it.each([
    {anthropic: {thinking: {type: 'enabled', budgetTokens: 400}}},
    {bedrock: {reasoningConfig: {budgetTokens: 400}}},
  ])('reserves reasoning that the SDK adds to the maximum: %j', async providerOptions => {
    await stream({maxOutputTokens: 100, providerOptions})
    expect((await charged()).tpm).toBe(RESERVED + 400)
  })

  describe.each(Object.entries(SDKS))('%s', (_, sdk) => {
    const call = (what: Case, more: Omit<SdkCall, 'model' | 'middleware'> = {}): SdkCall => ({
      model: testModel(sdk.specification, server.url, {'x-case': what}),
      middleware: limitedModel(limiter, options),
      ...more,
    })
    const failure = (work: Promise<unknown>) =>
      work.then(
        () => undefined,
        error => error,
      )

    /** The text of a stream, and how it ended. */
    async function stream(what: Case, more: Omit<SdkCall, 'model' | 'middleware'> = {}, onText = (_: string) => {}) {
      let text = ''
      let error: unknown
      try {
        for await (const part of sdk.stream(call(what, more))) {
          if (part.type === 'text-delta') {
            text += part.text
            onText(text)
          }
          if (part.type === 'error') error = part.error
        }
      } catch (thrown) {
        error = thrown
      }
      return {text, error}
    }

    it('charges the reported usage', async () => {
      expect(await sdk.generate(call('usage'))).toBe(TEXT)
      expect(await charged()).toEqual({rpm: 1, tpm: COUNTED})
      expect(await stream('usage')).toEqual({text: TEXT, error: undefined})
      expect(await charged()).toEqual({rpm: 2, tpm: 2 * COUNTED})
    })

    it('keeps the estimate if no usage is reported', async () => {
      expect(await sdk.generate(call('no-usage'))).toBe(TEXT)
      expect(await charged()).toEqual({rpm: 1, tpm: RESERVED})
      expect(await stream('no-usage')).toEqual({text: TEXT, error: undefined})
      expect(await charged()).toEqual({rpm: 2, tpm: 2 * RESERVED})
    })

    it('charges nothing if the provider responds with an error', async () => {
      await expect(sdk.generate(call('error'))).rejects.toThrow('the provider answers 500')
      expect(await charged()).toEqual({rpm: 0, tpm: 0})
    })

    it('keeps the estimate if a call was sent and no response arrives', async () => {
      expect(await stream('drop')).toMatchObject({text: '', error: expect.anything()})
      expect(await charged()).toEqual({rpm: 1, tpm: RESERVED})
    })

    describe.each([
      ['keep', RESERVED],
      ['refund', HALF_TOKENS],
    ] as const)('with onAbort %s', (onAbort, tpm) => {
      beforeEach(() => {
        options = {...options, onAbort}
      })

      it('charges the estimate or the received tokens when the provider gives up midway', async () => {
        expect(await stream('error-event')).toMatchObject({text: HALF, error: expect.anything()})
        expect(await charged()).toEqual({rpm: 1, tpm})
      })

      it('charges the estimate or the received tokens when the stream breaks', async () => {
        const broken = await stream('hang', {}, text => {
          if (text === HALF) server.drop()
        })
        expect(broken).toMatchObject({text: HALF, error: expect.anything()})
        await expect.poll(charged).toEqual({rpm: 1, tpm})
      })

      it('charges the estimate or the received tokens when the caller aborts midway', async () => {
        const leaving = new AbortController()
        const aborted = await stream('hang', {abortSignal: leaving.signal}, text => {
          if (text === HALF) leaving.abort()
        })
        expect(aborted.text).toBe(HALF)
        await expect.poll(charged).toEqual({rpm: 1, tpm})
      })
    })

    it('refuses with an error that the SDK knows from providers', async () => {
      options = {...options, estimate: () => ({input: 0, output: 690})}
      await sdk.generate(call('no-usage'))
      const error = await failure(sdk.generate(call('usage')))
      expect(sdk.isApiCallError(error)).toBe(true)
      expect(error).toMatchObject({
        statusCode: 429,
        isRetryable: true,
        message: 'Quota exceeded. Rate limit exceeded. Try again in 23 seconds.',
        responseHeaders: {'retry-after': '23', ratelimit: expect.stringContaining('"tpm";r=310;t=23')},
        data: {'violated-policies': ['tpm']},
      })
      expect((await stream('usage')).error).toMatchObject({statusCode: 429})
      expect(server.paths).toHaveLength(1)
      expect(await charged()).toEqual({rpm: 1, tpm: 690})
    })

    it('lets the SDK retry after the wait', async () => {
      let asked = 0
      // 10 ms until the refused call fits; the limiter's clock moves when the SDK retries.
      await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/min', 'tpm=12k/min')
      options = {
        ...options,
        estimate: () => {
          if (++asked === 3) scene.nowMs += 10_000
          return {input: 0, output: asked === 1 ? 11_900 : 102}
        },
      }
      await sdk.generate(call('no-usage'))
      expect(await sdk.generate(call('no-usage', {maxRetries: 1}))).toBe(TEXT)
      expect(asked).toBe(3)
    })

    it('waits if allowed, and rejects when the caller aborts meanwhile', async () => {
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
      for (let at = 0; at < 2; at++) await sdk.generate(call('no-usage'))
      expect({waits, ...(await charged())}).toEqual({waits: 1, rpm: 2, tpm: 2000})
      const aborted = await failure(sdk.generate(call('usage', {abortSignal: leaving.signal})))
      expect(aborted).toMatchObject({name: 'AbortError'})
      await limiter.settled()
      expect({waits, ...(await charged())}).toEqual({waits: 2, rpm: 2, tpm: 2000})
      expect(server.paths).toHaveLength(2)
    })

    it('refuses with 503 in an outage and after close, and passes on invalid input', async () => {
      await expect(sdk.generate(call('usage'))).resolves.toBe(TEXT)
      const faults = new FaultTransport(table.transport)
      scene.transport = faults
      faults.start(OUTAGE)
      expect(await failure(sdk.generate(call('usage')))).toMatchObject({statusCode: 503, isRetryable: true})
      await limiter.close()
      expect(await failure(sdk.generate(call('usage')))).toMatchObject({statusCode: 503})
      faults.stop()
      limiter = scene.limiter()
      options = {...options, resource: 'unconfigured'}
      expect(await failure(sdk.generate(call('usage')))).toMatchObject({code: 'limits.missing'})
      expect(server.paths).toHaveLength(1)
    })

    it('skips calls by option, and charges the entity and resource of the options', async () => {
      options = {...options, skip: ({model}) => model.modelId === 'gpt-4'}
      expect(await sdk.generate(call('usage'))).toBe(TEXT)
      expect(await scene.shards('user-1', 'gpt-4')).toEqual([])
      options = {
        entity: async ({params}) => `user-${params.maxOutputTokens}`,
        resource: ({model}) => model.modelId,
      }
      await sdk.generate(call('usage'))
      expect((await scene.totals('user-100', 'gpt-4', 'tpm')).consumed).toBe(COUNTED)
    })
  })
})
