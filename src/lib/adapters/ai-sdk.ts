/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Limits calls to language models of the AI SDK, versions 5, 6 and 7.
 *
 * @packageDocumentation
 */
import {type CallLimiter, type CallOptions, createCallGuard} from './call-charge.js'
import type {RefusedRequest} from './guard.js'
import {isCount, recordOf, type TokenEstimate, tokensOfText, UsageTally} from './model-call.js'
import {observedStream} from './observed-stream.js'
import type {ProviderAnswer} from './provider.js'

export type {CallDecisionOptions, CallLimiter, CallOptions} from './call-charge.js'
export type {DecisionOptions, GuardLimiter, HeaderStyle, LimitNames} from './guard.js'
export type {TokenEstimate} from './model-call.js'
export type {ProviderAccount, ProviderLimit, ProviderLimitNames, ReportingLimiter} from './provider.js'

/** One call to a language model. */
export interface LanguageModelCall {
  readonly model: {readonly modelId: string; readonly provider: string}
  readonly params: LanguageModelParams
}

/** Call parameters that every version of the SDK has. */
export interface LanguageModelParams {
  readonly prompt: unknown
  readonly tools?: unknown
  readonly maxOutputTokens?: number | undefined
  readonly abortSignal?: AbortSignal | undefined
  /** Options that the caller passes to providers; may also name the entity to charge. */
  readonly providerOptions?: Readonly<Record<string, Readonly<Record<string, unknown>>>> | undefined
}

/** Options of {@link limitedModel}. */
export type LimitedModelOptions = CallOptions<LanguageModelCall>

/** Middleware for `wrapLanguageModel`. */
export interface LimitedModelMiddleware {
  /** Version 6 requires it; the other versions ignore it. */
  readonly specificationVersion: 'v3'
  wrapGenerate<Result extends {readonly content: unknown; readonly usage: unknown}>(
    options: LanguageModelCall & {readonly doGenerate: () => PromiseLike<Result>},
  ): Promise<Result>
  wrapStream<Result extends {readonly stream: ReadableStream<unknown>}>(
    options: LanguageModelCall & {readonly doStream: () => PromiseLike<Result>},
  ): Promise<Result>
}

/**
 * Middleware that reserves one request and all tokens a call may use, then settles with the usage the model reports.
 * A refusal is an `APICallError` with status 429, which the SDK retries after the wait, up to `maxRetries` times.
 *
 * @example
 * ```ts
 * const model = wrapLanguageModel({model: openai('gpt-4'), middleware: limitedModel(limiter, {entity: 'team-7'})})
 * ```
 */
export function limitedModel(limiter: CallLimiter, options: LimitedModelOptions): LimitedModelMiddleware {
  const guard = createCallGuard(limiter, options, estimateOf)

  async function run<Result>(
    call: LanguageModelCall,
    work: () => PromiseLike<Result>,
  ): Promise<{result: Result; settle(tally: UsageTally, isBroken: boolean): Promise<void>}> {
    const outcome = await guard(call, call.model.modelId, call.params.abortSignal)
    if (!outcome) return {result: await work(), settle: async () => {}}
    if (outcome.kind === 'gone') throw call.params.abortSignal?.reason
    if (outcome.kind === 'refused') throw apiCallError(outcome)
    let result: Result
    try {
      result = await work()
    } catch (error) {
      const {statusCode, responseHeaders} = recordOf(error)
      await outcome.failed(typeof statusCode === 'number' ? answerOf(statusCode, responseHeaders) : undefined)
      throw error
    }
    await outcome.answered(answerOf(200, recordOf(recordOf(result).response).headers))
    return {result, settle: outcome.settle}
  }

  return {
    specificationVersion: 'v3',
    wrapGenerate: async ({doGenerate, model, params}) => {
      const {result, settle} = await run({model, params}, doGenerate)
      const tally = new UsageTally()
      tallyPart(tally, {...result, type: 'finish', delta: result.content})
      await settle(tally, false)
      return result
    },
    wrapStream: async ({doStream, model, params}) => {
      const {result, settle} = await run({model, params}, doStream)
      const tally = new UsageTally()
      const stream = observedStream(result.stream, {
        chunk: part => tallyPart(tally, recordOf(part)),
        end: isBroken => settle(tally, isBroken),
      })
      return {...result, stream}
    },
  }
}

function answerOf(status: number, headers: unknown): ProviderAnswer {
  const fields = recordOf(headers)
  return {
    status,
    field: name => {
      const value = fields[name]
      return typeof value === 'string' ? value : undefined
    },
  }
}

function estimateOf({params: {prompt, tools, maxOutputTokens = 0}}: LanguageModelCall): TokenEstimate {
  return {input: tokensOfText([prompt, tools]), output: maxOutputTokens}
}

/** Version 5 reports plain counts, later versions objects with a `total`. */
function tallyPart(tally: UsageTally, part: Readonly<Record<string, unknown>>): void {
  tally.addText(part.delta)
  if (part.type === 'error') tally.fail()
  if (part.type !== 'finish') return
  const {inputTokens, outputTokens} = recordOf(part.usage)
  const [input, output] = [inputTokens, outputTokens].map(tokens => [tokens, recordOf(tokens).total].find(isCount))
  tally.count({...(input !== undefined && {input}), ...(output !== undefined && {output})}, true)
  tally.complete()
}

/** The AI SDK recognizes its errors by these symbols, whichever copy of its packages made them. */
const MARKERS = ['vercel.ai.error', 'vercel.ai.error.AI_APICallError'].map(name => Symbol.for(name))

/** Converts a refusal to the AI SDK's `APICallError`; `isRetryable` if waiting helps. */
function apiCallError({status, headers, retryAfterMs, problem}: RefusedRequest): Error {
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
