import {withoutStack} from '../../core/errors.js'
import type {HttpAnswer} from './http-answer.js'

/** An error answer with all its fields, in the shape of the SDK's errors, for `classifyError`. */
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

/**
 * The error in an answer. One without a readable body, such as that of a proxy, has its status only. Where it came from,
 * the error says that it is the cause of.
 */
export function serviceError(answer: HttpAnswer): ServiceError {
  const body = bodyOf(answer)
  const type = answer.headers.get('x-amzn-errortype') ?? body.code ?? body.__type
  const message = body.message ?? body.Message
  const {Item, CancellationReasons} = body
  const name = typeof type === 'string' ? nameOf(type) : 'UnknownError'
  const text = typeof message === 'string' ? message : `HTTP status ${answer.status}`
  return withoutStack(() => new ServiceError(name, text, answer, {Item, CancellationReasons}))
}

/** A success that cannot be read counts as a lost answer, because of its status. */
export function unreadable(answer: HttpAnswer, why: string): ServiceError {
  return new ServiceError('UnreadableAnswer', why, answer)
}

/** From `com.amazonaws.dynamodb.v20120810#ValidationException`, in headers followed by a URL. */
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

/**
 * Requests and answers as JSON. Attribute values have the same form in memory and on the wire, except for bytes, which
 * are sent as base64. They are rare: a cheap search in the text shows whether there are any.
 */

export function toWire(input: unknown): string {
  const text = JSON.stringify(input)
  return text.includes('"B":{') || text.includes('"BS":[') ? JSON.stringify(input, bytesToBase64) : text
}

/** An answer's body; throws when it is not JSON. */
export function fromWire(text: string): unknown {
  const hasBytes = text.includes('"B"') || text.includes('"BS"')
  return hasBytes ? JSON.parse(text, base64ToBytes) : JSON.parse(text)
}

/** Uses the holder: a Buffer is already converted by its `toJSON` when it is passed as `value`. */
function bytesToBase64(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const original = this[key]
  return original instanceof Uint8Array ? base64(original) : value
}

function base64({buffer, byteOffset, byteLength}: Uint8Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64')
}

/** An attribute that is itself called B or BS holds an object; only the value of a type is text. */
function base64ToBytes(key: string, value: unknown): unknown {
  if (key === 'B' && typeof value === 'string') return bytes(value)
  if (key === 'BS' && Array.isArray(value)) return value.map(part => (typeof part === 'string' ? bytes(part) : part))
  return value
}

function bytes(text: string): Uint8Array {
  return new Uint8Array(Buffer.from(text, 'base64'))
}
