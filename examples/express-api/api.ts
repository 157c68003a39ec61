import express from 'express'
import type {RateLimiter} from 'zael'
import {expressLimiter, hashKey, leaseOf} from 'zael/express'

export interface ApiOptions {
  readonly limiter: RateLimiter
  /** Where the provider of models listens. */
  readonly provider: string
}

/** Estimated tokens of an answer. The handler settles the difference from the actual usage. */
const RESERVED_TOKENS = 100

/** An API whose keys have a number of requests (`rpd`) and tokens (`tpd`) per day. */
export function createApi({limiter, provider}: ApiOptions): express.Express {
  const app = express()
  app.use(
    expressLimiter<express.Request>(limiter, {
      // Keys are neither stored nor logged. A request without a key gets a 400.
      entity: request => hashKey(request.get('x-api-key')),
      resource: 'api',
      consume: request => costOf(request.path),
      skip: request => request.path === '/health',
      // Our own failures cost nothing.
      refundIf: status => status >= 500,
    }),
  )
  app.use(express.json())

  app.get('/health', (_request, response) => void response.json({ok: true}))
  app.get('/notes', (_request, response) => void response.json(['buy milk']))
  app.get('/reports', (_request, response) => void response.json({rows: 1_000_000}))
  app.get('/broken', (_request, response) => void response.status(500).json({error: 'a bug of ours'}))

  app.post('/answers', async (request, response) => {
    const answered = await askModel(provider, request.body.question, false)
    const {choices, usage} = (await answered.json()) as ChatCompletion
    await leaseOf(request)?.adjust({tpd: usage.total_tokens - RESERVED_TOKENS})
    response.json({answer: choices[0]?.message.content, tokens: usage.total_tokens})
  })

  app.post('/answers/stream', async (request, response) => {
    const answered = await askModel(provider, request.body.question, true)
    response.type('text/event-stream')
    let text = ''
    for await (const piece of answered.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      response.write(piece)
      text += piece
    }
    // If the stream has no count, the reservation stays charged.
    const tokens = Number(/"total_tokens":(\d+)/.exec(text)?.[1] ?? RESERVED_TOKENS)
    await leaseOf(request)?.adjust({tpd: tokens - RESERVED_TOKENS})
    response.end()
  })
  return app
}

interface ChatCompletion {
  readonly choices: readonly {readonly message: {readonly content: string}}[]
  readonly usage: {readonly total_tokens: number}
}

/** A report costs five requests. An answer costs one request and tokens. */
function costOf(path: string): Record<string, number> {
  if (path === '/reports') return {rpd: 5}
  return path.startsWith('/answers') ? {rpd: 1, tpd: RESERVED_TOKENS} : {rpd: 1}
}

async function askModel(provider: string, question: unknown, stream: boolean): Promise<Response> {
  const body = {
    model: 'small-model',
    max_tokens: 50,
    messages: [{role: 'user', content: String(question)}],
    ...(stream && {stream, stream_options: {include_usage: true}}),
  }
  return fetch(`${provider}/v1/chat/completions`, {method: 'POST', body: JSON.stringify(body)})
}
