/**
 * Text from outside (stored names, messages of other programs, contents of files) made harmless for a terminal: no
 * control sequence, line break, change of direction or invisible character of it takes effect; each is shown instead.
 */

/** Everything that draws nothing itself: controls, format and direction characters, separators, lone surrogates. */
const HIDDEN = '[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}]'
const PICTURE = '\\p{ExtPict}\\uFE0F?\\p{EMod}?'
/** Joiners and variation selectors are part of an emoji here, and hidden characters everywhere else. */
const EMOJI = `${PICTURE}(?:\\u200D${PICTURE})*|[0-9#*]\\uFE0F\\u20E3`

const isHidden = new RegExp(`^${HIDDEN}|^\\p{M}`, 'u')
// A combining mark at the start would be drawn over the character before the text.
const needsEscape = new RegExp(`${HIDDEN}|^\\p{M}`, 'u')
const emojiOrHidden = new RegExp(`${EMOJI}|${HIDDEN}|^\\p{M}`, 'gu')

/** Most text: a test without Unicode properties takes a fraction of the time. */
const isPlain = /^[ -~]*$/

const SHORT_ESCAPES: Readonly<Record<string, string>> = {'\n': '\\n', '\r': '\\r', '\t': '\\t'}

/**
 * The text with every hidden character as an escape: `\n`, `\x1b`, `\u202e`, `\u{e0041}`. Escaping twice changes nothing
 * more. Colours are applied afterwards: those inside the text are escaped like everything else.
 */
export function printableText(text: string): string {
  return escapeHidden(text, escapeOf)
}

/** The text with every hidden character as another notation writes it. */
export function escapeHidden(text: string, escaped: (character: string) => string): string {
  if (isPlain.test(text) || !needsEscape.test(text)) return text
  return text.replace(emojiOrHidden, found => (isHidden.test(found) ? escaped(found) : found))
}

/** The same for text of several lines: its line breaks remain. */
export function printableLines(text: string): string {
  return text.split('\n').map(printableText).join('\n')
}

function escapeOf(character: string): string {
  const code = character.codePointAt(0) ?? 0
  const digits = code.toString(16)
  if (code < 0x100) return SHORT_ESCAPES[character] ?? `\\x${digits.padStart(2, '0')}`
  return code < 0x10000 ? `\\u${digits.padStart(4, '0')}` : `\\u{${digits}}`
}
