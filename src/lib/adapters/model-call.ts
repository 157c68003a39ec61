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

export function tokensOfCharacters(characters: number): number {
  return Math.ceil(characters / CHARACTERS_PER_TOKEN)
}

export function charactersIn(value: unknown, key = ''): number {
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

export function parseObject(text: string | undefined): Readonly<Record<string, unknown>> {
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
