/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Limits the language models of the AI SDK, versions 5, 6 and 7.
 *
 * @packageDocumentation
 */
import type {Lease} from '../limiter/lease.js'
import {apiCallError} from './api-call-error.js'
import {createGuard, type DecisionOptions} from './guard.js'
import {isCount, recordOf, type TokenEstimate, tokensOfText} from './model-call.js'
import {observedStream} from './observed-stream.js'
import {reservation, settleTokens} from './settlement.js'
import {UsageTally} from './usage-tally.js'

export type {HeaderStyle, LimitNames} from './dialects.js'
export type {DecisionOptions, GuardLimiter} from './guard.js'
export type {TokenEstimate} from './model-call.js'

/** One call of a language model. */
export interface LanguageModelCall {
  readonly model: {readonly modelId: string; readonly provider: string}
  readonly params: LanguageModelParams
}

/** What is known of the parameters of a call in every version of the SDK. */
export interface LanguageModelParams {
  readonly prompt: unknown
  readonly tools?: unknown
  readonly maxOutputTokens?: number | undefined
  readonly abortSignal?: AbortSignal | undefined
  /** What the caller passes to providers: also the place to say who is charged. */
  readonly providerOptions?: Readonly<Record<string, Readonly<Record<string, unknown>>>> | undefined
}

/** How the calls of a language model are limited. */
export interface LimitedModelOptions extends DecisionOptions {
  /** Who is charged. */
  readonly entity: string | ((call: LanguageModelCall) => string | Promise<string>)
  /** What for; the id of the model unless said otherwise. */
  readonly resource?: string | ((call: LanguageModelCall) => string | Promise<string>)
  /** Tokens that a call may use, instead of about a token per four characters and `maxOutputTokens`. */
  readonly estimate?: (call: LanguageModelCall) => TokenEstimate | Promise<TokenEstimate>
  /** Calls that are not limited. */
  readonly skip?: (call: LanguageModelCall) => boolean | Promise<boolean>
}

/** For `wrapLanguageModel`. */
export interface LimitedModelMiddleware {
  /** Version 6 asks for it, the others do not look at it. */
  readonly specificationVersion: 'v3'
  wrapGenerate<Result extends {readonly content: unknown; readonly usage: unknown}>(
    options: LanguageModelCall & {readonly doGenerate: () => PromiseLike<Result>},
  ): Promise<Result>
  wrapStream<Result extends {readonly stream: ReadableStream<unknown>}>(
    options: LanguageModelCall & {readonly doStream: () => PromiseLike<Result>},
  ): Promise<Result>
}

/**
 * A middleware that charges a call with one request and all tokens that it may use, and corrects them by the usage that
 * the model reports. A refusal is an `APICallError` with status 429, which the SDK repeats in due time, `maxRetries` times.
 *
 * @example
 * ```ts
 * const model = wrapLanguageModel({model: openai('gpt-4'), middleware: limitedModel({limiter, entity: 'team-7'})})
 * ```
 */
export function limitedModel(options: LimitedModelOptions): LimitedModelMiddleware {
  const {entity, resource, estimate = estimateOf, limitNames = {}} = options
  const guard = createGuard<LanguageModelCall & {readonly estimate: TokenEstimate}>({
    ...options,
    entity: call => (typeof entity === 'string' ? entity : entity(call)),
    resource: call => (typeof resource === 'function' ? resource(call) : (resource ?? call.model.modelId)),
    consume: call => reservation(call.estimate, limitNames),
  })

  /** Admits a call and runs it. When it fails, everything is returned. */
  async function run<Result>(
    call: LanguageModelCall,
    work: () => PromiseLike<Result>,
  ): Promise<{result: Result; settle(tally: UsageTally, isBroken: boolean): Promise<void>}> {
    const estimated = await estimate(call)
    const outcome = await guard({...call, estimate: estimated}, call.params.abortSignal)
    if (outcome.kind === 'gone') throw call.params.abortSignal?.reason
    if (outcome.kind === 'refused') throw apiCallError(outcome)
    const lease: Lease | undefined = outcome.kind === 'admitted' ? outcome.lease : undefined
    try {
      const result = await work()
      const settle = async (tally: UsageTally, isBroken: boolean) => {
        if (lease) await settleTokens(lease, estimated, tally.tokens(estimated, isBroken), limitNames)
      }
      return {result, settle}
    } catch (error) {
      await lease?.rollback()
      throw error
    }
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

function estimateOf({params: {prompt, tools, maxOutputTokens = 0}}: LanguageModelCall): TokenEstimate {
  return {input: tokensOfText([prompt, tools]), output: maxOutputTokens}
}

/** Takes in a part of a stream. Version 5 reports counts, later ones objects with a `total`. */
function tallyPart(tally: UsageTally, part: Readonly<Record<string, unknown>>): void {
  tally.addText(part.delta)
  if (part.type === 'error') tally.fail()
  if (part.type !== 'finish') return
  const {inputTokens, outputTokens} = recordOf(part.usage)
  const [input, output] = [inputTokens, outputTokens].map(tokens => [tokens, recordOf(tokens).total].find(isCount))
  tally.count({...(input !== undefined && {input}), ...(output !== undefined && {output})}, true)
  tally.complete()
}
