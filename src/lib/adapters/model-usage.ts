/** Tokens of one call, as providers bill them. No token is counted twice. */
export interface ModelUsage {
  /** Input that was neither read from nor written to a prompt cache. */
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  /** Includes hidden reasoning. */
  readonly output: number
}

/** Tokens that a call is expected to use. */
export interface TokenEstimate {
  readonly input: number
  /** The maximum that the response may have. 0: the call sets none. */
  readonly output: number
}

/** How much each token counts for limits of tokens. @default 1 */
export type UsageWeights = {readonly [Kind in keyof ModelUsage]?: number}

export const usageOf = ({input, output}: TokenEstimate): ModelUsage => ({input, cachedInput: 0, cacheWrite: 0, output})

/**
 * Fields of all usage reports, by what they count: OpenAI (chat, responses, embeddings), OpenRouter and other compatible
 * APIs, Anthropic, Gemini, Bedrock and the AI SDK. The first one present counts; of `more`, all.
 */
const FIELDS = {
  input: [
    'prompt_tokens',
    'input_tokens',
    'promptTokenCount',
    'inputTokens',
    'inputTokens.total',
    'inputTextTokenCount',
  ],
  moreInput: ['toolUsePromptTokenCount'],
  output: ['completion_tokens', 'output_tokens', 'candidatesTokenCount', 'outputTokens', 'outputTokens.total'],
  moreOutput: ['thoughtsTokenCount'],
  /** Also counted in the input. */
  cachedInput: [
    'prompt_tokens_details.cached_tokens',
    'input_tokens_details.cached_tokens',
    'prompt_cache_hit_tokens',
    'cachedContentTokenCount',
    'cachedInputTokens',
    'inputTokens.cacheRead',
  ],
  cacheWrite: ['prompt_tokens_details.cache_write_tokens', 'inputTokens.cacheWrite'],
  /** Not counted in the input, unless that is `prompt_tokens`: proxies add them to it. */
  cachedApart: ['cache_read_input_tokens', 'cacheReadInputTokens'],
  writtenApart: ['cache_creation_input_tokens', 'cacheWriteInputTokens'],
  total: ['total_tokens', 'totalTokenCount', 'totalTokens'],
} as const

/** What a report says. A stream may report input first and output later. */
interface ReportedUsage extends Omit<ModelUsage, 'output'> {
  readonly output: number | undefined
}

export function readUsage(report: Readonly<Record<string, unknown>>): ReportedUsage | undefined {
  const counts = (fields: readonly string[]) => fields.map(field => at(report, field)).filter(isCount)
  const first = (fields: readonly string[]) => counts(fields)[0]
  const sum = (fields: readonly string[]) => counts(fields).reduce((total, count) => total + count, 0)
  const input = first(FIELDS.input)
  if (input === undefined) return undefined
  const isApart = !isCount(report.prompt_tokens)
  const [cachedApart = 0, writtenApart = 0] = [first(FIELDS.cachedApart), first(FIELDS.writtenApart)]
  const cachedInput = first(FIELDS.cachedInput) ?? cachedApart
  const cacheWrite = first(FIELDS.cacheWrite) ?? writtenApart
  const within =
    (first(FIELDS.cachedInput) ?? (isApart ? 0 : cachedApart)) +
    (first(FIELDS.cacheWrite) ?? (isApart ? 0 : writtenApart))
  const output = first(FIELDS.output)
  // Embeddings report no output, only a total.
  const isInputOnly = output === undefined && first(FIELDS.total) !== undefined
  return {
    input: Math.max(0, input - within) + sum(FIELDS.moreInput),
    cachedInput,
    cacheWrite,
    output: output === undefined && !isInputOnly ? undefined : (output ?? 0) + sum(FIELDS.moreOutput),
  }
}

function at(report: Readonly<Record<string, unknown>>, path: string): unknown {
  return path.split('.').reduce<unknown>((value, name) => recordOf(value)[name], report)
}

/** Characters of ASCII text per token: typical for English and code. Other characters count as a token each. */
const CHARACTERS_PER_TOKEN = 4

/** Stands for an image or a file: about what providers count for a large image. */
const TOKENS_PER_ATTACHMENT = 1600

const NO_TEXT = new Set(
  'id type role object model status finish_reason stop_reason stop_sequence signature providerOptions'.split(' '),
)

/** Counts the tokens of a text. */
export type Tokenizer = (text: string) => number

/** Tokens of all texts and attachments in a value. */
export function tokensOfTexts(value: unknown, tokenizer?: Tokenizer): number {
  const {text, tokens} = textsIn(value)
  return tokens + (tokenizer ?? estimateTokens)(text)
}

/** Never fewer than a token for each character that is not ASCII, such as Chinese. */
function estimateTokens(text: string): number {
  const other = charactersBeyondAscii(text)
  return other + Math.ceil((text.length - other) / CHARACTERS_PER_TOKEN)
}

const charactersBeyondAscii = (text: string): number => text.replace(/\p{ASCII}+/gu, '').length

function textsIn(value: unknown, key = ''): {text: string; tokens: number} {
  if (typeof value === 'string' && !isAttachment(value, key)) return {text: value, tokens: 0}
  if (typeof value === 'string' || value instanceof Uint8Array || value instanceof URL)
    return {text: '', tokens: TOKENS_PER_ATTACHMENT}
  const parts = Array.isArray(value)
    ? value.map(each => textsIn(each, key))
    : Object.entries(recordOf(value)).flatMap(([name, each]) => (NO_TEXT.has(name) ? [] : [textsIn(each, name)]))
  return {text: parts.map(({text}) => text).join(''), tokens: parts.reduce((sum, {tokens}) => sum + tokens, 0)}
}

function isAttachment(text: string, key: string): boolean {
  return text.startsWith('data:') || key === 'data' || key === 'file_data' || key === 'bytes'
}

export function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

/** Follows a response, and tells what the call has used. */
export class UsageTally {
  readonly #tokenizer: Tokenizer | undefined
  #report: Readonly<Record<string, unknown>> = {}
  #isCounted = false
  #mayCount = false
  /** Kept only for a tokenizer. */
  #text = ''
  #ascii = 0
  #other = 0
  #deltas = 0
  #isComplete = false
  #hasFailed = false

  constructor(tokenizer?: Tokenizer) {
    this.#tokenizer = tokenizer
  }

  /** `final`: of the whole response; `so far`: too, if no part follows. Later reports complete or replace earlier ones. */
  report(value: unknown, of: 'start' | 'so far' | 'final'): void {
    const report = Object.fromEntries(Object.entries(recordOf(value)).filter(([, count]) => count !== null))
    if (readUsage(report) === undefined && !FIELDS.output.some(field => isCount(at(report, field)))) return
    this.#report = {...this.#report, ...report}
    this.#isCounted = of === 'final'
    this.#mayCount = of === 'so far'
  }

  /** A part of the response. Each part has at least one token. */
  addDelta(value: unknown): void {
    const {text, tokens} = textsIn(value)
    const other = charactersBeyondAscii(text)
    this.#deltas++
    this.#ascii += text.length - other
    this.#other += other + tokens
    if (this.#tokenizer) this.#text += text
  }

  /** All parts have arrived, even if the connection breaks afterwards. */
  complete(): void {
    this.#isComplete = true
  }

  /** The provider gave up on the response, despite a status of success. */
  fail(): void {
    this.#hasFailed = true
  }

  /** Output tokens received, never fewer than reported so far. */
  get received(): number {
    const estimated = this.#tokenizer?.(this.#text) ?? this.#other + Math.ceil(this.#ascii / CHARACTERS_PER_TOKEN)
    return Math.max(this.#deltas, estimated, readUsage(this.#report)?.output ?? 0)
  }

  /** The provider's count. */
  get counted(): ModelUsage | undefined {
    const usage = this.#isCounted || (this.#mayCount && this.#isComplete) ? readUsage(this.#report) : undefined
    return usage?.output === undefined ? undefined : {...usage, output: usage.output}
  }

  /**
   * Without the provider's count, the larger of estimate and received. `outputOfBroken` is the least for a response that
   * broke off: the provider may have generated more than arrived.
   */
  used(estimate: TokenEstimate, isBroken: boolean, outputOfBroken: number): ModelUsage {
    const {counted} = this
    if (counted) return counted
    const known = readUsage(this.#report) ?? usageOf(estimate)
    const isPart = (isBroken || this.#hasFailed) && !this.#isComplete
    const reserved = estimate.input + estimate.output - (known.input + known.cachedInput + known.cacheWrite)
    return {...known, output: Math.max(this.received, isPart ? outputOfBroken : reserved)}
  }
}
