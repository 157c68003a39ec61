import {isCount, recordOf, type TokenEstimate, type Tokenizer, tokensOfTexts} from './model-usage.js'

/** One call to a model, as sent. */
export interface ModelCall {
  readonly method: string
  readonly url: string
  /** The `model` of the body or of the URL; `undefined` if neither can be read. */
  readonly model: string | undefined
  /** The parsed body: a JSON object, or the text fields of a form; otherwise empty. */
  readonly body: Readonly<Record<string, unknown>>
  readonly headers: Headers
}

/** A call, and how to send it: reading a stream consumes it. */
export interface ReadCall {
  readonly call: ModelCall
  readonly input: string | URL | Request
  readonly init: RequestInit | undefined
  /** Whether the body is a JSON object. */
  readonly isJson: boolean
}

type Body = NonNullable<RequestInit['body']>

/** Bodies are read up to this many bytes. The model of a larger body is unknown. */
const MOST_BYTES = 16 * 2 ** 20

export async function readModelCall(input: string | URL | Request, init: RequestInit | undefined): Promise<ReadCall> {
  const request = typeof input === 'object' && 'headers' in input ? input : undefined
  const {fields, body, isForm = false} = init?.body ? await readBody(init.body) : await readRequest(request)
  const url = request?.url ?? String(input)
  const call = {
    method: (init?.method ?? request?.method ?? 'GET').toUpperCase(),
    url,
    model: typeof fields.model === 'string' && fields.model !== '' ? fields.model : modelOfUrl(url),
    body: fields,
    headers: new Headers(init?.headers ?? request?.headers),
  }
  const isJson = !isForm && Object.keys(fields).length > 0
  return {call, input, init: body === undefined ? init : ({...init, body, duplex: 'half'} as RequestInit), isJson}
}

/** Of Gemini and Vertex, Bedrock, and Azure, which name the model in the path. */
const MODEL_IN_PATH = [/\/models\/([^/:]+):\w+$/, /\/model\/([^/]+)\/[\w-]+$/, /\/openai\/deployments\/([^/]+)\//]

function modelOfUrl(url: string): string | undefined {
  const path = url.replace(/[?#].*$/, '')
  const [model] = MODEL_IN_PATH.flatMap(pattern => pattern.exec(path)?.[1] ?? [])
  try {
    return model && decodeURIComponent(model)
  } catch {
    return model
  }
}

/** Reading, deleting, cancelling, uploading files and counting tokens use no model. */
export function mayUseModel({method, url}: ModelCall): boolean {
  if (['GET', 'HEAD', 'OPTIONS', 'DELETE'].includes(method)) return false
  return !/\/(files|uploads)(\/|$)|\/(cancel|count_tokens)$|:countTokens$/.test(url.replace(/[?#].*$/, ''))
}

/** The call with another model, where the body names it. */
export function withModel({call, input, init, isJson}: ReadCall, model: string): ReadCall {
  const body = JSON.stringify({...call.body, model})
  const headers = new Headers(call.headers)
  headers.delete('content-length')
  return {call: {...call, model, body: {...call.body, model}}, input, init: {...init, headers, body}, isJson}
}

export function estimateCall({body}: ModelCall, tokenizer?: Tokenizer): TokenEstimate {
  const {messages, system, input, prompt, instructions, tools, contents, systemInstruction, toolConfig} = body
  const [gemini, bedrock] = [recordOf(body.generationConfig), recordOf(body.inferenceConfig)]
  const most = [
    ...[body.max_completion_tokens, body.max_output_tokens, body.max_tokens],
    ...[gemini.maxOutputTokens, bedrock.maxTokens],
  ]
  const answers = [body.n, gemini.candidateCount].find(isCount) ?? 1
  return {
    input: tokensOfTexts(
      [messages, system, input, prompt, instructions, tools, contents, systemInstruction, toolConfig],
      tokenizer,
    ),
    output: (most.find(isCount) ?? 0) * Math.max(1, answers),
  }
}

type Fields = Readonly<Record<string, unknown>>

interface ReadBody {
  readonly fields: Fields
  readonly isForm?: boolean
  /** Replaces a stream, which can be read only once. */
  readonly body?: Body
}

async function readBody(body: Body): Promise<ReadBody> {
  if (typeof body === 'string') return {fields: parseObject(body)}
  if (body instanceof FormData || body instanceof URLSearchParams) return {fields: textFields(body), isForm: true}
  if (body instanceof Blob) return {fields: body.size > MOST_BYTES ? {} : parseObject(await body.text())}
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body))
    return {fields: parseObject(new TextDecoder().decode(body as ArrayBuffer))}
  const {bytes, rest} = await readStart(body as AsyncIterable<Uint8Array>)
  return rest ? {fields: {}, body: rest} : {fields: parseObject(new TextDecoder().decode(bytes)), body: bytes}
}

async function readRequest(request: Request | undefined): Promise<ReadBody> {
  if (!request?.body) return {fields: {}}
  const copy = request.clone()
  if (/^multipart\/form-data|^application\/x-www-form-urlencoded/.test(request.headers.get('content-type') ?? ''))
    return {fields: await copy.formData().then(textFields, () => ({})), isForm: true}
  const {bytes, rest} = await readStart(copy.body as ReadableStream<Uint8Array>)
  await rest?.cancel()
  return {fields: rest ? {} : parseObject(new TextDecoder().decode(bytes))}
}

/** The whole body, or a stream that repeats what was read and goes on. */
async function readStart(
  source: AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>,
): Promise<{bytes: Uint8Array<ArrayBuffer>; rest?: ReadableStream<Uint8Array>}> {
  const chunks: Uint8Array[] = []
  const iterator = source[Symbol.asyncIterator]()
  for (let size = 0; size <= MOST_BYTES; ) {
    const {done, value} = await iterator.next()
    if (done) return {bytes: new Uint8Array(Buffer.concat(chunks))}
    const chunk = typeof value === 'string' ? new TextEncoder().encode(value) : value
    chunks.push(chunk)
    size += chunk.length
  }
  const rest = new ReadableStream<Uint8Array>({
    pull: async controller => {
      const chunk = chunks.shift()
      if (chunk) return controller.enqueue(chunk)
      const {done, value} = await iterator.next()
      if (done) controller.close()
      else controller.enqueue(value)
    },
    cancel: async () => {
      await iterator.return?.()
    },
  })
  return {bytes: new Uint8Array(), rest}
}

function textFields(form: FormData | URLSearchParams): Fields {
  return Object.fromEntries([...form].filter(([, value]) => typeof value === 'string'))
}

export const parseObject = (text: string): Fields => recordOf(parseJson(text))

/** `undefined` if the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
