/** The meaning of a text; the palette maps it to a colour. Symbols or words always convey the same meaning. */
export type Tone = 'plain' | 'dim' | 'strong' | 'title' | 'ok' | 'near' | 'over' | 'history' | 'chosen'

/** Text of one tone. */
export interface Segment {
  readonly text: string
  readonly tone: Tone
}

/** One line of the screen. */
export type Line = readonly Segment[]

/** A segment, `plain` by default. */
export const seg = (text: string, tone: Tone = 'plain'): Segment => ({text, tone})

/** Line breaks, control sequences, lone surrogates, and invisible characters such as direction marks. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu

/** A line that cannot corrupt the screen: stored text may contain anything. */
export const printableLine = (line: Line): Line => line.map(({text, tone}) => seg(text.replace(UNPRINTABLE, ' '), tone))

/** Text of exactly `width` characters: truncated with `ellipsis`, or padded. */
export function cell(text: string, width: number, ellipsis: string, align: 'left' | 'right' = 'left'): string {
  if (text.length > width) return width <= 0 ? '' : text.slice(0, width - 1) + ellipsis
  return align === 'left' ? text.padEnd(width) : text.padStart(width)
}

/** Number of characters. */
export const lengthOf = (line: Line): number => line.reduce((sum, {text}) => sum + text.length, 0)

/** A line truncated to the width of the screen. */
export function clip(line: Line, width: number, ellipsis: string): Line {
  if (lengthOf(line) <= width) return line
  let room = width - ellipsis.length
  const kept: Segment[] = []
  for (const {text, tone} of line) {
    if (room <= 0) break
    kept.push(seg(text.slice(0, room), tone))
    room -= text.length
  }
  return width < ellipsis.length ? kept : [...kept, seg(ellipsis, 'dim')]
}

/** The same line in as few segments as possible. */
export function mergeSegments(line: Line): Segment[] {
  const segments: Segment[] = []
  for (const {text, tone} of line) {
    const last = segments.at(-1)
    if (last?.tone === tone) segments[segments.length - 1] = seg(last.text + text, tone)
    else if (text !== '') segments.push(seg(text, tone))
  }
  return segments
}

/** Pieces in rows of at most `width` characters, with separators; a longer piece gets its own row. */
export function wrapPieces(pieces: readonly Line[], width: number, separator: string): Line[] {
  const rows: Line[][] = []
  let room = 0
  for (const piece of pieces.filter(each => each.length > 0)) {
    const length = separator.length + lengthOf(piece)
    const row = rows.at(-1)
    if (row && length <= room) row.push(piece)
    else rows.push([piece])
    room = row && length <= room ? room - length : width - lengthOf(piece)
  }
  return rows.map(row => joinPieces(row, separator))
}

/** Pieces in one row, with separators; empty ones are left out. */
export function joinPieces(pieces: readonly Line[], separator: string): Line {
  return pieces
    .filter(piece => piece.length > 0)
    .flatMap((piece, position) => (position === 0 ? piece : [seg(separator, 'dim'), ...piece]))
}
