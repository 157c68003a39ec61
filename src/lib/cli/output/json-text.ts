import {escapeHidden} from '../../core/printable.js'

/** JSON that affects no terminal: hidden characters of strings are `\\u` escapes, which every parser reads as the same. */
export function jsonText(value: unknown, indent?: number): string {
  return escapeHidden(JSON.stringify(value, null, indent), character =>
    // Strings contain no line breaks in JSON; those of the indentation remain.
    character === '\n'
      ? character
      : Array.from({length: character.length}, (_, at) => unitEscape(character, at)).join(''),
  )
}

const unitEscape = (character: string, at: number): string =>
  `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`
