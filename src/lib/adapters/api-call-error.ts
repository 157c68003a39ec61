import type {RefusedRequest} from './guard.js'

/** How the AI SDK knows its errors, whichever copy of its packages has made them. */
const MARKERS = ['vercel.ai.error', 'vercel.ai.error.AI_APICallError'].map(name => Symbol.for(name))

/** A refusal as the AI SDK knows it from providers: an `APICallError`, which it repeats when waiting helps. */
export function apiCallError({status, headers, retryAfterMs, problem}: RefusedRequest): Error {
  const fields = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
  return Object.assign(new Error(`${problem.title}. ${problem.detail}`), {
    name: 'AI_APICallError',
    url: '',
    requestBodyValues: {},
    statusCode: status,
    responseHeaders: {
      ...Object.fromEntries(fields),
      ...(retryAfterMs !== null && {'retry-after-ms': String(Math.ceil(retryAfterMs))}),
    },
    responseBody: JSON.stringify(problem),
    isRetryable: retryAfterMs !== null,
    data: problem,
    ...Object.fromEntries(MARKERS.map(marker => [marker, true])),
  })
}
