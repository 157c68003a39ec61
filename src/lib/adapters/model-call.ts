/** One call to a model, as sent. */
export interface ModelCall {
  readonly url: string
  /** The `model` field of the body. */
  readonly model: string | undefined
  /** The parsed body; empty if it is not a JSON object. */
  readonly body: Readonly<Record<string, unknown>>
  readonly headers: Headers
}

/** Tokens that a call is expected to use. */
export interface TokenEstimate {
  readonly input: number
  /** The maximum that the response may have. */
  readonly output: number
}

/** Typical for English text and code; the provider's count replaces the estimate. */
const CHARACTERS_PER_TOKEN = 4

/** Stands for an image or a file: about what providers count for a large image. */
const TOKENS_PER_ATTACHMENT = 1600

const NO_TEXT = new Set(
  'id type role object model status finish_reason stop_reason stop_sequence signature providerOptions'.split(' '),
)

/** Does not consume a `Request`; ignores a body that is a stream or a form. */
export async function readModelCall(input: string | URL | Request, init: RequestInit | undefined): Promise<ModelCall> {
  const request = typeof input === 'object' && 'headers' in input ? input : undefined
  const body = parseObject(init?.body === undefined ? await textOfRequest(request) : textOfBody(init.body))
  return {
    url: request?.url ?? String(input),
    model: typeof body.model === 'string' ? body.model : undefined,
    body,
    headers: new Headers(init?.headers ?? request?.headers),
  }
}

export function estimateCall({body}: ModelCall): TokenEstimate {
  const {messages, system, input, prompt, instructions, tools} = body
  const most = [body.max_completion_tokens, body.max_output_tokens, body.max_tokens].find(isCount) ?? 0
  return {
    input: tokensOfText([messages, system, input, prompt, instructions, tools]),
    output: most * (isCount(body.n) && body.n > 1 ? body.n : 1),
  }
}

export function tokensOfText(value: unknown): number {
  return tokensOfCharacters(charactersIn(value))
}

function tokensOfCharacters(characters: number): number {
  return Math.ceil(characters / CHARACTERS_PER_TOKEN)
}

function charactersIn(value: unknown, key = ''): number {
  if (typeof value === 'string')
    return isAttachment(value, key) ? TOKENS_PER_ATTACHMENT * CHARACTERS_PER_TOKEN : value.length
  if (value instanceof Uint8Array || value instanceof URL) return TOKENS_PER_ATTACHMENT * CHARACTERS_PER_TOKEN
  if (Array.isArray(value)) return value.reduce<number>((sum, each) => sum + charactersIn(each, key), 0)
  return Object.entries(recordOf(value)).reduce(
    (sum, [name, each]) => (NO_TEXT.has(name) ? sum : sum + charactersIn(each, name)),
    0,
  )
}

export function recordOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {}
}

export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

function parseObject(text: string | undefined): Readonly<Record<string, unknown>> {
  try {
    return text ? recordOf(JSON.parse(text)) : {}
  } catch {
    return {}
  }
}

function isAttachment(text: string, key: string): boolean {
  return text.startsWith('data:') || key === 'data' || key === 'file_data'
}

async function textOfRequest(request: Request | undefined): Promise<string | undefined> {
  return /json|^text\/plain/.test(request?.headers.get('content-type') ?? '') ? request?.clone().text() : undefined
}

function textOfBody(body: unknown): string | undefined {
  if (typeof body === 'string') return body
  if (body instanceof ArrayBuffer || body instanceof Uint8Array) return new TextDecoder().decode(body)
  return undefined
}

export class UsageTally {
  #input: number | undefined
  #output: number | undefined
  #isCounted = false
  #characters = 0
  #isComplete = false
  #hasFailed = false

  /** Undefined counts are not known yet. `final`: the counts are of the whole response. */
  count({input, output}: Partial<TokenEstimate>, final: boolean): void {
    this.#input = input ?? this.#input
    this.#output = output ?? this.#output
    this.#isCounted ||= final && output !== undefined
  }

  addText(value: unknown): void {
    this.#characters += charactersIn(value)
  }

  /** All parts have arrived, even if the connection breaks afterwards. */
  complete(): void {
    this.#isComplete = true
  }

  /** The provider gave up on the response, despite a status of success. */
  fail(): void {
    this.#hasFailed = true
  }

  /** Without the provider's count: the received tokens if broken off, otherwise the larger of estimate and received. */
  used(estimate: TokenEstimate, isBroken: boolean): TokenEstimate {
    const input = this.#input ?? estimate.input
    if (this.#isCounted) return {input, output: this.#output ?? 0}
    const known = Math.max(this.#output ?? 0, tokensOfCharacters(this.#characters))
    const isPart = (isBroken || this.#hasFailed) && !this.#isComplete
    return {input, output: isPart ? known : Math.max(known, estimate.input + estimate.output - input)}
  }
}

export function tallyAnswer(tally: UsageTally, text: string): void {
  const answer = parseObject(text)
  tallyUsage(tally, answer.usage, true)
  tally.addText([answer.choices, answer.content, answer.output])
  tally.complete()
}

export function tallyEvent(tally: UsageTally, data: string): void {
  if (data === '[DONE]') tally.complete()
  const event = parseObject(data)
  // Anthropic counts input at the start; OpenAI's responses count everything at the end.
  tallyUsage(tally, recordOf(event.message).usage, false)
  tallyUsage(tally, event.usage ?? recordOf(event.response).usage, true)
  const choices = Array.isArray(event.choices) ? event.choices.map(recordOf) : []
  tally.addText([event.delta, ...choices.flatMap(({delta, text}) => [delta, text])])
  if (event.type === 'message_stop' || event.type === 'response.completed') tally.complete()
  if (event.type === 'error' || event.type === 'response.failed' || event.error) tally.fail()
}

/** Anthropic counts cache writes apart from the input; cache reads do not count against its limits. */
function tallyUsage(tally: UsageTally, value: unknown, final: boolean): void {
  const usage = recordOf(value)
  const input = [usage.prompt_tokens, usage.input_tokens].find(isCount)
  const output = [usage.completion_tokens, usage.output_tokens].find(isCount)
  const cached = isCount(usage.cache_creation_input_tokens) ? usage.cache_creation_input_tokens : 0
  // Embeddings have no output.
  const isInputOnly = output === undefined && isCount(usage.total_tokens)
  tally.count(
    {
      ...(input !== undefined && {input: input + cached}),
      ...(output !== undefined && {output}),
      ...(isInputOnly && {output: 0}),
    },
    final,
  )
}
