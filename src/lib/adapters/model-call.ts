import {parseJson} from '../core/text/text.js'
import {at, isCount, recordOf, type TokenEstimate, type Tokenizer, tokensOfTexts} from './model-usage.js'

/** One call to a model, as sent. */
export interface ModelCall {
  readonly method: string
  readonly url: string
  /**
   * The model in the URL, which providers prefer, or the `model` of the body; `undefined` if neither can be read, and for
   * batches and fine-tuning.
   */
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
  const type = new Headers(init?.headers ?? request?.headers).get('content-type') ?? ''
  const {fields, body, json} = init?.body ? await readBody(init.body, type) : await readRequest(request, type)
  const url = request?.url ?? String(input)
  const call = {
    method: (init?.method ?? request?.method ?? 'GET').toUpperCase(),
    url,
    model: isDeferred({url}) ? undefined : (modelOfUrl(url) ?? modelOfBody(fields)),
    body: fields,
    headers: new Headers(init?.headers ?? request?.headers),
  }
  return {call, input, init: body === undefined ? init : ({...init, body, duplex: 'half'} as RequestInit), json}
}

const modelOfBody = ({model}: Fields): string | undefined =>
  typeof model === 'string' && model !== '' ? model : undefined

/** Of batches and fine-tuning, at OpenAI, Anthropic, Azure, Groq, Mistral, Cohere, Vertex, Bedrock and Gemini. */
const DEFERRED = [
  /\/(batches|batch\/jobs|batchPredictionJobs|embed-jobs|model-(invocation|customization)-jobs?)\/*$/i,
  /\/(fine-?tunes|fine_?tuning\/(jobs|finetuned-models)|tuningJobs)\/*$/i,
  /:(batchGenerate|asyncBatch)\w*$/,
]

/** Whether the provider works later, on data that the call does not show. */
export function isDeferred({url}: Pick<ModelCall, 'url'>): boolean {
  const path = pathOf(url)
  return DEFERRED.some(pattern => pattern.test(path))
}

/** Of Gemini and Vertex, Bedrock, and Azure, which name the model in the path. */
const MODEL_IN_PATH = [
  /(?<=\/models\/)[^/:]+(?=:\w+$)/,
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
  return model !== undefined || !/\/(files|uploads)(\/|$)|[/:]cancel$/.test(path)
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

/** The maxima of widely served APIs, of which some servers ignore unknown fields. */
const MAXIMA_OF: readonly (readonly [path: RegExp, names: readonly string[]])[] = [
  [/\/completions\/*$/i, ['max_completion_tokens', 'max_tokens']],
  [/\/responses\/*$/i, ['max_output_tokens']],
  [/\/messages\/*$/i, ['max_tokens']],
]

const ANSWERS = ['n', 'best_of', 'candidateCount', 'candidate_count']

/** Fields that the provider ignores do not lower the estimate: the largest maximum counts, and all text. */
export function estimateCall({body, url}: ModelCall, tokenizer?: Tokenizer): TokenEstimate {
  const {model: _model, metadata: _metadata, user: _user, ...input} = body
  const [, maxima] = MAXIMA_OF.find(([pattern]) => pattern.test(pathOf(url))) ?? []
  const answers = answersOf(body)
  return {
    input: tokensOfTexts(input, tokenizer),
    output: (maxima ? largest([body], maxima) : largest(settingsOf(body), MAXIMA)) * answers,
    ...(answers > 1 && {answers}),
  }
}

/** Alternative responses that the call asks for. */
export const answersOf = (body: Fields): number => Math.max(1, largest(settingsOf(body), ANSWERS))

const settingsOf = (body: Fields): readonly Fields[] => [body, ...SETTINGS.map(name => recordOf(body[name]))]

const largest = (settings: readonly Fields[], names: readonly string[]): number =>
  Math.max(0, ...settings.flatMap(each => names.map(name => at(each, name))).filter(isCount))

type Fields = Readonly<Record<string, unknown>>

interface ReadBody {
  readonly fields: Fields
  readonly json?: string | undefined
  /** Replaces a stream, which can be read only once. */
  readonly body?: Body
}

async function readBody(body: Body, type: string): Promise<ReadBody> {
  if (body instanceof FormData || body instanceof URLSearchParams) return {fields: Object.fromEntries(body)}
  if (typeof body === 'string') return readFields(body, type)
  if (body instanceof Blob) return body.size > MOST_BYTES ? {fields: {}} : readFields(body, type || body.type)
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return readFields(body as ArrayBuffer, type)
  // `fetch` sends other objects as text.
  if (!(Symbol.asyncIterator in Object(body))) return readFields(String(body), type)
  const {bytes, rest} = await readStart(body as AsyncIterable<Uint8Array>)
  return rest ? {fields: {}, body: rest} : {...(await readFields(bytes, type)), body: bytes}
}

async function readRequest(request: Request | undefined, type: string): Promise<ReadBody> {
  if (!request?.body) return {fields: {}}
  const copy = request.clone()
  if (FORM.test(type)) return {fields: await fieldsOf(copy)}
  const {bytes, rest} = await readStart(copy.body as ReadableStream<Uint8Array>)
  await rest?.cancel()
  return rest ? {fields: {}} : readFields(bytes, type)
}

const FORM = /^(multipart\/form-data|application\/x-www-form-urlencoded)/i

async function readFields(
  body: string | ArrayBuffer | Uint8Array<ArrayBuffer> | Blob,
  type: string,
): Promise<ReadBody> {
  if (FORM.test(type)) return {fields: await fieldsOf(new Response(body, {headers: {'content-type': type}}))}
  const text = typeof body === 'string' ? body : await new Response(body).text()
  const fields = parseObject(text)
  return {fields, json: Object.keys(fields).length > 0 ? text : undefined}
}

/** Of a form. */
const fieldsOf = (body: Response | Request): Promise<Fields> => body.formData().then(Object.fromEntries, () => ({}))

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
