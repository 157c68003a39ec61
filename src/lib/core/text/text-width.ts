/** Two columns wide (East Asian Width W and F), besides emoji. */
const WIDE_RANGES =
  '\\u1100-\\u115F\\u2329\\u232A\\u2E80-\\u303E\\u3041-\\uA4CF\\uA960-\\uA97C\\uAC00-\\uD7A3\\uF900-\\uFAFF' +
  '\\uFE10-\\uFE19\\uFE30-\\uFE6B\\uFF01-\\uFF60\\uFFE0-\\uFFE6\\u{16FE0}-\\u{18DFF}\\u{1AFF0}-\\u{1B2FF}' +
  // 1FA70-1FAFF also holds emoji newer than Node's Unicode version.
  '\\u{1F200}-\\u{1F265}\\u{1FA70}-\\u{1FAFF}\\u{20000}-\\u{3FFFD}'
const isWide = new RegExp(`^(?:[${WIDE_RANGES}]|\\p{RI}{2}|(?!\\p{RI})\\p{Emoji_Presentation})|\\uFE0F`, 'u')
const wideCharacters = new RegExp(`[${WIDE_RANGES}]|\\p{Emoji_Presentation}`, 'gu')
const isPlain = /^[ -~]*$/
/**
 * Without joining characters each code point is one grapheme, so no segmenter is needed. Some letters of Indic scripts
 * (U+0D4E, U+11000-11FFF) and Kirat Rai (U+16D40-16D7F) join too.
 */
const isUnjoined =
  /^[^\p{M}\p{RI}\p{EMod}\p{Cf}\u0D4E\u0E33\u0EB3\u1100-\u11FF\uA960-\uA97C\uD7B0-\uD7FB\uFF9E\uFF9F\u{11000}-\u{11FFF}\u{16D40}-\u{16D7F}]*$/u
/** Marks, and the vowels and endings of Hangul syllables, share the column of the character before them. */
const overlays = /[\p{Mn}\p{Me}\u1160-\u11FF\uD7B0-\uD7FB]/gu

let segmenter: Intl.Segmenter | undefined

export function graphemesOf(text: string): string[] {
  if (isUnjoined.test(text)) return [...text]
  segmenter ??= new Intl.Segmenter('en', {granularity: 'grapheme'})
  return Array.from(segmenter.segment(text), ({segment}) => segment)
}

export function textWidth(text: string): number {
  if (isPlain.test(text)) return text.length
  if (isUnjoined.test(text)) return [...text].length + (text.match(wideCharacters)?.length ?? 0)
  return graphemesOf(text).reduce((sum, grapheme) => sum + graphemeWidth(grapheme), 0)
}

/** The longest start that fits `width` columns; never splits a grapheme. */
export function textStart(text: string, width: number): string {
  if (isPlain.test(text)) return text.slice(0, Math.max(0, width))
  let room = width
  const kept: string[] = []
  for (const grapheme of graphemesOf(text)) {
    room -= graphemeWidth(grapheme)
    if (room < 0) break
    kept.push(grapheme)
  }
  return kept.join('')
}

export function cutText(text: string, width: number): string {
  if (textWidth(text) <= width) return text
  return width < 1 ? '' : `${textStart(text, width - 1)}…`
}

export function padText(text: string, width: number, side: 'left' | 'right' = 'left'): string {
  const spaces = ' '.repeat(Math.max(0, width - textWidth(text)))
  return side === 'left' ? text + spaces : spaces + text
}

function graphemeWidth(grapheme: string): number {
  if (isWide.test(grapheme)) return 2
  // In some scripts one grapheme has several letters, each a column wide.
  return Math.max(1, [...grapheme.replace(overlays, '')].length)
}
