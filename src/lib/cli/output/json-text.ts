import {escapeHidden} from '../../core/text/printable.js'

/** Safe for terminals: hidden characters in strings become `\\u` escapes, which parse to the same text. */
export function jsonText(value: unknown, indent?: number): string {
  return escapeHidden(JSON.stringify(value, null, indent), character =>
    // JSON strings contain no raw line breaks, so these belong to the indentation.
    character === '\n'
      ? character
      : Array.from({length: character.length}, (_, at) => unitEscape(character, at)).join(''),
  )
}

const unitEscape = (character: string, at: number): string =>
  `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`

/** The lines between the brackets; empty for an empty list or object. */
export const jsonInside = (value: object): string => jsonText(value, 2).slice(2, -2)

export const indentedJson = (text: string): string => `  ${text.replaceAll('\n', '\n  ')}`

const ELEMENTS_AT_ONCE = 100

/** In characters; most results fit into one piece. */
const PIECE_LENGTH = 1 << 16

/** Same text as `jsonText(result, 2)`, in pieces: as one string, 100,000 rows take more memory than their data. */
export function* jsonPieces(result: unknown): Generator<string, void> {
  let piece = ''
  for (const part of isPlainObject(result) ? objectParts(result) : [jsonText(result, 2)]) {
    piece += part
    if (piece.length < PIECE_LENGTH) continue
    yield piece
    piece = ''
  }
  yield `${piece}\n`
}

function* objectParts(result: object): Generator<string, void> {
  let lead = '{\n'
  for (const [name, value] of Object.entries(result)) {
    for (const part of fieldParts(name, value)) {
      yield lead + part
      lead = ''
    }
    if (lead === '') lead = ',\n'
  }
  yield lead === '{\n' ? '{}' : '\n}'
}

function* fieldParts(name: string, value: unknown): Generator<string, void> {
  if (!Array.isArray(value) || value.length <= ELEMENTS_AT_ONCE) {
    const text = jsonInside({[name]: value})
    if (text !== '') yield text
    return
  }
  let lead = `  ${jsonText(name)}: [\n`
  for (let start = 0; start < value.length; start += ELEMENTS_AT_ONCE) {
    yield lead + indentedJson(jsonInside(value.slice(start, start + ELEMENTS_AT_ONCE)))
    lead = ',\n'
  }
  yield '\n  ]'
}

/** Some properties of an object, in the order of the keys. */
export const pick = <T, Key extends keyof T>(from: T, ...keys: readonly Key[]): Pick<T, Key> =>
  Object.fromEntries(keys.map(key => [key, from[key]])) as Pick<T, Key>

const isPlainObject = (value: unknown): value is object =>
  typeof value === 'object' &&
  value !== null &&
  Object.getPrototypeOf(value) === Object.prototype &&
  !('toJSON' in value)
