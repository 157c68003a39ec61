import {shownText} from '../../core/text/printable.js'
import {formatTokens} from '../../core/text/text.js'
import {textStart, textWidth} from '../../core/text/text-width.js'

/** Shown as a colour; symbols or words always convey the same meaning. */
export type Tone = 'plain' | 'dim' | 'strong' | 'title' | 'ok' | 'near' | 'over' | 'disabled' | 'history' | 'chosen'

export interface Segment {
  readonly text: string
  readonly tone: Tone
}

export type Line = readonly Segment[]

/** Stored text may contain anything; this escapes its control characters. */
export const seg = (text: string, tone: Tone = 'plain'): Segment => ({text: shownText(text), tone})

export const linesOf = (texts: readonly string[], tone?: Tone): Line[] => texts.map(text => [seg(text, tone)])

export function cell(stored: string, width: number, ellipsis: string, align: 'left' | 'right' = 'left'): string {
  const text = shownText(stored)
  const spare = width - textWidth(text)
  if (spare >= 0) return align === 'left' ? text + ' '.repeat(spare) : ' '.repeat(spare) + text
  if (width <= 0) return ''
  const head = textStart(text, width - textWidth(ellipsis)) + ellipsis
  return head + ' '.repeat(Math.max(0, width - textWidth(head)))
}

export function shortened(stored: string, width: number, ellipsis: string): string {
  return cell(stored, Math.min(width, textWidth(shownText(stored))), ellipsis)
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

/** Leaves out pieces that do not fit; the first may be clipped. */
export function fittingPieces(pieces: readonly Line[], separator: string, width: number): Line {
  const kept: Line[] = []
  for (const piece of pieces)
    if (kept.length === 0 || columnsOf(joinPieces([...kept, piece], separator)) <= width) kept.push(piece)
  return joinPieces(kept, separator)
}

/** One line if it fits; otherwise later lines are indented. */
export function foldedPieces(pieces: readonly Line[], width: number): Line[] {
  const whole = joinPieces(pieces, FOLD_GAP)
  if (columnsOf(whole) <= width) return [whole]
  const rows = wrapPieces(pieces, width - FOLD_INDENT.length, FOLD_GAP)
  return rows.map((row, at) => (at === 0 ? row : [seg(FOLD_INDENT), ...row]))
}

const FOLD_GAP = '  '
const FOLD_INDENT = '    '

export function joinPieces(pieces: readonly Line[], separator: string): Line {
  return pieces
    .filter(piece => piece.length > 0)
    .flatMap((piece, position) => (position === 0 ? piece : [seg(separator, 'dim'), ...piece]))
}

/** Money: a token is a millionth of the currency; fractions are dropped. */
export function amountText(tokens: number, unit: string | undefined, tokensText: (tokens: number) => string): string {
  return unit === undefined ? tokensText(tokens) : formatTokens(Math.floor(tokens), unit)
}

export interface Style {
  readonly open: string
  readonly close: string
}

export type Palette = Readonly<Record<Tone, Style>>

const NONE: Style = {open: '', close: ''}

/** For 16, 256 and all colours: the Okabe-Ito palette, distinguishable with every kind of colour blindness. */
const COLOURS = {
  ok: ['36', '38;5;74', '38;2;86;180;233'],
  near: ['33', '38;5;178', '38;2;230;159;0'],
  over: ['31', '38;5;166', '38;2;213;94;0'],
  disabled: ['35', '38;5;175', '38;2;204;121;167'],
  history: ['34', '38;5;25', '38;2;0;114;178'],
} as const

export function paletteFor(colourBits: number): Palette {
  const sgr = (parameters: string): string => `\u001b[${parameters}m`
  const style = (open: string, close: string) => (colourBits < 4 ? NONE : {open: sgr(open), close: sgr(close)})
  const coloured = (colour: keyof typeof COLOURS) =>
    style(COLOURS[colour][colourBits >= 24 ? 2 : colourBits >= 8 ? 1 : 0], '39')
  const [bold, over] = [style('1', '22'), coloured('over')]
  return {
    plain: NONE,
    dim: style('2', '22'),
    strong: bold,
    title: bold,
    chosen: style('7', '27'),
    ok: coloured('ok'),
    near: coloured('near'),
    over: {open: bold.open + over.open, close: over.close + bold.close},
    disabled: coloured('disabled'),
    history: coloured('history'),
  }
}
