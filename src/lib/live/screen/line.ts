import {printableText} from '../../core/text/printable.js'
import {formatTokens} from '../../core/text/text.js'
import {textStart, textWidth} from '../../core/text/text-width.js'

/** The meaning of a text; the palette maps it to a colour. Symbols or words always convey the same meaning. */
export type Tone = 'plain' | 'dim' | 'strong' | 'title' | 'ok' | 'near' | 'over' | 'disabled' | 'history' | 'chosen'

export interface Segment {
  readonly text: string
  readonly tone: Tone
}

export type Line = readonly Segment[]

/** A segment, `plain` by default. Stored text may contain anything; no control character of it gets past here. */
export const seg = (text: string, tone: Tone = 'plain'): Segment => ({text: printableText(text), tone})

/** Text of exactly `width` columns: truncated with `ellipsis`, or padded. */
export function cell(stored: string, width: number, ellipsis: string, align: 'left' | 'right' = 'left'): string {
  const text = printableText(stored)
  const spare = width - textWidth(text)
  if (spare >= 0) return align === 'left' ? text + ' '.repeat(spare) : ' '.repeat(spare) + text
  if (width <= 0) return ''
  const head = textStart(text, width - textWidth(ellipsis)) + ellipsis
  return head + ' '.repeat(Math.max(0, width - textWidth(head)))
}

export function shortened(stored: string, width: number, ellipsis: string): string {
  return cell(stored, Math.min(width, textWidth(printableText(stored))), ellipsis)
}

export const columnsOf = (line: Line): number => line.reduce((sum, {text}) => sum + textWidth(text), 0)

export function clip(line: Line, width: number, ellipsis: string): Line {
  if (columnsOf(line) <= width) return line
  let room = width - textWidth(ellipsis)
  const kept: Segment[] = []
  for (const {text, tone} of line) {
    if (room <= 0) break
    kept.push({text: textStart(text, room), tone})
    room -= textWidth(text)
  }
  return width < textWidth(ellipsis) ? kept : [...kept, seg(ellipsis, 'dim')]
}

/** A line with another at the right end of the screen; the left one is truncated. */
export function withRightEnd(left: Line, right: Line, width: number, ellipsis: string): Line {
  if (right.length === 0) return left
  const head = clip(left, Math.max(0, width - columnsOf(right) - 1), ellipsis)
  return [...head, seg(' '.repeat(Math.max(0, width - columnsOf(head) - columnsOf(right)))), ...right]
}

export function isSameLine(a: Line, b: Line): boolean {
  return (
    a === b || (a.length === b.length && a.every(({text, tone}, at) => text === b[at]?.text && tone === b[at].tone))
  )
}

/** Pieces in rows of at most `width` columns, with separators; a longer piece gets its own row. */
export function wrapPieces(pieces: readonly Line[], width: number, separator: string): Line[] {
  const rows: Line[][] = []
  let room = 0
  for (const piece of pieces.filter(each => each.length > 0)) {
    const taken = separator.length + columnsOf(piece)
    const row = rows.at(-1)
    if (row && taken <= room) row.push(piece)
    else rows.push([piece])
    room = row && taken <= room ? room - taken : width - columnsOf(piece)
  }
  return rows.map(row => joinPieces(row, separator))
}

export function joinPieces(pieces: readonly Line[], separator: string): Line {
  return pieces
    .filter(piece => piece.length > 0)
    .flatMap((piece, position) => (position === 0 ? piece : [seg(separator, 'dim'), ...piece]))
}

/** Tokens as `tokensText` writes them, or the money that they stand for; parts of a millionth are dropped. */
export function amountText(tokens: number, unit: string | undefined, tokensText: (tokens: number) => string): string {
  return unit === undefined ? tokensText(tokens) : formatTokens(Math.floor(tokens), unit)
}
