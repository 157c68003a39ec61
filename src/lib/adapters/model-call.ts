import {at, isCount, recordOf, type TokenEstimate, type Tokenizer, tokensOfTexts} from './model-usage.js'

/** One call to a model, as sent. */
export interface ModelCall {
  readonly method: string
  readonly url: string
  /** The model in the URL, which providers prefer, or the `model` of the body; `undefined` if neither can be read. */
  readonly model: string | undefined
  /** The parsed body: a JSON object, or the fields of a form; otherwise empty. */
  readonly body: Readonly<Record<string, unknown>>
  readonly headers: Headers
}

/** A call, and how to send it: reading a stream consumes it. */
export interface ReadCall {
  readonly call: ModelCall
  readonly input: string | URL | Request
  readonly init: RequestInit | undefined
  /** The body, if it is a JSON object. */
  readonly json: string | undefined
}

type Body = NonNullable<RequestInit['body']>

/** Bodies are read up to this many bytes. The model of a larger body is unknown. */
const MOST_BYTES = 16 * 2 ** 20

export async function readModelCall(input: string | URL | Request, init: RequestInit | undefined): Promise<ReadCall> {
  const request = typeof input === 'object' && 'headers' in input ? input : undefined
  const {fields, body, json} = init?.body ? await readBody(init.body) : await readRequest(request)
  const url = request?.url ?? String(input)
  const call = {
    method: (init?.method ?? request?.method ?? 'GET').toUpperCase(),
    url,
    model: modelOfUrl(url) ?? (typeof fields.model === 'string' && fields.model !== '' ? fields.model : undefined),
    body: fields,
    headers: new Headers(init?.headers ?? request?.headers),
  }
  return {call, input, init: body === undefined ? init : ({...init, body, duplex: 'half'} as RequestInit), json}
}

/** Of Gemini and Vertex, Bedrock, and Azure, which name the model in the path. Not of batches, which are read later. */
const MODEL_IN_PATH = [
  /(?<=\/models\/)[^/:]+(?=:(?!batchGenerate|asyncBatch)\w+$)/,
  /(?<=\/model\/)[^/]+(?=\/[\w-]+$)/,
  /(?<=\/openai\/deployments\/)[^/]+(?=\/)/i,
]

/** As sent: `fetch` resolves `..`. */
function pathOf(url: string): string {
  return URL.canParse(url) ? new URL(url).pathname : url.replace(/[?#].*$/, '')
}

function modelOfUrl(url: string): string | undefined {
  const path = pathOf(url)
  const [model] = MODEL_IN_PATH.flatMap(pattern => pattern.exec(path)?.[0] ?? [])
  try {
    return model && decodeURIComponent(model)
  } catch {
    return model
  }
}

/** Reading, deleting and counting tokens use no model; nor do cancelling and uploading, which name none. */
export function mayUseModel({method, url, model}: ModelCall): boolean {
  if (['GET', 'HEAD', 'OPTIONS', 'DELETE'].includes(method)) return false
  const path = pathOf(url)
  if (/\/count[-_]tokens$|:countTokens$/.test(path)) return false
  return model !== undefined || !/\/(files|uploads)(\/|$)|\/cancel$/.test(path)
}

/** The call with another model, where it names its own: in the URL, the body, or both. */
export function withModel(read: ReadCall, model: string): ReadCall {
  const {call, input} = read
  const fields = {...call.body, ...('model' in call.body && {model})}
  const sent = {...withJson(read, JSON.stringify(fields)), call: {...call, model, body: fields}}
  if (modelOfUrl(call.url) === undefined) return sent
  const url = new URL(call.url)
  for (const pattern of MODEL_IN_PATH) url.pathname = url.pathname.replace(pattern, () => encodeURIComponent(model))
  return {...sent, call: {...sent.call, url: url.href}, input: input instanceof Request ? new Request(url, input) : url}
}

/**
 * The call of an OpenAI-compatible chat, if it streams and does not ask for its usage, with that question. Its other
 * fields stay as written. `undefined` for other calls, and for a body that AWS has signed.
 */
export function withUsage(read: ReadCall): ReadCall | undefined {
  const {call, json} = read
  const {stream, stream_options: given} = call.body
  const isChat = /\/completions\/?$/i.test(pathOf(call.url)) && stream && recordOf(given).include_usage !== true
  if (!json || !isChat || call.headers.get('authorization')?.startsWith('AWS4-')) return undefined
  const stream_options = {...recordOf(given), include_usage: true}
  if (given !== undefined) return withJson(read, JSON.stringify({...call.body, stream_options}))
  return withJson(read, json.replace(/\}\s*$/, `,"stream_options":${JSON.stringify(stream_options)}}`))
}

function withJson({call, input, init}: ReadCall, json: string): ReadCall {
  const headers = new Headers(call.headers)
  headers.delete('content-length')
  if (!headers.has('content-type')) headers.set('content-type', 'application/json')
  return {call, input, init: {...init, headers, body: json}, json}
}

/** Objects that hold the settings of a call: the body, or fields of it. */
const SETTINGS = 'generationConfig generation_config inferenceConfig textGenerationConfig parameters options'.split(' ')

const MAXIMA = [
  ...['max_completion_tokens', 'max_output_tokens', 'max_tokens', 'maxOutputTokens', 'maxTokens', 'max_gen_len'],
  ...['maxTokenCount', 'max_new_tokens', 'num_predict'],
]

const ANSWERS = ['n', 'best_of', 'candidateCount', 'candidate_count']

/** Fields that the provider ignores do not lower the estimate: the largest maximum counts, and all text. */
export function estimateCall({body}: ModelCall, tokenizer?: Tokenizer): TokenEstimate {
  const {model: _model, metadata: _metadata, user: _user, ...input} = body
  const settings = [body, ...SETTINGS.map(name => recordOf(body[name]))]
  const largest = (names: readonly string[]) =>
    Math.max(0, ...settings.flatMap(each => names.map(name => at(each, name))).filter(isCount))
  const answers = Math.max(1, largest(ANSWERS))
  return {
    input: tokensOfTexts(input, tokenizer),
    output: largest(MAXIMA) * answers,
    ...(answers > 1 && {answers}),
  }
}

type Fields = Readonly<Record<string, unknown>>

interface ReadBody {
  readonly fields: Fields
  readonly json?: string | undefined
  /** Replaces a stream, which can be read only once. */
  readonly body?: Body
}

async function readBody(body: Body): Promise<ReadBody> {
  if (typeof body === 'string') return readJson(body)
  if (body instanceof FormData || body instanceof URLSearchParams) return {fields: Object.fromEntries(body)}
  if (body instanceof Blob) return readJson(body.size > MOST_BYTES ? '' : await body.text())
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body))
    return readJson(new TextDecoder().decode(body as ArrayBuffer))
  const {bytes, rest} = await readStart(body as AsyncIterable<Uint8Array>)
  return rest ? {fields: {}, body: rest} : {...readJson(new TextDecoder().decode(bytes)), body: bytes}
}

function readJson(text: string): ReadBody {
  const fields = parseObject(text)
  return {fields, json: Object.keys(fields).length > 0 ? text : undefined}
}

async function readRequest(request: Request | undefined): Promise<ReadBody> {
  if (!request?.body) return {fields: {}}
  const copy = request.clone()
  if (/^multipart\/form-data|^application\/x-www-form-urlencoded/.test(request.headers.get('content-type') ?? ''))
    return {fields: await copy.formData().then(Object.fromEntries, () => ({}))}
  const {bytes, rest} = await readStart(copy.body as ReadableStream<Uint8Array>)
  await rest?.cancel()
  return readJson(rest ? '' : new TextDecoder().decode(bytes))
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

export const parseObject = (text: string): Fields => recordOf(parseJson(text))

/** `undefined` if the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
