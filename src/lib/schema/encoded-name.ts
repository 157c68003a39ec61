import {createHash} from 'node:crypto'
import {checkEntityId, checkResourceName, nameForm} from '../core/names.js'

interface Form {
  readonly pattern: RegExp
  readonly maxLength: number
  readonly reserved: readonly string[]
}

function formOf(kind: 'entity' | 'resource'): Form {
  const {pattern, maxLength, not} = nameForm(kind)
  return {pattern: new RegExp(pattern), maxLength, reserved: not?.enum ?? []}
}

const ENTITY = formOf('entity')
const RESOURCE = formOf('resource')

/**
 * Begins an encoded name. The name follows, with `__` and two hexadecimal digits, or `__u` and four, for each UTF-16
 * unit that is not allowed: `::1` is `x--::1`, and `gpt@1` is `x--gpt__401`.
 */
const ENCODED = 'x--'

/** Begins the name of a resource that is too long: `h--`, 22 characters of its SHA-256, `-`, and its end. */
const HASHED = 'h--'

/**
 * A valid entity id for any text, such as an IP address. Valid ids are returned as they are, unless they begin with
 * `x--` or `h--`. Different texts have different ids. {@link decodeName} returns the text.
 */
export function encodeEntityId(text: string): string {
  const isTooLong = typeof text === 'string' && text.length > ENTITY.maxLength
  return checkEntityId(isTooLong ? text : encoded(ENTITY, text))
}

/**
 * A valid resource name for any text, such as the id of a model; otherwise like {@link encodeEntityId}. A name that would
 * be longer than 64 characters becomes a hash and the end of the text, which cannot be decoded.
 */
export function encodeResourceName(text: string): string {
  const {maxLength} = RESOURCE
  const name = typeof text === 'string' && text.length <= maxLength ? encoded(RESOURCE, text) : text
  if (typeof text !== 'string' || name.length <= maxLength) return checkResourceName(name)
  // UTF-16, as UTF-8 has one replacement for all lone surrogates.
  const head = `${HASHED}${shortHash(Buffer.from(text, 'utf16le'))}-`
  return head + escaped(RESOURCE, text.slice(head.length - maxLength), () => '_')
}

/** The text of an encoded name; other names are returned as they are. */
export function decodeName(name: string): string {
  if (!name.startsWith(ENCODED)) return name
  const text = name
    .slice(ENCODED.length)
    .replace(/__(?:u([0-9a-f]{4})|([0-9a-f]{2}))/g, (_, long, short) =>
      String.fromCharCode(parseInt(long ?? short, 16)),
    )
  return [ENTITY, RESOURCE].some(form => encoded(form, text) === name) ? text : name
}

/**
 * A stable entity id for a secret, such as an API key: `key-` and 22 characters of its SHA-256. The table, logs and events
 * then never contain the key. Empty, as adapters refuse it, if there is no key.
 */
export function hashKey(key: string | readonly string[] | null | undefined): string {
  return typeof key === 'string' && key !== '' ? `key-${shortHash(key)}` : ''
}

const shortHash = (secret: string | Buffer): string =>
  createHash('sha256').update(secret).digest('base64url').slice(0, 22)

/** Returns empty texts, and values that are not texts, as they are. */
function encoded(form: Form, text: string): string {
  if (typeof text !== 'string' || text === '' || (isAllowed(form, text) && !/^[xh]--/.test(text))) return text
  return ENCODED + escaped(form, text, unit => (unit < 0x100 ? `__${hex(unit, 2)}` : `__u${hex(unit, 4)}`))
}

/** Also escapes an underscore before another one, which would look like the start of an escape. */
function escaped(form: Form, text: string, escapeUnit: (code: number) => string): string {
  return text.replace(/./gs, (unit, at) => {
    const isKept = unit === '_' ? text[at + 1] !== '_' : form.pattern.test(`a${unit}`)
    return isKept ? unit : escapeUnit(unit.charCodeAt(0))
  })
}

function isAllowed({pattern, reserved}: Form, text: string): boolean {
  return pattern.test(text) && !reserved.includes(text)
}

const hex = (unit: number, digits: number): string => unit.toString(16).padStart(digits, '0')
