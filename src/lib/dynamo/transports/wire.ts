import {withoutStack} from '../../core/errors.js'
import type {HttpAnswer} from './http-connection.js'

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
