import {createServer, type IncomingMessage, type ServerResponse} from 'node:http'
import {setImmediate} from 'node:timers/promises'
import {gzipSync} from 'node:zlib'
import {type HttpServer, listen} from '../shared/listen.js'
import {type Allowance, DIALECTS, type Dialect, type Reply} from './dialects.js'

/**
 * A simulated provider of models on this machine. It serves OpenAI's chat completions and Anthropic's messages, as JSON or
 * as a stream, with `usage` and rate limit fields. Above its own limit it answers 429.
 */
export interface ModelServer extends HttpServer {
  /** Tokens of all answers, as the provider would bill them. */
  readonly billedTokens: number
  /** Requests that the provider answered, and requests that it refused. */
  readonly answered: number
  readonly refused: number
}

/** The provider's limits per hour. */
export interface ModelServerOptions {
  readonly requests: number
  readonly tokens: number
}

const WINDOW_SECONDS = 3600
const TEXT =
  'A token bucket holds what may be used at once and is filled at a steady rate . Who takes more than it holds has to wait , and who takes less loses nothing .'

interface ModelRequest {
  readonly model?: string
  readonly stream?: boolean
  readonly stream_options?: {readonly include_usage?: boolean}
  readonly max_tokens?: number
  readonly messages?: readonly {readonly content: string}[]
}

/** Listens on a free port of the loopback interface. */
export async function startModelServer({requests, tokens}: ModelServerOptions): Promise<ModelServer> {
  const tally = {billedTokens: 0, answered: 0, refused: 0}
  const left = (limit: number, used: number): Allowance => ({
    limit,
    remaining: Math.max(0, limit - used),
    resetSeconds: WINDOW_SECONDS,
  })
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const dialect = DIALECTS[request.url ?? '']
    if (!dialect) return sendJson(response, 404, {error: {message: 'unknown path'}})
    const asked = JSON.parse(await readAll(request)) as ModelRequest
    const isRefused = tally.answered >= requests || tally.billedTokens >= tokens
    const reply = replyTo(asked)
    if (isRefused) tally.refused++
    else {
      tally.answered++
      tally.billedTokens += reply.usage.input + reply.usage.output
    }
    const fields = dialect.headers(left(requests, tally.answered), left(tokens, tally.billedTokens))
    for (const [name, value] of Object.entries(fields)) response.setHeader(name, value)
    if (isRefused) {
      response.setHeader('retry-after', String(WINDOW_SECONDS))
      return sendJson(response, 429, dialect.error('The provider has had enough of this account.'))
    }
    return asked.stream ? sendEvents(response, dialect, reply) : sendJson(response, 200, dialect.answer(reply))
  }
  const server = createServer((request, response) => {
    handle(request, response).catch(error => response.destroy(error))
  })
  return Object.assign(tally, await listen(server))
}

/** A token per word. This differs from zael's estimate, so that there is something to settle. */
function replyTo({model = 'unknown', stream, stream_options, max_tokens, messages = []}: ModelRequest): Reply {
  const words = TEXT.split(' ').slice(0, max_tokens)
  const input = messages.flatMap(({content}) => content.match(/\S+/g) ?? []).length
  return {
    model,
    pieces: words.map((word, at) => (at === 0 ? word : ` ${word}`)),
    usage: {input, output: words.length},
    hasUsage: !stream || stream_options?.include_usage === true,
  }
}

async function sendEvents(response: ServerResponse, dialect: Dialect, reply: Reply): Promise<void> {
  response.writeHead(200, {'content-type': 'text/event-stream; charset=utf-8'})
  for (const event of dialect.events(reply)) {
    response.write(event)
    await setImmediate()
  }
  response.end()
}

/** Compressed, as real providers send it to `fetch`. */
function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, {'content-type': 'application/json', 'content-encoding': 'gzip'})
  response.end(gzipSync(JSON.stringify(body)))
}

async function readAll(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}
