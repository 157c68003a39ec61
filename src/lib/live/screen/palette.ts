import type {Tone} from './line.js'

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
