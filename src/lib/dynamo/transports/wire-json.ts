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
