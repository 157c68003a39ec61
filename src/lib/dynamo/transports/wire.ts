import {createHmac, hash} from 'node:crypto'
import {withoutStack} from '../../core/errors.js'
import type {HttpAnswer} from './http.js'

export interface Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
  readonly expiration?: Date | undefined
}

export interface Signable {
  /** With the port, unless it is the default one. */
  readonly host: string
  readonly target: string
  readonly body: string
  /** By the server's clock: a signature is valid for some minutes around its date. */
  readonly nowMs: number
}

type SignedHeaders = readonly (readonly [name: string, value: string])[]

const CONTENT_TYPE = 'application/x-amz-json-1.0'

/** AWS Signature Version 4. The key is derived once a day; each request then costs two hashes and one HMAC. */
export class Signer {
  readonly #credentials: Credentials
  readonly #region: string
  readonly #signedNames: string
  #day = ''
  #key: Buffer | undefined
  #second = 0
  #timestamp = ''

  constructor(credentials: Credentials, region: string) {
    checkPrintable(credentials)
    this.#credentials = credentials
    this.#region = region
    const token = credentials.sessionToken === undefined ? '' : 'x-amz-security-token;'
    this.#signedNames = `content-type;host;x-amz-date;${token}x-amz-target`
  }

  sign({host, target, body, nowMs}: Signable): SignedHeaders {
    const {accessKeyId, sessionToken} = this.#credentials
    const timestamp = this.#timestampAt(nowMs)
    const headers: [string, string][] = [
      ['content-type', CONTENT_TYPE],
      ['host', host],
      ['x-amz-date', timestamp],
    ]
    if (sessionToken !== undefined) headers.push(['x-amz-security-token', sessionToken])
    headers.push(['x-amz-target', target])

    let canonical = 'POST\n/\n\n'
    for (const [name, value] of headers) canonical += `${name}:${value}\n`
    canonical += `\n${this.#signedNames}\n${hash('sha256', body)}`
    const day = timestamp.slice(0, 8)
    const scope = `${day}/${this.#region}/dynamodb/aws4_request`
    const text = `AWS4-HMAC-SHA256\n${timestamp}\n${scope}\n${hash('sha256', canonical)}`
    const signature = createHmac('sha256', this.#keyOf(day)).update(text).digest('hex')
    const credential = `Credential=${accessKeyId}/${scope}`
    const value = `AWS4-HMAC-SHA256 ${credential}, SignedHeaders=${this.#signedNames}, Signature=${signature}`
    headers.push(['authorization', value])
    return headers
  }

  #keyOf(day: string): Buffer {
    if (this.#key === undefined || this.#day !== day) {
      const steps = [day, this.#region, 'dynamodb', 'aws4_request']
      const secret = Buffer.from(`AWS4${this.#credentials.secretAccessKey}`)
      this.#key = steps.reduce((key, step) => createHmac('sha256', key).update(step).digest(), secret)
      this.#day = day
    }
    return this.#key
  }

  #timestampAt(nowMs: number): string {
    const second = Math.floor(nowMs / 1000)
    if (this.#timestamp === '' || second !== this.#second) {
      this.#second = second
      this.#timestamp = `${new Date(second * 1000).toISOString().slice(0, 19).replaceAll(/[-:]/g, '')}Z`
    }
    return this.#timestamp
  }
}

/** A line break in a key, for example from a file, would end the header. */
function checkPrintable({accessKeyId, sessionToken = 'none'}: Credentials): void {
  if ([accessKeyId, sessionToken].every(text => /^[\x21-\x7e]+$/.test(text))) return
  const error = new Error('the access key or the session token is empty or has characters that are invalid in a header')
  throw Object.assign(error, {name: 'CredentialsProviderError'})
}

export function postMessage(headers: SignedHeaders, body: string): string {
  let message = `POST / HTTP/1.1\r\ncontent-length: ${Buffer.byteLength(body)}\r\nuser-agent: zael\r\n`
  for (const [name, value] of headers) message += `${name}: ${value}\r\n`
  return `${message}\r\n${body}`
}

/** Has the fields of the SDK's errors, for `classifyError`. */
export class ServiceError extends Error {
  override readonly name: string
  readonly $metadata: {readonly httpStatusCode: number; readonly requestId: string | undefined}
  readonly contentType: string | undefined

  constructor(name: string, message: string, {status, headers}: HttpAnswer, fields: object = {}) {
    super(message)
    Object.assign(this, fields)
    this.name = name
    this.$metadata = {httpStatusCode: status, requestId: headers.get('x-amzn-requestid')}
    this.contentType = headers.get('content-type')
  }
}

/** If the body is unreadable, as from a proxy, the error has only the status. */
export function serviceError(answer: HttpAnswer): ServiceError {
  const body = bodyOf(answer)
  const type = answer.headers.get('x-amzn-errortype') ?? body.code ?? body.__type
  const message = body.message ?? body.Message
  const {Item, CancellationReasons} = body
  const name = typeof type === 'string' ? nameOf(type) : 'UnknownError'
  const text = typeof message === 'string' ? message : `HTTP status ${answer.status}`
  return withoutStack(() => new ServiceError(name, text, answer, {Item, CancellationReasons}))
}

/** Its status makes it count as a lost response. */
export function unreadable(answer: HttpAnswer, why: string): ServiceError {
  return new ServiceError('UnreadableAnswer', why, answer)
}

/** From `com.amazonaws.dynamodb.v20120810#ValidationException`; in headers a URL follows. */
function nameOf(type: string): string {
  return type.replace(/[,:].*$/s, '').replace(/^.*#/s, '')
}

function bodyOf({body}: HttpAnswer): Record<string, unknown> {
  try {
    const parsed = fromWire(body.toString())
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

/** Only bytes differ on the wire, as base64. They are rare, so a cheap text search decides whether to convert. */

export function toWire(input: unknown): string {
  const text = JSON.stringify(input)
  return text.includes('"B":{') || text.includes('"BS":[') ? JSON.stringify(input, bytesToBase64) : text
}

export function fromWire(text: string): unknown {
  const hasBytes = text.includes('"B"') || text.includes('"BS"')
  return hasBytes ? JSON.parse(text, base64ToBytes) : JSON.parse(text)
}

/** Uses the holder: `toJSON` has already converted a Buffer passed as `value`. */
function bytesToBase64(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const original = this[key]
  return original instanceof Uint8Array ? base64(original) : value
}

function base64({buffer, byteOffset, byteLength}: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64')
}

/** An attribute named B or BS holds an object; only the value of a type is text. */
function base64ToBytes(key: string, value: unknown): unknown {
  if (key === 'B' && typeof value === 'string') return bytes(value)
  if (key === 'BS' && Array.isArray(value)) return value.map(part => (typeof part === 'string' ? bytes(part) : part))
  return value
}

function bytes(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'base64'))
}
