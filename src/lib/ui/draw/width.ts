/** Text whose characters certainly take one column each: Latin, and the symbols of the view. */
const ONE_COLUMN_EACH = /^[\x20-\x7e\xa1-\xac\xae-\xff–‖…↑↓▀-▟●○▲▸◂✖]*$/
/** Clusters that a terminal draws two columns wide: East Asian wide characters, and emoji. */
const WIDE =
  /^[\p{Script=Han}\p{Script=Hangul}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Bopomofo}\p{Script=Yi}\p{Emoji_Presentation}\p{Regional_Indicator}\u2329\u232a\u3000-\u303e\u30fb\u30fc\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]|\ufe0f|^.\u20e3/u
/** Half-width forms of the scripts above. */
const HALF_WIDTH = /^[\uff61-\uffdc]/u

const segmenter = new Intl.Segmenter('en', {granularity: 'grapheme'})

/** Columns that a text takes on a terminal. The text contains no control characters. */
export function widthOf(text: string): number {
  if (ONE_COLUMN_EACH.test(text)) return text.length
  let width = 0
  for (const {segment} of segmenter.segment(text)) width += clusterWidth(segment)
  return width
}

/** As much of the start of a text as fits into `width` columns; half a wide character does not. */
export function headOf(text: string, width: number): string {
  if (ONE_COLUMN_EACH.test(text)) return text.slice(0, Math.max(0, width))
  let room = width
  for (const {segment, index} of segmenter.segment(text)) {
    room -= clusterWidth(segment)
    if (room < 0) return text.slice(0, index)
  }
  return text
}

const clusterWidth = (cluster: string): number => (WIDE.test(cluster) && !HALF_WIDTH.test(cluster) ? 2 : 1)
