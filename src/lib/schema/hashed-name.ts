import {createHash} from 'node:crypto'
import {
  ENTITY,
  encodedName,
  encodeEntityId,
  escapedName,
  isAllowed,
  isReadable,
  RESOURCE,
} from '../core/encoded-name.js'
import {checkResourceName} from '../core/names.js'

/** Begins the name of a resource that is too long: `h--`, 22 characters of its SHA-256, `-`, and its end. */
const HASHED = 'h--'

/**
 * A valid resource name for any text, such as the id of a model; otherwise like {@link encodeEntityId}. A name that would
 * be longer than 64 characters becomes a hash and the end of the text, which cannot be decoded.
 */
export function encodeResourceName(text: string): string {
  const {maxLength} = RESOURCE
  const name = typeof text === 'string' && text.length <= maxLength ? encodedName(RESOURCE, text) : text
  if (typeof text !== 'string' || name.length <= maxLength) return checkResourceName(name)
  // UTF-16, as UTF-8 has one replacement for all lone surrogates.
  const head = `${HASHED}${shortHash(Buffer.from(text, 'utf16le'))}-`
  return head + escapedName(RESOURCE, text.slice(head.length - maxLength), () => '_')
}

/** The name for what somebody typed: as it is, or encoded if it is not valid, but shown decoded (`shownName`). */
export function typedName(kind: 'entity' | 'resource', typed: string): string {
  const form = kind === 'entity' ? ENTITY : RESOURCE
  const isValid = typed.length <= form.maxLength && isAllowed(form, typed)
  if (isValid || !isReadable(typed)) return typed
  return kind === 'entity' ? encodeEntityId(typed) : encodeResourceName(typed)
}

/**
 * A stable entity id for a secret, such as an API key: `key-` and 22 characters of its SHA-256. The table, logs and events
 * then never contain the key. Without a key, the id is empty, and adapters refuse the request.
 */
export function hashKey(key: string | readonly string[] | null | undefined): string {
  return typeof key === 'string' && key !== '' ? `key-${shortHash(key)}` : ''
}

const shortHash = (secret: string | Buffer): string =>
  createHash('sha256').update(secret).digest('base64url').slice(0, 22)
