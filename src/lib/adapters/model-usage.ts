import {warningOnce} from './problem.js'

/** Tokens of one call, as providers bill them. No token is counted twice. */
export interface ModelUsage {
  /** Input that was neither read from nor written to a prompt cache. */
  readonly input: number
  readonly cachedInput: number
  readonly cacheWrite: number
  /** Includes hidden reasoning. */
  readonly output: number
  /** The part of `cacheWrite` that is kept for an hour, which costs more. */
  readonly hourCacheWrite?: number
  /** The part of `input` that is sound or images. */
  readonly mediaInput?: number
  /** The part of `output` that is sound or images. */
  readonly mediaOutput?: number
  /** Web searches that the provider ran. */
  readonly searches?: number
  /** Dollars that the provider bills, if it reports them, as OpenRouter does. */
  readonly cost?: number
  /** The service tier that the provider used, such as OpenAI's `priority`. */
  readonly tier?: string
}

/** Tokens that a call is expected to use. */
export interface TokenEstimate {
  readonly input: number
  /** The maximum that the response may have. 0: the call sets none. */
  readonly output: number
  /** Alternative responses that the call asks for: each may have `maxOutput`. @default 1 */
  readonly answers?: number
}

/** The kinds of tokens of a call. Each token has one kind. */
export type TokenKind = 'input' | 'cachedInput' | 'cacheWrite' | 'output'

/** How much a token of each kind counts for limits of tokens. @default 1 */
export type UsageWeights = {readonly [Kind in TokenKind]?: number}

export const usageOf = ({input, output}: TokenEstimate): ModelUsage => ({input, cachedInput: 0, cacheWrite: 0, output})

/**
 * Fields of all usage reports, by what they count: OpenAI (chat, responses, embeddings), OpenRouter and other compatible
 * APIs, Anthropic, Gemini, Bedrock and its models, Cohere, Ollama and the AI SDK. The first one present counts; of
 * `more`, all.
 */
const FIELDS = {
  input: [
    'prompt_tokens',
    'input_tokens',
    'promptTokenCount',
    'inputTokens',
    'inputTokens.total',
    'inputTextTokenCount',
    'inputTokenCount',
    'prompt_token_count',
    'prompt_eval_count',
    'tokens.input_tokens',
  ],
  moreInput: ['toolUsePromptTokenCount'],
  output: [
    'completion_tokens',
    'output_tokens',
    'candidatesTokenCount',
    'outputTokens',
    'outputTokens.total',
    'outputTokenCount',
    'totalOutputTextTokenCount',
    'results.0.tokenCount',
    'generation_token_count',
    'eval_count',
    'tokens.output_tokens',
  ],
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
  cachedApart: ['cache_read_input_tokens', 'cacheReadInputTokens', 'cacheReadInputTokenCount'],
  writtenApart: ['cache_creation_input_tokens', 'cacheWriteInputTokens', 'cacheWriteInputTokenCount'],
  total: ['total_tokens', 'totalTokenCount', 'totalTokens'],
  hourCacheWrite: ['cache_creation.ephemeral_1h_input_tokens'],
  /** Each is counted in one of these places. */
  searches: ['server_tool_use.web_search_requests', 'tool_usage.web_search.num_requests', 'num_search_queries'],
  cost: ['cost', 'cost.total_cost'],
  mediaInput: [
    'prompt_tokens_details.audio_tokens',
    'prompt_tokens_details.image_tokens',
    'input_tokens_details.audio_tokens',
    'input_tokens_details.image_tokens',
    'input_token_details.audio_tokens',
    'input_token_details.image_tokens',
  ],
  mediaOutput: [
    'completion_tokens_details.audio_tokens',
    'completion_tokens_details.image_tokens',
    'output_tokens_details.audio_tokens',
    'output_tokens_details.image_tokens',
    'output_token_details.audio_tokens',
    'output_token_details.image_tokens',
  ],
} as const

/** The usage in a report. A stream may report input first and output later. */
interface ReportedUsage extends Omit<ModelUsage, 'output'> {
  readonly output: number | undefined
}

export function readUsage(report: Readonly<Record<string, unknown>>): ReportedUsage | undefined {
  const whole = readCounts(report)
  if (!whole) return undefined
  const read = (value: unknown) => readCounts(recordOf(value)) ?? NONE
  // Anthropic's own count lacks what it used to shorten the context; the iterations have both.
  const iterations = Array.isArray(report.iterations) ? report.iterations.map(read).reduce(plus, NONE) : NONE
  // OpenAI counts images that a model draws apart.
  const {input, output = 0} = read(recordOf(report.tool_usage).image_gen)
  return plus(larger(whole, iterations), {...NONE, input, output, mediaInput: input, mediaOutput: output})
}

const NONE: ReportedUsage = {input: 0, cachedInput: 0, cacheWrite: 0, output: undefined}

const AMOUNTS = ['input', 'cachedInput', 'cacheWrite', 'output', 'hourCacheWrite', 'mediaInput', 'mediaOutput'] as const

const larger = (one: ReportedUsage, other: ReportedUsage) => combined(one, other, Math.max)
const plus = (one: ReportedUsage, other: ReportedUsage) => combined(one, other, (a, b) => a + b)

function combined(one: ReportedUsage, other: ReportedUsage, of: (a: number, b: number) => number): ReportedUsage {
  const amounts = AMOUNTS.flatMap(name =>
    one[name] || other[name] ? [[name, of(one[name] ?? 0, other[name] ?? 0)] as const] : [],
  )
  return {...one, ...Object.fromEntries(amounts)}
}

function readCounts(report: Readonly<Record<string, unknown>>): ReportedUsage | undefined {
  const counts = (fields: readonly string[]) => fields.map(field => at(report, field)).filter(isCount)
  const first = (fields: readonly string[]) => counts(fields)[0]
  const sum = (fields: readonly string[]) => counts(fields).reduce((total, count) => total + count, 0)
  const [total, output] = [first(FIELDS.total), first(FIELDS.output)]
  // Embeddings and rerankers report no output, some only a total.
  const isInputOnly = output === undefined && total !== undefined
  const input = first(FIELDS.input) ?? (isInputOnly ? total : undefined)
  if (input === undefined) return undefined
  const isApart = !isCount(at(report, 'prompt_tokens'))
  const [cachedApart = 0, writtenApart = 0] = [first(FIELDS.cachedApart), first(FIELDS.writtenApart)]
  const cachedInput = first(FIELDS.cachedInput) ?? cachedApart
  const cacheWrite = first(FIELDS.cacheWrite) ?? writtenApart
  const within =
    (first(FIELDS.cachedInput) ?? (isApart ? 0 : cachedApart)) +
    (first(FIELDS.cacheWrite) ?? (isApart ? 0 : writtenApart))
  const plain = Math.max(0, input - within) + sum(FIELDS.moreInput)
  // xAI and Gemini's compatible API count hidden reasoning only in the total.
  const rest = (total ?? 0) - plain - cachedInput - cacheWrite
  return {
    input: plain,
    cachedInput,
    cacheWrite,
    output: output === undefined && !isInputOnly ? undefined : Math.max(rest, (output ?? 0) + sum(FIELDS.moreOutput)),
    ...part('hourCacheWrite', sum(FIELDS.hourCacheWrite)),
    ...part('mediaInput', sum(FIELDS.mediaInput) + mediaIn(report.promptTokensDetails)),
    ...part('mediaOutput', sum(FIELDS.mediaOutput) + mediaIn(report.candidatesTokensDetails)),
    ...part('searches', first(FIELDS.searches) ?? 0),
    ...part('cost', Math.max(0, ...FIELDS.cost.map(field => at(report, field)).filter(isAmount))),
    ...(typeof report.service_tier === 'string' && {tier: report.service_tier}),
  }
}

const isAmount = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value)

const part = (name: string, amount: number): object => (amount > 0 ? {[name]: amount} : {})

/** Gemini lists counts by modality. */
function mediaIn(details: unknown): number {
  const counts = Array.isArray(details) ? details.map(recordOf) : []
  return counts.reduce((sum, count) => {
    const tokens = at(count, 'tokenCount')
    return count.modality !== 'TEXT' && count.modality !== 'DOCUMENT' && isCount(tokens) ? sum + tokens : sum
  }, 0)
}

/** Some clients, servers and header fields write counts as text. */
export function at(report: Readonly<Record<string, unknown>>, path: string): unknown {
  const find = (value: unknown, name: string) => (Object(value) as Record<string, unknown>)[name]
  const found = path.split('.').reduce<unknown>(find, report)
  return typeof found === 'string' && /^\s*\d+(\.\d+)?\s*$/.test(found) ? Number(found) : found
}

/** Characters of ASCII text per token: typical for English and code. Other characters count as a token each. */
const CHARACTERS_PER_TOKEN = 4

/** Stands for an image or a file: about what providers count for a large image. */
const TOKENS_PER_ATTACHMENT = 1600

/** Fewer than the most compressed speech has. */
const BYTES_PER_MEDIA_TOKEN = 100

const NO_TEXT = new Set(
  'id type role object model status finish_reason stop_reason stopReason stop_sequence signature providerOptions'.split(
    ' ',
  ),
)

/** Fields that hold or name an image or a file. */
const ATTACHMENTS = new Set('data bytes b64_json file_data file_id file_url file_uri fileUri image_url'.split(' '))

/** Counts the tokens of a text. */
export type Tokenizer = (text: string) => number

/** Tokens of all texts and attachments in a value. */
export function tokensOfTexts(value: unknown, tokenizer?: Tokenizer): number {
  const {text, tokens} = textsIn(value)
  return tokens + (tokensBy(tokenizer, text) ?? estimateTokens(text))
}

/** `undefined` if the tokenizer fails: some refuse texts that users can write, such as `<|endoftext|>`. */
function tokensBy(tokenizer: Tokenizer | undefined, text: string): number | undefined {
  try {
    const tokens = tokenizer?.(text)
    if (tokens === undefined || (tokens >= 0 && Number.isFinite(tokens))) return tokens && Math.ceil(tokens)
    warnTokenizer(`it returned ${tokens}`)
  } catch (error) {
    warnTokenizer(error)
  }
  return undefined
}

const warnTokenizer = warningOnce('ZAEL_TOKENIZER', 'The tokenizer failed, so tokens are estimated from characters')

/** Never fewer than a token for each character that is not ASCII, such as Chinese. */
function estimateTokens(text: string): number {
  const other = charactersBeyondAscii(text)
  return other + Math.ceil((text.length - other) / CHARACTERS_PER_TOKEN)
}

const charactersBeyondAscii = (text: string): number => text.replace(/\p{ASCII}+/gu, '').length

/** Without recursion: clients can nest values deeper than the stack. */
function textsIn(whole: unknown): {text: string; tokens: number} {
  const texts: string[] = []
  let tokens = 0
  /** The values that contain the next value. */
  const open = new Set<unknown>()
  const pending: {value: unknown; key: string; isRead?: true}[] = [{value: whole, key: ''}]
  for (let next = pending.pop(); next; next = pending.pop()) {
    const {value, key, isRead} = next
    if (isRead) open.delete(value)
    else if (typeof value === 'string' && !value.startsWith('data:') && !ATTACHMENTS.has(key)) texts.push(value)
    else if (typeof value === 'string' || isFile(value)) tokens += TOKENS_PER_ATTACHMENT
    // Text that the caller has already split into tokens.
    else if (typeof value === 'number' && (key === 'input' || key === 'prompt')) tokens++
    else if (typeof value === 'object' && value !== null) {
      if (open.has(value)) throw new TypeError('The value contains itself.')
      open.add(value)
      pending.push({value, key, isRead: true})
      const parts = Array.isArray(value) ? value.map(each => [key, each] as const) : Object.entries(value)
      for (const [name, part] of parts.reverse())
        if (!NO_TEXT.has(name)) pending.push({value: part, key: isUrl(name, key) ? 'file_url' : name})
    }
  }
  return {text: texts.join(''), tokens}
}

const isFile = (value: unknown): boolean => value instanceof Uint8Array || value instanceof URL || value instanceof Blob

/** Images and documents by URL; other fields of this name hold text. */
const isUrl = (name: string, key: string): boolean => name === 'url' && (key === 'image_url' || key === 'source')

export function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

/** Follows a response, and counts the tokens that the call has used. */
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
  /** Alternative responses that the call asks for, and those that have begun and ended. */
  readonly #answers: number
  readonly #begun = new Set<unknown>()
  readonly #ended = new Set<unknown>()
  #isComplete = false
  #mayHide = true

  constructor(tokenizer?: Tokenizer, answers = 1) {
    this.#tokenizer = tokenizer
    this.#answers = answers
  }

  /** `final`: of the whole response; `so far`: too, if no text follows. Later reports complete or replace earlier ones. */
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
    if (text === '') return
    this.#isCounted = false
    this.#mayCount = false
  }

  /** A part of sound or images, in bytes. */
  addMedia(bytes: number): void {
    this.#other += bytes / BYTES_PER_MEDIA_TOKEN
  }

  /** A part of an alternative response. */
  follow(index: unknown, hasEnded: boolean): void {
    this.#begun.add(index)
    if (hasEnded) this.#ended.add(index)
  }

  get haveAllEnded(): boolean {
    return this.#ended.size >= Math.max(this.#begun.size, this.#answers)
  }

  /** All parts have arrived, even if the connection breaks afterwards. */
  complete(): void {
    this.#isComplete = true
  }

  /** The whole response has arrived, and it is none that can have hidden reasoning. */
  hidesNothing(): void {
    this.#mayHide = false
  }

  /** Output tokens received, never fewer than reported so far. A tokenizer counts the whole text each time. */
  get received(): number {
    const counted = tokensBy(this.#tokenizer, this.#text)
    return counted === undefined ? this.roughlyReceived : Math.max(this.#deltas, counted, this.#reported?.output ?? 0)
  }

  /** The same without the tokenizer. */
  get roughlyReceived(): number {
    const estimated = Math.ceil(this.#other) + Math.ceil(this.#ascii / CHARACTERS_PER_TOKEN)
    return Math.max(this.#deltas, estimated, this.#reported?.output ?? 0)
  }

  /** The provider's count. */
  get counted(): ModelUsage | undefined {
    const usage = this.#isCounted || (this.#mayCount && this.#isComplete) ? this.#reported : undefined
    return usage?.output === undefined ? undefined : {...usage, output: usage.output}
  }

  /** Whether the whole response has arrived without a count, and the provider may have generated more. */
  get isUncounted(): boolean {
    return this.#isComplete && this.#mayHide && !this.counted
  }

  /** Some servers report zeros for responses with text. */
  get #reported(): ReportedUsage | undefined {
    const usage = readUsage(this.#report)
    const isZero = usage && usage.input + usage.cachedInput + usage.cacheWrite + (usage.output ?? 0) === 0
    return isZero && this.#ascii + this.#other > 0 ? undefined : usage
  }

  /**
   * Without the provider's count, the larger of estimate and received. `leastOutput` is for responses of which the
   * provider may have generated more than arrived: they broke off, or can have hidden reasoning.
   */
  used(estimate: TokenEstimate, leastOutput: number): ModelUsage {
    const {counted} = this
    if (counted) return counted
    const known = this.#reported ?? usageOf(estimate)
    const reserved = estimate.input + estimate.output - (known.input + known.cachedInput + known.cacheWrite)
    return {...known, output: Math.max(this.received, this.#mayHide ? leastOutput : reserved)}
  }
}
