import {checkEntityId, nameForm} from './names.js'

/** The allowed names of a kind. */
interface Form {
  readonly pattern: RegExp
  readonly maxLength: number
  readonly reserved: readonly string[]
}

function formOf(kind: 'entity' | 'resource'): Form {
  const {pattern, maxLength, not} = nameForm(kind)
  return {pattern: new RegExp(pattern), maxLength, reserved: not?.enum ?? []}
}

export const ENTITY = formOf('entity')
export const RESOURCE = formOf('resource')

/**
 * Begins an encoded name. The name follows, with `__` and two hexadecimal digits, or `__u` and four, for each UTF-16
 * unit that is not allowed: `::1` is `x--::1`, and `gpt@1` is `x--gpt__401`.
 */
const ENCODED = 'x--'

/**
 * A valid entity id for any text, such as an IP address. Valid ids are returned as they are, unless they begin with
 * `x--` or `h--`. Different texts have different ids. {@link decodeName} returns the text.
 */
export function encodeEntityId(text: string): string {
  const isTooLong = typeof text === 'string' && text.length > ENTITY.maxLength
  return checkEntityId(isTooLong ? text : encodedName(ENTITY, text))
}

/** The text of an encoded name; other names are returned as they are. */
export function decodeName(name: string): string {
  if (!name.startsWith(ENCODED)) return name
  const text = name
    .slice(ENCODED.length)
    .replace(/__(?:u([0-9a-f]{4})|([0-9a-f]{2}))/g, (_, long, short) =>
      String.fromCharCode(parseInt(long ?? short, 16)),
    )
  return [ENTITY, RESOURCE].some(form => encodedName(form, text) === name) ? text : name
}

/** For people: decoded, if the text cannot be mistaken for something else, such as several words or a reserved name. */
export function shownName(name: string): string {
  const text = decodeName(name)
  return isReadable(text) ? text : name
}

export const isReadable = (text: string): boolean =>
  /^[\p{L}\p{N}:@/.~*[][\p{L}\p{N}_.:@/%+*~|[\]-]*$/u.test(text) && !MARKED.test(text)

/** Encoded, or hashed. */
const MARKED = /^[xh]--/

/** Returns empty texts, and values that are not texts, as they are. */
export function encodedName(form: Form, text: string): string {
  if (typeof text !== 'string' || text === '' || (isAllowed(form, text) && !MARKED.test(text))) return text
  return ENCODED + escapedName(form, text, escapeOf)
}

/** Begins the encoded ids of all entities whose text begins like this. */
export function encodedStart(text: string): string {
  // The escape of an underscore depends on the next character.
  return ENCODED + escapedName(ENTITY, text.replace(/_+$/, ''), escapeOf)
}

const escapeOf = (unit: number): string => (unit < 0x100 ? `__${hex(unit, 2)}` : `__u${hex(unit, 4)}`)

/** Also escapes an underscore before another one, which would look like the start of an escape. */
export function escapedName(form: Form, text: string, escapeUnit: (code: number) => string): string {
  return text.replace(/./gs, (unit, at) => {
    const isKept = unit === '_' ? text[at + 1] !== '_' : form.pattern.test(`a${unit}`)
    return isKept ? unit : escapeUnit(unit.charCodeAt(0))
  })
}

export function isAllowed({pattern, reserved}: Form, text: string): boolean {
  return pattern.test(text) && !reserved.includes(text)
}

const hex = (unit: number, digits: number): string => unit.toString(16).padStart(digits, '0')
