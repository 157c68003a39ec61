import {createServer, type IncomingMessage, type ServerResponse} from 'node:http'
import type {AddressInfo} from 'node:net'

/** Behaviour of the server, selected by the request header `x-case`. */
export type Case =
  | 'usage'
  | 'no-usage'
  | 'error'
  | 'refuse'
  /** Fails midway through the stream, with an error event. */
  | 'error-event'
  /** Drops the connection before the response. */
  | 'drop'
  /** Sends half of the response and waits until the client leaves or the test drops the connection. */
  | 'hang'

/** The server's text: 25 characters, of which half a stream has the first 13. */
const WORDS = ['Hello ', 'there. ', 'How are ', 'you?']
export const TEXT = WORDS.join('')
export const HALF = WORDS.slice(0, 2).join('')

/** The reported usage, whatever was sent. */
export const COUNTED = {input: 11, cacheWrite: 3, cacheRead: 500, output: 7}

type Event = Readonly<Record<string, unknown>>

/** The format of one provider: JSON and streams. */
interface Protocol {
  readonly answer: Event
  readonly usage: Event
  readonly start: readonly Event[]
  readonly delta: (text: string) => Event
  readonly end: (hasUsage: boolean) => readonly (Event | string)[]
}

const CHAT_USAGE = {prompt_tokens: 11, completion_tokens: 7, total_tokens: 18}
const RESPONSES_USAGE = {input_tokens: 11, output_tokens: 7, total_tokens: 18}

/** By request path. Anthropic's prompt caches are counted separately. */
const PROTOCOLS: Readonly<Record<string, Protocol>> = {
  '/v1/chat/completions': {
    answer: {id: 'c1', object: 'chat.completion', choices: [{index: 0, message: {role: 'assistant', content: TEXT}}]},
    usage: CHAT_USAGE,
    start: [{choices: [{index: 0, delta: {role: 'assistant', content: ''}}], usage: null}],
    delta: content => ({choices: [{index: 0, delta: {content}}], usage: null}),
    end: hasUsage => [
      {choices: [{index: 0, delta: {}, finish_reason: 'stop'}], usage: null},
      ...(hasUsage ? [{choices: [], usage: CHAT_USAGE}] : []),
      '[DONE]',
    ],
  },
  '/v1/responses': {
    answer: {id: 'r1', output: [{type: 'message', content: [{type: 'output_text', text: TEXT}]}]},
    usage: RESPONSES_USAGE,
    start: [{type: 'response.created', response: {id: 'r1', usage: null}}],
    delta: delta => ({type: 'response.output_text.delta', delta}),
    end: hasUsage => [{type: 'response.completed', response: {id: 'r1', usage: hasUsage ? RESPONSES_USAGE : null}}],
  },
  '/v1/messages': {
    answer: {id: 'm1', type: 'message', content: [{type: 'text', text: TEXT}]},
    usage: {
      input_tokens: 11,
      cache_creation_input_tokens: 3,
      cache_read_input_tokens: COUNTED.cacheRead,
      output_tokens: 7,
    },
    start: [
      {
        type: 'message_start',
        message: {id: 'm1', usage: {input_tokens: 11, cache_creation_input_tokens: 3, output_tokens: 1}},
      },
      {type: 'content_block_start', index: 0, content_block: {type: 'text', text: ''}},
    ],
    delta: text => ({type: 'content_block_delta', index: 0, delta: {type: 'text_delta', text}}),
    end: hasUsage => [
      {type: 'message_delta', delta: {stop_reason: 'end_turn'}, ...(hasUsage && {usage: {output_tokens: 7}})},
      {type: 'message_stop'},
    ],
  },
}

export const PATHS = Object.keys(PROTOCOLS)

/** Speaks the protocols of OpenAI and Anthropic. */
export interface ModelServer {
  readonly url: string
  /** Every received body, in order. */
  readonly bodies: string[]
  /** Paths of the requests that arrived. */
  readonly paths: string[]
  /** Drops the connections of hanging responses. */
  drop(): void
  close(): Promise<void>
}

export async function startModelServer(): Promise<ModelServer> {
  const bodies: string[] = []
  const paths: string[] = []
  let hanging: ServerResponse[] = []
  const server = createServer(async (request, response) => {
    paths.push(request.url ?? '')
    if (request.headers['x-case'] === 'hang') hanging.push(response)
    bodies.push(await answer(request, response))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const {port} = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    bodies,
    paths,
    drop: () => {
      for (const response of hanging) response.destroy()
      hanging = []
    },
    close: () =>
      new Promise<void>(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** Returns the sent body. */
async function answer(request: IncomingMessage, response: ServerResponse): Promise<string> {
  const {stream} = JSON.parse((await readAll(request)) || '{}')
  const what = (request.headers['x-case'] ?? 'usage') as Case
  const protocol = PROTOCOLS[request.url ?? '']
  if (what === 'drop') {
    request.socket.destroy()
    return ''
  }
  if (what === 'error' || what === 'refuse' || !protocol) {
    return sendJson(response, {error: {message: 'no'}}, protocol ? (what === 'error' ? 500 : 429) : 200)
  }
  if (!stream) return sendJson(response, {...protocol.answer, ...(what === 'usage' && {usage: protocol.usage})}, 200)
  return sendEvents(response, protocol, what)
}

function sendJson(response: ServerResponse, body: object, status: number): string {
  const text = JSON.stringify(body)
  response.writeHead(status, {'content-type': 'application/json'}).end(text)
  return text
}

async function sendEvents(response: ServerResponse, protocol: Protocol, what: Case): Promise<string> {
  let sent = ''
  const send = (events: readonly (Event | string)[]) => {
    for (const event of events) {
      const text = `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`
      sent += text
      response.write(text)
    }
  }
  response.writeHead(200, {'content-type': 'text/event-stream; charset=utf-8'})
  const isWhole = what === 'usage' || what === 'no-usage'
  send([...protocol.start, ...(isWhole ? WORDS : WORDS.slice(0, 2)).map(protocol.delta)])
  if (isWhole) send(protocol.end(what === 'usage'))
  if (what === 'error-event') send([{type: 'error', error: {type: 'overloaded_error', message: 'no'}}])
  if (what !== 'hang') response.end()
  return sent
}

async function readAll(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}
