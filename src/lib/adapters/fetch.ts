/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Limits calls to OpenAI, Anthropic and compatible APIs, from their SDKs or a plain `fetch`.
 *
 * @packageDocumentation
 */
import {type CallLimiter, type CallOptions, createCallGuard} from './call-charge.js'
import {keepLease, refusalResponse} from './guard.js'
import {estimateCall, type ModelCall, readModelCall, tallyAnswer, tallyEvent, UsageTally} from './model-call.js'
import {EventStreamReader, observedStream, type StreamObserver} from './observed-stream.js'

export type {CallDecisionOptions, CallLimiter, CallOptions} from './call-charge.js'
export type {DecisionOptions, GuardLimiter, HeaderStyle, LimitNames} from './guard.js'
export {leaseOf} from './guard.js'
export type {ModelCall, TokenEstimate} from './model-call.js'
export type {ProviderAccount, ProviderLimit, ProviderLimitNames, ReportingLimiter} from './provider.js'

/** Options of {@link limitedFetch}. */
export interface LimitedFetchOptions extends CallOptions<ModelCall> {
  /** Sends the calls. @default the global `fetch` */
  readonly fetch?: typeof fetch
}

/**
 * A `fetch` that reserves one request and all tokens a call may use, then settles with the `usage` in the response,
 * JSON or stream. A refusal is a `Response` with status 429.
 *
 * @example
 * ```ts
 * const client = new OpenAI({fetch: limitedFetch(limiter, {entity: 'team-7'})})
 * ```
 */
export function limitedFetch(limiter: CallLimiter, options: LimitedFetchOptions): typeof fetch {
  const {fetch: send = fetch} = options
  const guard = createCallGuard(limiter, options, estimateCall)
  return async (input, init) => {
    const call = await readModelCall(input, init)
    const signal = init?.signal ?? (typeof input === 'object' && 'signal' in input ? input.signal : undefined)
    const outcome = await guard(call, call.model, signal)
    if (!outcome) return send(input, init)
    if (outcome.kind === 'gone') throw signal?.reason
    if (outcome.kind === 'refused') return refusalResponse(outcome)
    let response: Response
    try {
      response = await send(input, init)
    } catch (error) {
      await outcome.failed()
      throw error
    }
    const answer = {status: response.status, field: (name: string) => response.headers.get(name)}
    await (response.ok ? outcome.answered(answer) : outcome.failed(answer))
    const observed = response.ok ? observedResponse(response, outcome.settle) : response
    keepLease(outcome.lease, observed)
    return observed
  }
}

type Settle = (tally: UsageTally, isBroken: boolean) => Promise<void>

function observedResponse(response: Response, settle: Settle): Response {
  const {body, status, statusText, headers, url} = response
  if (!body) return response
  const isStream = headers.get('content-type')?.startsWith('text/event-stream') ?? false
  const observer = isStream ? eventObserver(settle) : answerObserver(settle)
  const observed = new Response(observedStream(body, observer), {status, statusText, headers})
  return Object.defineProperty(observed, 'url', {value: url})
}

function eventObserver(settle: Settle): StreamObserver<Uint8Array> {
  const tally = new UsageTally()
  const events = new EventStreamReader(data => tallyEvent(tally, data))
  return {
    chunk: chunk => events.read(chunk),
    end: isBroken => {
      events.end()
      return settle(tally, isBroken)
    },
  }
}

/** Keeps the whole body: `usage` may be at the start or at the end of the JSON. */
function answerObserver(settle: Settle): StreamObserver<Uint8Array> {
  const decoder = new TextDecoder()
  let text = ''
  return {
    chunk: chunk => {
      text += decoder.decode(chunk, {stream: true})
    },
    end: isBroken => {
      const tally = new UsageTally()
      if (!isBroken) tallyAnswer(tally, text + decoder.decode())
      // A caller who reads only a part has still paid the provider for all: the estimate stays charged.
      return settle(tally, false)
    },
  }
}
