/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Limits calls to OpenAI, Anthropic, Gemini, Bedrock and compatible APIs, from their SDKs or a plain `fetch`.
 *
 * @packageDocumentation
 */
import {abortedBy, releasableSignal, responseLike, type StreamObserver} from '../limiter/observed-stream.js'
import {hasType, noteUsage, type ReadAnswer, sendAsking, withoutUsage} from './asked-usage.js'
import {
  type CallCharge,
  type CallLimiter,
  type CallOptions,
  type CallOutcome,
  createCallGuard,
  refusedCall,
  settledStream,
} from './call-charge.js'
import {keepLease, refusalResponse} from './guard.js'
import {AwsEventReader, type EventReader, EventStreamReader, tallyAnswer, tallyEvent} from './model-answer.js'
import {
  answersOf,
  estimateCall,
  isDeferred,
  type ModelCall,
  mayUseModel,
  type ReadCall,
  readModelCall,
  withModel,
} from './model-call.js'
import {UsageTally} from './model-usage.js'
import {warningOnce} from './problem.js'

export {hashKey} from '../schema/hashed-name.js'
export type {CallLimiter, CallOptions, SettledCall} from './call-charge.js'
export type {CallLimit, CallLimits} from './call-limits.js'
export type {DecisionOptions, GuardLimiter, HeaderStyle, LimitNames} from './guard.js'
export {leaseOf} from './guard.js'
export type {ModelCall} from './model-call.js'
export type {CallPrice, ModelPrice, PriceTable, TokenPrices} from './model-price.js'
export type {ModelUsage, TokenEstimate, Tokenizer, TokenKind, UsageWeights} from './model-usage.js'
export type {ProviderAccount, ProviderLimit, ReportingLimiter} from './provider.js'

/** Options of {@link limitedFetch}. */
export interface LimitedFetchOptions extends CallOptions<ModelCall> {
  /** Sends the calls. @default the global `fetch` */
  readonly fetch?: typeof fetch
  /** Models in order of preference. If a call of one is refused, those after it are tried. @default none */
  readonly fallback?: readonly string[]
  /** Calls without a readable model, batches, fine-tuning: refuse them, or charge this resource. @default 'refuse' */
  readonly onUnknownModel?: 'refuse' | {readonly resource: string}
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
  const {fetch: send = fetch, drain = false, tokenizer} = options
  const admit = createAdmission(limiter, options)
  return async (input, init) => {
    const read = await readModelCall(input, init)
    const signal = init?.signal ?? (typeof input === 'object' && 'signal' in input ? input.signal : undefined)
    const {outcome, sent} = await admit(read, signal)
    if (!outcome) return send(sent.input, sent.init)
    if (outcome.kind === 'gone') throw signal?.reason
    if (outcome.kind === 'refused') return refusalResponse(outcome)
    if (signal?.aborted) {
      await outcome.neverSent()
      throw signal.reason
    }
    const upstream = drain && signal ? releasableSignal(signal) : undefined
    let answer: ReadAnswer
    try {
      answer = await sendAsking(sent, call =>
        send(call.input, upstream ? {...call.init, signal: upstream.signal} : call.init),
      )
    } catch (error) {
      await outcome.failed(signal?.aborted ? undefined : error)
      throw error
    } finally {
      upstream?.release()
    }
    const {response, error, isAsked} = answer
    const head = {status: response.status, field: (name: string) => response.headers.get(name)}
    await (response.ok ? outcome.answered(head) : outcome.refused(head, error))
    if (!response.ok) {
      keepLease(outcome.lease, response)
      return response
    }
    const settle = (of: UsageTally) => {
      noteUsage(sent, of)
      return outcome.settle(of)
    }
    const tally = new UsageTally(tokenizer, answersOf(sent.call.body))
    const observed = await observedResponse(response, {...outcome, settle}, tally, drain)
    const seen = isAsked ? withoutUsage(observed) : observed
    const whole = upstream && signal && seen.body ? responseLike(seen, abortedBy(seen.body, signal)) : seen
    keepLease(outcome.lease, whole)
    return whole
  }
}

interface Admission {
  /** `undefined`: not limited. */
  readonly outcome: CallOutcome | undefined
  /** With the model that was admitted. */
  readonly sent: ReadCall
}

function createAdmission(
  limiter: CallLimiter,
  options: LimitedFetchOptions,
): (read: ReadCall, signal: AbortSignal | null | undefined) => Promise<Admission> {
  const {fallback = [], onUnknownModel = 'refuse', resource, skip} = options
  const guard = createCallGuard(limiter, options, estimateCall)
  return async (read, signal) => {
    const {call} = read
    const isUnknown = call.model === undefined && (resource === undefined || isDeferred(call))
    if (!mayUseModel(call)) return {outcome: undefined, sent: read}
    if (isUnknown && (await skip?.(call))) return {outcome: undefined, sent: read}
    if (isUnknown) warnUnknownModel(`${call.method} ${call.url.replace(/[?#].*$/, '')}`)
    if (isUnknown && onUnknownModel === 'refuse') return {outcome: UNKNOWN_MODEL, sent: read}
    const at = read.json ? fallback.indexOf(call.model ?? '') : -1
    const others = at < 0 ? [] : fallback.slice(at + 1)
    const unknown = isUnknown && onUnknownModel !== 'refuse' ? onUnknownModel.resource : undefined
    let sent = read
    let outcome = await guard(call, call.model, {signal, isLast: others.length === 0, unknown})
    for (const model of others) {
      if (outcome?.kind !== 'refused' || outcome.status !== 429) break
      sent = withModel(read, model)
      outcome = await guard(sent.call, model, {signal, isLast: model === others.at(-1)})
    }
    return {outcome, sent}
  }
}

const UNKNOWN_MODEL = refusedCall('Unknown model', 'The model of this call cannot be read, so its limits are unknown.')

const warnUnknownModel = warningOnce(
  'ZAEL_UNKNOWN_MODEL',
  'The model of a call cannot be read, so `onUnknownModel` decides how to charge it',
)

async function observedResponse(
  response: Response,
  charge: CallCharge,
  tally: UsageTally,
  isDrained: boolean,
): Promise<Response> {
  if (!response.body) {
    tally.hidesNothing()
    await charge.settle(tally)
    return response
  }
  const onData = (data: string) => {
    tallyEvent(tally, data)
    charge.progress(tally)
  }
  const events = hasType(response, 'text/event-stream')
    ? new EventStreamReader(onData)
    : hasType(response, 'application/vnd.amazon.eventstream')
      ? new AwsEventReader(onData)
      : undefined
  const observer = events
    ? eventObserver(events, tally, charge)
    : /^(audio|image|video)\//i.test(response.headers.get('content-type') ?? '')
      ? mediaObserver(tally, charge)
      : answerObserver(tally, charge, response.headers)
  return responseLike(response, settledStream(response.body, observer, isDrained))
}

/** Sound and images are not decoded as text. */
function mediaObserver(tally: UsageTally, charge: CallCharge): StreamObserver<Uint8Array> {
  return {
    chunk: chunk => tally.addMedia(chunk.length),
    end: isBroken => {
      if (!isBroken) tally.hidesNothing()
      return charge.settle(tally)
    },
  }
}

function eventObserver(events: EventReader, tally: UsageTally, charge: CallCharge): StreamObserver<Uint8Array> {
  return {
    chunk: chunk => events.read(chunk),
    end: () => {
      events.end()
      return charge.settle(tally)
    },
  }
}

/** Longest body that is kept, in characters. More can only be images or sound. */
const MOST_CHARACTERS = 2 ** 26

/** Keeps the whole body: `usage` may be at the start or at the end of the JSON. */
function answerObserver(tally: UsageTally, charge: CallCharge, headers: Headers): StreamObserver<Uint8Array> {
  const decoder = new TextDecoder()
  let text = ''
  return {
    chunk: chunk => {
      if (text.length < MOST_CHARACTERS) text += decoder.decode(chunk, {stream: true})
    },
    end: isBroken => {
      const isPart = isBroken || text.length >= MOST_CHARACTERS
      if (isPart) tally.addDelta(isBroken ? text : '')
      else tallyAnswer(tally, text + decoder.decode())
      if (!tally.counted) tally.report(bedrockReport(headers), 'final')
      return charge.settle(tally)
    },
  }
}

/** Bedrock also reports the usage of a response that is not streamed in header fields. */
function bedrockReport(headers: Headers): object {
  const count = (name: string) => headers.get(`x-amzn-bedrock-${name}-token-count`)
  return {
    inputTokenCount: count('input'),
    outputTokenCount: count('output'),
    cacheReadInputTokenCount: count('cache-read-input'),
    cacheWriteInputTokenCount: count('cache-write-input'),
  }
}
