import * as ai7 from 'ai'
import * as ai5 from 'ai-5'
import * as ai6 from 'ai-6'
import type {LimitedModelMiddleware} from '../../src/lib/adapters/ai-sdk.js'

export interface SdkCall {
  readonly model: unknown
  readonly middleware: LimitedModelMiddleware
  readonly maxRetries?: number
  readonly abortSignal?: AbortSignal
  readonly prompt?: string
  /** @default 100 */
  readonly maxOutputTokens?: number
  /** Sends no maximum. */
  readonly isUnbounded?: boolean
}

/** A version of the AI SDK, as used by the tests. */
export interface Sdk {
  /** Version of the model specification. */
  readonly specification: 'v2' | 'v3' | 'v4'
  generate(call: SdkCall): Promise<string>
  /** The types of all parts, and the text; ends with the first error. */
  stream(call: SdkCall): AsyncIterable<{type: string; text?: string; error?: unknown}>
  isApiCallError(error: unknown): boolean
}

const PROMPT = {prompt: 'x'.repeat(40)} as const
const onError = () => {}

/** Real packages, whose types must accept the middleware without a cast. */
export const SDKS: Readonly<Record<string, Sdk>> = {
  'ai 5': {
    specification: 'v2',
    generate: async ({model, middleware, ...call}) =>
      (
        await ai5.generateText({
          model: ai5.wrapLanguageModel({model: model as Model5, middleware}),
          ...settings(call),
        })
      ).text,
    stream: ({model, middleware, ...call}) =>
      ai5.streamText({
        model: ai5.wrapLanguageModel({model: model as Model5, middleware}),
        ...settings(call),
        onError,
      }).fullStream,
    isApiCallError: error => ai5.APICallError.isInstance(error),
  },
  'ai 6': {
    specification: 'v3',
    generate: async ({model, middleware, ...call}) =>
      (
        await ai6.generateText({
          model: ai6.wrapLanguageModel({model: model as Model6, middleware}),
          ...settings(call),
        })
      ).text,
    stream: ({model, middleware, ...call}) =>
      ai6.streamText({
        model: ai6.wrapLanguageModel({model: model as Model6, middleware}),
        ...settings(call),
        onError,
      }).fullStream,
    isApiCallError: error => ai6.APICallError.isInstance(error),
  },
  'ai 7': {
    specification: 'v4',
    generate: async ({model, middleware, ...call}) =>
      (
        await ai7.generateText({
          model: ai7.wrapLanguageModel({model: model as Model7, middleware}),
          ...settings(call),
        })
      ).text,
    stream: ({model, middleware, ...call}) =>
      ai7.streamText({
        model: ai7.wrapLanguageModel({model: model as Model7, middleware}),
        ...settings(call),
        onError,
      }).fullStream,
    isApiCallError: error => ai7.APICallError.isInstance(error),
  },
}

type Model5 = Parameters<typeof ai5.wrapLanguageModel>[0]['model']
type Model6 = Parameters<typeof ai6.wrapLanguageModel>[0]['model']
type Model7 = Parameters<typeof ai7.wrapLanguageModel>[0]['model']

function settings({
  maxRetries = 0,
  maxOutputTokens = 100,
  isUnbounded = false,
  ...call
}: Omit<SdkCall, 'model' | 'middleware'>) {
  return {...PROMPT, ...(!isUnbounded && {maxOutputTokens}), maxRetries, ...call}
}

/** A model of the given specification that calls the model server, as chat completions. */
export function testModel(
  specification: Sdk['specification'],
  url: string,
  headers: Record<string, string>,
  body: object = {},
): object {
  const ask = async (stream: boolean, signal: AbortSignal | undefined) => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers,
      // As the SDK's own providers do.
      body: JSON.stringify({...body, stream, ...(stream && {stream_options: {include_usage: true}})}),
      ...(signal && {signal}),
    })
    if (!response.ok) {
      const fields = {statusCode: response.status, responseBody: await response.text()}
      throw Object.assign(new Error(`the provider answers ${response.status}`), fields)
    }
    return response
  }
  const finishReason = specification === 'v2' ? 'stop' : {unified: 'stop', raw: 'stop'}
  const usageOf = (usage: {prompt_tokens?: number; completion_tokens?: number} | undefined) =>
    specification === 'v2'
      ? {inputTokens: usage?.prompt_tokens, outputTokens: usage?.completion_tokens, totalTokens: undefined}
      : {inputTokens: {total: usage?.prompt_tokens}, outputTokens: {total: usage?.completion_tokens}}
  return {
    specificationVersion: specification,
    provider: 'test',
    modelId: 'gpt-4',
    supportedUrls: {},
    doGenerate: async ({abortSignal}: {abortSignal?: AbortSignal}) => {
      const {choices, usage} = JSON.parse(await (await ask(false, abortSignal)).text())
      const content = [{type: 'text', text: choices[0].message.content}]
      return {content, finishReason, usage: usageOf(usage), warnings: []}
    },
    doStream: async ({abortSignal}: {abortSignal?: AbortSignal}) => {
      const response = await ask(true, abortSignal)
      return {stream: (response.body as ReadableStream<Uint8Array>).pipeThrough(partsOf(finishReason, usageOf))}
    },
  }
}

function partsOf(
  finishReason: unknown,
  usageOf: (usage: object | undefined) => object,
): TransformStream<Uint8Array, object> {
  const decoder = new TextDecoder()
  let rest = ''
  let usage: object | undefined
  return new TransformStream<Uint8Array, object>({
    start: controller => {
      controller.enqueue({type: 'stream-start', warnings: []})
      controller.enqueue({type: 'text-start', id: '1'})
    },
    transform: (chunk, controller) => {
      const events = (rest + decoder.decode(chunk, {stream: true})).split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) {
        const data = event.slice('data: '.length)
        if (data === '[DONE]') {
          controller.enqueue({type: 'text-end', id: '1'})
          controller.enqueue({type: 'finish', finishReason, usage: usageOf(usage)})
        } else {
          const parsed = JSON.parse(data)
          usage = parsed.usage ?? usage
          if (parsed.error) controller.enqueue({type: 'error', error: parsed.error})
          const delta = parsed.choices?.[0]?.delta?.content
          if (delta) controller.enqueue({type: 'text-delta', id: '1', delta})
        }
      }
    },
  })
}
