import type {RefusedDecision} from '../limiter/decision.js'
import {RateLimitExceeded, RequestTooLarge} from '../limiter/refusal/errors.js'

/** The body of a refusal: problem details (RFC 9457). */
export interface ProblemDetails {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly 'violated-policies'?: readonly string[]
  /** The provider's shared limit was too small, not the caller's. */
  readonly 'limited-by'?: 'provider'
}

export const PROBLEM_TYPE = 'application/problem+json'

const QUOTA_EXCEEDED = 'https://iana.org/assignments/http-problem-types#quota-exceeded'

/** Gives the reason, but hides whose limit it was, such as a parent's. */
export function problemOf({error}: RefusedDecision): ProblemDetails {
  if (error instanceof RateLimitExceeded) {
    const names = new Set(error.statuses.filter(status => status.exceeded).map(status => status.name))
    const seconds = Math.max(1, Math.ceil(error.retryAfterMs / 1000))
    return tooManyRequests([...names], `Too little is left. Try again in ${seconds} second${seconds === 1 ? '' : 's'}.`)
  }
  if (error instanceof RequestTooLarge) {
    const {limit, requested, capacity} = error
    return tooManyRequests(
      [limit],
      `The request needs ${requested} ${limit}, and there are never more than ${capacity}.`,
    )
  }
  return {type: 'about:blank', title: 'Forbidden', status: 403, detail: 'This is switched off at the moment.'}
}

export const UNAVAILABLE: ProblemDetails = {
  type: 'about:blank',
  title: 'Service Unavailable',
  status: 503,
  detail: 'The request could not be admitted now. Try again.',
}

function tooManyRequests(names: readonly string[], detail: string): ProblemDetails {
  return {type: QUOTA_EXCEEDED, title: 'Quota exceeded', status: 429, detail, 'violated-policies': names}
}

/** The part of a `node:http` response that adapters need. */
export interface NodeResponse {
  statusCode: number
  readonly headersSent: boolean
  readonly destroyed: boolean
  setHeader(name: string, value: string): unknown
  end(body?: string): unknown
  once(event: 'close', listener: () => void): unknown
  removeListener(event: 'close', listener: () => void): unknown
}

export async function whileConnected<T>(response: NodeResponse, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const leaving = new AbortController()
  const leave = () => leaving.abort()
  if (response.destroyed) leave()
  response.once('close', leave)
  try {
    return await work(leaving.signal)
  } finally {
    response.removeListener('close', leave)
  }
}

/** Not called if the client disconnects before the headers are sent. */
export function onAnswered(response: NodeResponse, listener: (status: number) => Promise<void>): void {
  response.once('close', () => {
    // The response is out: an error, such as one from `refundIf`, must not end the process.
    if (response.headersSent) listener(response.statusCode).catch(error => process.emitWarning(error))
  })
}

export function warningOnce(code: string, what: string): (error: unknown) => void {
  let hasWarned = false
  return error => {
    if (hasWarned) return
    hasWarned = true
    const why = error instanceof Error ? error.message : String(error)
    process.emitWarning(`${what} (${why}). Said once per process.`, {type: 'ZaelWarning', code})
  }
}
