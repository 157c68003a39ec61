import {printableText} from '../../core/text/printable.js'
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
export const seg = (text: string, tone: Tone = 'plain'): Segment => ({text: printableText(text), tone})

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

type Colour = 'ok' | 'near' | 'over' | 'disabled' | 'history'

const sgr = (parameters: string): string => `\u001b[${parameters}m`
const style = (open: string, close: string): Style => ({open: sgr(open), close: sgr(close)})

const NONE: Style = {open: '', close: ''}
const BOLD = style('1', '22')
const DEFAULT_COLOUR = '39'
const SHAPES = {plain: NONE, dim: style('2', '22'), strong: BOLD, title: BOLD, chosen: style('7', '27')}

/** Okabe-Ito palette as RGB: distinguishable with every kind of colour blindness. */
const OKABE_ITO: Readonly<Record<Colour, readonly [number, number, number]>> = {
  ok: [0x56, 0xb4, 0xe9],
  near: [0xe6, 0x9f, 0x00],
  over: [0xd5, 0x5e, 0x00],
  disabled: [0xcc, 0x79, 0xa7],
  history: [0x00, 0x72, 0xb2],
}

/** Cyan, yellow, red, magenta, blue: never red against green. */
const SIXTEEN: Readonly<Record<Colour, string>> = {ok: '36', near: '33', over: '31', disabled: '35', history: '34'}

export function paletteFor(colourBits: number): Palette {
  if (colourBits >= 24) return palette(colour => `38;2;${OKABE_ITO[colour].join(';')}`)
  if (colourBits >= 8) return palette(colour => `38;5;${nearestOf256(...OKABE_ITO[colour])}`)
  if (colourBits >= 4) return palette(colour => SIXTEEN[colour])
  return {
    plain: NONE,
    dim: NONE,
    strong: NONE,
    title: NONE,
    chosen: NONE,
    ok: NONE,
    near: NONE,
    over: NONE,
    disabled: NONE,
    history: NONE,
  }
}

function palette(of: (colour: Colour) => string): Palette {
  const coloured = (colour: Colour) => style(of(colour), DEFAULT_COLOUR)
  const over = {open: BOLD.open + coloured('over').open, close: coloured('over').close + BOLD.close}
  return {
    ...SHAPES,
    ok: coloured('ok'),
    near: coloured('near'),
    over,
    disabled: coloured('disabled'),
    history: coloured('history'),
  }
}

/** Colours 16 to 231 are a cube with these six steps per channel. */
const STEPS = [0, 95, 135, 175, 215, 255]

function nearestOf256(red: number, green: number, blue: number): number {
  const [r = 0, g = 0, b = 0] = [red, green, blue].map(part => {
    const distances = STEPS.map(step => Math.abs(step - part))
    return distances.indexOf(Math.min(...distances))
  })
  return 16 + 36 * r + 6 * g + b
}
