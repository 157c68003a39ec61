import OpenAI from 'openai'
import {limitedModel} from '../../src/lib/adapters/ai-sdk.js'
import {type CallLimiter, type CallOptions, limitedFetch} from '../../src/lib/adapters/fetch.js'
import {type ProviderEnding, TOKEN} from './billing-provider.js'
import {SDKS, testModel} from './sdks.js'

/** Tokens of the input of each call. */
export const INPUT = 20
/** More than the provider generates: the bound of the charge. */
export const MAXIMUM = 60
/** Output that calls without a maximum are charged if the provider does not count it. */
export const MAX_OUTPUT = 4096
const MESSAGES = [{role: 'user' as const, content: TOKEN.repeat(INPUT)}]

export interface Call {
  readonly url: string
  readonly ending: ProviderEnding
  readonly isStream: boolean
  readonly signal?: AbortSignal
  /** Whether the call sets no maximum. */
  readonly isUnbounded?: boolean
  /** Milliseconds per attempt, and attempts after the first. */
  readonly timeout?: number
  readonly maxRetries?: number
  readonly onText?: (text: string) => void
}

export type Caller = (limiter: CallLimiter, options: CallOptions<unknown>, call: Call) => Promise<void>

/** Each sends one call and reads its response to the end, or until it fails. */
export const CALLERS: Readonly<Record<string, Caller>> = {
  fetch: async (limiter, options, {url, ending, isStream, signal, isUnbounded, onText}) => {
    const send = limitedFetch(limiter, options)
    const body = JSON.stringify({model: 'gpt-4', stream: isStream, messages: MESSAGES, ...maximum(isUnbounded)})
    const headers = {'x-ending': ending}
    const response = await send(`${url}/v1/chat/completions`, {method: 'POST', body, headers, ...(signal && {signal})})
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) onText?.(decoder.decode(chunk, {stream: true}))
  },
  'the OpenAI SDK': async (
    limiter,
    options,
    {url, ending, isStream, signal, isUnbounded, timeout, maxRetries = 0, onText},
  ) => {
    const client = new OpenAI({
      apiKey: 'none',
      baseURL: `${url}/v1`,
      fetch: limitedFetch(limiter, options),
      maxRetries,
      ...(timeout && {timeout}),
    })
    const rules = {headers: {'x-ending': ending}, ...(signal && {signal})}
    const body = {model: 'gpt-4', messages: MESSAGES, ...maximum(isUnbounded)}
    if (!isStream) await client.chat.completions.create(body, rules)
    else
      for await (const {choices} of await client.chat.completions.create({...body, stream: true}, rules))
        onText?.(choices[0]?.delta.content ?? '')
  },
  'the AI SDK': async (limiter, options, {url, ending, isStream, signal, isUnbounded, onText}) => {
    const sdk = SDKS['ai 7'] as (typeof SDKS)[string]
    const model = testModel(sdk.specification, url, {'x-ending': ending}, {messages: MESSAGES, ...maximum(isUnbounded)})
    const middleware = limitedModel(limiter, options)
    const call = {
      model,
      middleware,
      prompt: TOKEN.repeat(INPUT),
      maxOutputTokens: MAXIMUM,
      isUnbounded: isUnbounded ?? false,
      ...(signal && {abortSignal: signal}),
    }
    if (!isStream) await sdk.generate(call)
    else for await (const part of sdk.stream(call)) if (part.type === 'text-delta') onText?.(part.text ?? '')
  },
}

const maximum = (isUnbounded = false) => (isUnbounded ? {} : {max_tokens: MAXIMUM})
