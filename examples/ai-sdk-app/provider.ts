import {APICallError, type wrapLanguageModel} from 'ai'

/** A model as version 7 of the SDK knows it. */
type Model = Extract<Parameters<typeof wrapLanguageModel>[0]['model'], {specificationVersion: 'v4'}>
type CallOptions = Parameters<Model['doGenerate']>[0]
type Usage = Awaited<ReturnType<Model['doGenerate']>>['usage']
type StreamPart = Awaited<ReturnType<Model['doStream']>>['stream'] extends ReadableStream<infer Part> ? Part : never

interface ChatChunk {
  readonly choices: readonly {
    readonly message?: {readonly content: string}
    readonly delta?: {readonly content?: string}
  }[]
  readonly usage: {readonly prompt_tokens: number; readonly completion_tokens: number} | null
}

const FINISHED = {unified: 'stop', raw: 'stop'} as const

/**
 * Chat completions of a provider, for text only. It stands in for `@ai-sdk/openai` or any other provider, so that the
 * example needs no more than `ai`.
 */
export function chatModel(provider: string, modelId: string): Model {
  const post = async ({prompt, maxOutputTokens, abortSignal}: CallOptions, stream: boolean): Promise<Response> => {
    const url = `${provider}/v1/chat/completions`
    const messages = prompt.map(({role, content}) => ({role, content: textOf(content)}))
    const body = {
      model: modelId,
      max_tokens: maxOutputTokens,
      messages,
      stream,
      stream_options: {include_usage: stream},
    }
    const response = await fetch(url, {
      method: 'POST',
      body: JSON.stringify(body),
      ...(abortSignal && {signal: abortSignal}),
    })
    if (response.ok) return response
    throw new APICallError({
      message: 'The provider refuses.',
      url,
      requestBodyValues: body,
      statusCode: response.status,
      responseHeaders: Object.fromEntries(response.headers),
      responseBody: await response.text(),
    })
  }
  return {
    specificationVersion: 'v4',
    provider: 'example',
    modelId,
    supportedUrls: {},
    doGenerate: async options => {
      const {choices, usage} = (await (await post(options, false)).json()) as ChatChunk
      const text = choices[0]?.message?.content ?? ''
      return {content: [{type: 'text', text}], finishReason: FINISHED, usage: usageOf(usage), warnings: []}
    },
    doStream: async options => {
      const {body} = await post(options, true)
      if (!body) throw new Error('the provider sends no stream')
      return {stream: body.pipeThrough(new TextDecoderStream()).pipeThrough(partsOfEvents())}
    },
  }
}

function partsOfEvents(): TransformStream<string, StreamPart> {
  let rest = ''
  let usage = usageOf(null)
  return new TransformStream<string, StreamPart>({
    start: controller => {
      controller.enqueue({type: 'stream-start', warnings: []})
      controller.enqueue({type: 'text-start', id: '1'})
    },
    transform: (chunk, controller) => {
      const events = (rest + chunk).split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) {
        const data = event.slice('data: '.length)
        if (data === '[DONE]') continue
        const parsed = JSON.parse(data) as ChatChunk
        if (parsed.usage) usage = usageOf(parsed.usage)
        const delta = parsed.choices[0]?.delta?.content
        if (delta) controller.enqueue({type: 'text-delta', id: '1', delta})
      }
    },
    flush: controller => {
      controller.enqueue({type: 'text-end', id: '1'})
      controller.enqueue({type: 'finish', finishReason: FINISHED, usage})
    },
  })
}

function usageOf(usage: ChatChunk['usage']): Usage {
  const [input, output] = [usage?.prompt_tokens, usage?.completion_tokens]
  return {
    inputTokens: {total: input, noCache: input, cacheRead: undefined, cacheWrite: undefined},
    outputTokens: {total: output, text: output, reasoning: undefined},
  }
}

function textOf(content: CallOptions['prompt'][number]['content']): string {
  if (typeof content === 'string') return content
  return content.map(part => (part.type === 'text' ? part.text : '')).join('')
}
