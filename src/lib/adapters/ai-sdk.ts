/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Limits calls to language models of the AI SDK, versions 5, 6 and 7.
 *
 * @packageDocumentation
 */
import {abortedBy, releasableSignal} from '../limiter/observed-stream.js'
import {type CallCharge, type CallLimiter, type CallOptions, createCallGuard, settledStream} from './call-charge.js'
import type {RefusedRequest} from './guard.js'
import {
  at,
  isCount,
  readUsage,
  recordOf,
  type TokenEstimate,
  type Tokenizer,
  tokensOfTexts,
  UsageTally,
} from './model-usage.js'
import type {ProviderAnswer} from './provider.js'

export {hashKey} from '../schema/hashed-name.js'
export type {CallLimiter, CallOptions, SettledCall} from './call-charge.js'
export type {CallLimit, CallLimits} from './call-limits.js'
export type {DecisionOptions, GuardLimiter, HeaderStyle, LimitNames} from './guard.js'
export type {CallPrice, ModelPrice, PriceTable, TokenPrices} from './model-price.js'
export type {ModelUsage, TokenEstimate, Tokenizer, TokenKind, UsageWeights} from './model-usage.js'
export type {ProviderAccount, ProviderLimit, ReportingLimiter} from './provider.js'

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
  /** Only with `drain`: lets a stream end although its caller has aborted. */
  transformParams?<Params extends LanguageModelParams>(options: {readonly params: Params}): Promise<Params>
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
  const {drain = false, tokenizer} = options
  const guard = createCallGuard(limiter, options, estimateOf)
  /** By the parameters whose signal they replace. */
  const upstreams = new WeakMap<object, Upstream>()

  async function run<Result>(
    call: LanguageModelCall,
    work: () => PromiseLike<Result>,
  ): Promise<{result: Result; charge: CallCharge | undefined}> {
    const signal = upstreams.get(call.params)?.callers ?? call.params.abortSignal
    const outcome = await guard(call, call.model.modelId, {signal})
    if (!outcome) return {result: await work(), charge: undefined}
    if (outcome.kind === 'gone') throw signal?.reason
    if (outcome.kind === 'refused') throw apiCallError(outcome)
    if (signal?.aborted) {
      await outcome.neverSent()
      throw signal.reason
    }
    let result: Result
    try {
      result = await work()
    } catch (error) {
      const {statusCode, responseHeaders, responseBody} = recordOf(error)
      const body = typeof responseBody === 'string' ? responseBody : ''
      if (typeof statusCode === 'number') await outcome.refused(answerOf(statusCode, responseHeaders), body)
      else await outcome.failed(signal?.aborted ? undefined : error)
      throw error
    } finally {
      upstreams.get(call.params)?.release()
    }
    await outcome.answered(answerOf(200, recordOf(recordOf(result).response).headers))
    return {result, charge: outcome}
  }

  return {
    specificationVersion: 'v3',
    ...(drain && {
      transformParams: async ({params}) => {
        if (!params.abortSignal) return params
        const upstream = releasableSignal(params.abortSignal)
        const replaced = {...params, abortSignal: upstream.signal}
        upstreams.set(replaced, {...upstream, callers: params.abortSignal})
        return replaced
      },
    }),
    wrapGenerate: async ({doGenerate, model, params}) => {
      const {result, charge} = await run({model, params}, doGenerate)
      const tally = new UsageTally(tokenizer)
      tally.addDelta(result.content)
      tally.report(reportIn(result, model.provider), 'final')
      tally.complete()
      await charge?.settle(tally)
      return result
    },
    wrapStream: async ({doStream, model, params}) => {
      const {result, charge} = await run({model, params}, doStream)
      if (!charge) return result
      const tally = new UsageTally(tokenizer)
      const observer = {
        chunk: (part: unknown) => {
          tallyPart(tally, recordOf(part), model.provider)
          charge.progress(tally)
        },
        end: () => charge.settle(tally),
      }
      const stream = settledStream(result.stream, observer, drain)
      const callers = upstreams.get(params)?.callers
      return {...result, stream: callers ? abortedBy(stream, callers) : stream}
    },
  }
}

interface Upstream {
  readonly callers: AbortSignal
  release(): void
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

function estimateOf(
  {params: {prompt, tools, maxOutputTokens = 0, providerOptions}}: LanguageModelCall,
  tokenizer: Tokenizer | undefined,
): TokenEstimate {
  const input = tokensOfTexts([prompt, tools], tokenizer)
  if (maxOutputTokens === 0) return {input, output: 0}
  // The SDK's providers of Anthropic and Bedrock add these to the maximum that they send.
  const budgets = Object.values(recordOf(providerOptions)).flatMap(options =>
    ['thinking.budgetTokens', 'reasoningConfig.budgetTokens'].map(path => at(recordOf(options), path)).filter(isCount),
  )
  return {input, output: maxOutputTokens + Math.max(0, ...budgets)}
}

function tallyPart(tally: UsageTally, part: Readonly<Record<string, unknown>>, provider: string): void {
  if (part.delta !== undefined) tally.addDelta(part.delta)
  if (part.type !== 'finish') return
  const isWhole = hasReason(part.finishReason)
  tally.report(reportIn(part, provider), isWhole ? 'final' : 'start')
  if (isWhole) tally.complete()
}

const ENDINGS = new Set<unknown>(['stop', 'length', 'content-filter', 'tool-calls'])

/** The SDK adds the last part to streams that break off too, with the usage so far. */
function hasReason(reason: unknown): boolean {
  const {unified = reason, raw} = recordOf(reason)
  return raw !== undefined || ENDINGS.has(unified)
}

/** Of all reports, the one with the most tokens: the SDK's own lacks some that others have. */
function reportIn({usage, providerMetadata, response}: Readonly<Record<string, unknown>>, provider: string): object {
  const sdk = recordOf(usage)
  const owns = Object.values(recordOf(providerMetadata))
    .map(recordOf)
    .map(own => recordOf(own.usage ?? own.usageMetadata))
  const reports = [recordOf(sdk.raw), ...owns]
  if (typeof sdk.inputTokens === 'number' && /bedrock/.test(provider)) {
    // In version 5, without input that is read from or written to a cache.
    const {inputTokens, outputTokens, cachedInputTokens: cacheReadInputTokens} = sdk
    reports.push(Object.assign({inputTokens, outputTokens, cacheReadInputTokens}, ...owns))
  }
  // Of a response that is not streamed.
  const {service_tier, tool_usage, ...body} = recordOf(recordOf(response).body)
  reports.push({service_tier, tool_usage, ...recordOf(body.usage ?? body.usageMetadata)})
  const tokensIn = (report: Readonly<Record<string, unknown>>): number => {
    const {input = 0, cachedInput = 0, cacheWrite = 0, output = 0} = readUsage(report) ?? {}
    return input + cachedInput + cacheWrite + output
  }
  return reports.reduce((most, report) => (tokensIn(report) >= tokensIn(most) ? report : most), sdk)
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
