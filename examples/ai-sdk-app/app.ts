import type {RequestListener, ServerResponse} from 'node:http'
import {APICallError, generateText, type LanguageModel, streamText, wrapLanguageModel} from 'ai'
import type {RateLimiter} from 'zael'
import {limitedModel} from 'zael/ai-sdk'

type ProviderModel = Parameters<typeof wrapLanguageModel>[0]['model']

/** A model whose calls are charged to the user that `providerOptions` names: `rpd` requests and `tpd` tokens per day. */
export function perUser(model: ProviderModel, limiter: RateLimiter): LanguageModel {
  return wrapLanguageModel({
    model,
    middleware: limitedModel(limiter, {
      entity: ({params}) => String(params.providerOptions?.zael?.user ?? 'nobody'),
      limits: {requests: 'rpd', tokens: 'tpd'},
    }),
  })
}

/** `POST /answer` answers at once, `POST /chat` streams. The header field `x-user` names the user. */
export function createApp(model: LanguageModel): RequestListener {
  return async (request, response) => {
    let prompt = ''
    for await (const chunk of request) prompt += chunk
    const call = {
      model,
      prompt,
      maxOutputTokens: 100,
      // No retries: a refusal reaches the client at once, with the time to wait.
      maxRetries: 0,
      providerOptions: {zael: {user: String(request.headers['x-user'] ?? 'nobody')}},
    }
    try {
      if (request.url === '/chat') {
        for await (const part of streamText({...call, onError: () => {}}).fullStream) {
          if (part.type === 'error') throw part.error
          if (part.type === 'text-delta') response.write(part.text)
        }
      } else {
        const {text, usage} = await generateText(call)
        response.setHeader('content-type', 'application/json')
        response.write(JSON.stringify({text, tokens: usage.totalTokens}))
      }
      response.end()
    } catch (error) {
      refuse(response, error)
    }
  }
}

/** Sends a refusal to the client. Refusals of zael and of the provider are both an `APICallError`. */
function refuse(response: ServerResponse, error: unknown): void {
  if (response.headersSent) return void response.destroy()
  const {statusCode = 500, responseHeaders = {}, responseBody} = APICallError.isInstance(error) ? error : {}
  response.statusCode = statusCode
  for (const [name, value] of Object.entries(responseHeaders)) {
    if (/ratelimit|^retry-after$/.test(name)) response.setHeader(name, value)
  }
  response.end(responseBody ?? 'This did not work.')
}
