import {shownName} from '../encoded-name.js'

/** Controls, format and direction characters, separators, lone surrogates. */
const HIDDEN = '[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}]'
const PICTURE = '\\p{ExtPict}\\uFE0F?\\p{EMod}?'
/** Joiners and variation selectors are hidden characters unless they are part of an emoji. */
const EMOJI = `${PICTURE}(?:\\u200D${PICTURE})*|[0-9#*]\\uFE0F\\u20E3`

const isHidden = new RegExp(`^${HIDDEN}|^\\p{M}`, 'u')
// A combining mark at the start would be drawn over the character before the text.
const needsEscape = new RegExp(`${HIDDEN}|^\\p{M}`, 'u')
const emojiOrHidden = new RegExp(`${EMOJI}|${HIDDEN}|^\\p{M}`, 'gu')

/** Fast path: matches most text without Unicode properties. */
const isPlain = /^[ -~]*$/

const SHORT_ESCAPES: Readonly<Record<string, string>> = {'\n': '\\n', '\r': '\\r', '\t': '\\t'}

/** Makes text safe for a terminal: `\n`, `\x1b`, `\u202e`, `\u{e0041}`. Idempotent. Apply colours afterwards. */
export function printableText(text: string): string {
  return escapeHidden(text, escapeOf)
}

/** Stored text for people: as `printableText`, with encoded names decoded. */
export function shownText(text: string): string {
  return printableText(text.includes('x--') ? text.replace(ENCODED_NAMES, shownName) : text)
}

/** Words of their own, or the resource of an audit event. */
const ENCODED_NAMES = /(?<=^|[\s"'(,]|\$RESOURCE:)x--[\w.:@/-]+/g

export function escapeHidden(text: string, escaped: (character: string) => string): string {
  if (isPlain.test(text) || !needsEscape.test(text)) return text
  return text.replace(emojiOrHidden, found => (isHidden.test(found) ? escaped(found) : found))
}

export function printableLines(text: string): string {
  return text.split('\n').map(printableText).join('\n')
}

function escapeOf(character: string): string {
  const code = character.codePointAt(0) ?? 0
  const digits = code.toString(16)
  if (code < 0x100) return SHORT_ESCAPES[character] ?? `\\x${digits.padStart(2, '0')}`
  return code < 0x10000 ? `\\u${digits.padStart(4, '0')}` : `\\u{${digits}}`
}
