/** State of one of the provider's own limits. */
export interface Allowance {
  readonly limit: number
  readonly remaining: number
  /** Time until the limit is full again. */
  readonly resetSeconds: number
}

/** An answer, before it is written in a provider's format. */
export interface Reply {
  readonly model: string
  /** The text of the answer, in the pieces in which it is streamed. */
  readonly pieces: readonly string[]
  /** In tokens, as the provider counts them. */
  readonly usage: {readonly input: number; readonly output: number}
  /** OpenAI's chat streams have `usage` only if the request asks for it. */
  readonly hasUsage: boolean
}

/** The format of a provider's responses. */
export interface Dialect {
  answer(reply: Reply): object
  /** The events of a stream, each as it is sent. */
  events(reply: Reply): string[]
  error(message: string): object
  headers(requests: Allowance, tokens: Allowance): Record<string, string>
}

const openai: Dialect = {
  answer: ({model, pieces, usage}) => ({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    model,
    choices: [{index: 0, message: {role: 'assistant', content: pieces.join('')}, finish_reason: 'stop'}],
    usage: openaiUsage(usage),
  }),
  events: ({model, pieces, usage, hasUsage}) => {
    const chunk = (choices: readonly object[], counted: object | null) =>
      dataLine({id: 'chatcmpl-1', object: 'chat.completion.chunk', model, choices, usage: counted})
    return [
      chunk([{index: 0, delta: {role: 'assistant', content: ''}}], null),
      ...pieces.map(content => chunk([{index: 0, delta: {content}}], null)),
      chunk([{index: 0, delta: {}, finish_reason: 'stop'}], null),
      ...(hasUsage ? [chunk([], openaiUsage(usage))] : []),
      'data: [DONE]\n\n',
    ]
  },
  error: message => ({error: {type: 'requests', code: 'rate_limit_exceeded', message}}),
  headers: (requests, tokens) => ({...openaiFields('requests', requests), ...openaiFields('tokens', tokens)}),
}

const anthropic: Dialect = {
  answer: ({model, pieces, usage}) => ({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model,
    content: [{type: 'text', text: pieces.join('')}],
    stop_reason: 'end_turn',
    usage: {input_tokens: usage.input, output_tokens: usage.output},
  }),
  events: ({model, pieces, usage}) => {
    const started = {input_tokens: usage.input, output_tokens: 1}
    const events = [
      {type: 'message_start', message: {id: 'msg_1', type: 'message', role: 'assistant', model, usage: started}},
      {type: 'content_block_start', index: 0, content_block: {type: 'text', text: ''}},
      ...pieces.map(text => ({type: 'content_block_delta', index: 0, delta: {type: 'text_delta', text}})),
      {type: 'content_block_stop', index: 0},
      {type: 'message_delta', delta: {stop_reason: 'end_turn'}, usage: {output_tokens: usage.output}},
      {type: 'message_stop'},
    ]
    return events.map(event => `event: ${event.type}\n${dataLine(event)}`)
  },
  error: message => ({type: 'error', error: {type: 'rate_limit_error', message}}),
  headers: (requests, tokens) => ({...anthropicFields('requests', requests), ...anthropicFields('tokens', tokens)}),
}

/** Keyed by the path of the request. */
export const DIALECTS: Readonly<Record<string, Dialect>> = {
  '/v1/chat/completions': openai,
  '/v1/messages': anthropic,
}

function openaiUsage({input, output}: Reply['usage']): object {
  return {prompt_tokens: input, completion_tokens: output, total_tokens: input + output}
}

function openaiFields(what: string, {limit, remaining, resetSeconds}: Allowance): Record<string, string> {
  return {
    [`x-ratelimit-limit-${what}`]: String(limit),
    [`x-ratelimit-remaining-${what}`]: String(remaining),
    [`x-ratelimit-reset-${what}`]: `${resetSeconds}s`,
  }
}

function anthropicFields(what: string, {limit, remaining, resetSeconds}: Allowance): Record<string, string> {
  return {
    [`anthropic-ratelimit-${what}-limit`]: String(limit),
    [`anthropic-ratelimit-${what}-remaining`]: String(remaining),
    [`anthropic-ratelimit-${what}-reset`]: new Date(Date.now() + resetSeconds * 1000).toISOString(),
  }
}

function dataLine(value: object): string {
  return `data: ${JSON.stringify(value)}\n\n`
}
