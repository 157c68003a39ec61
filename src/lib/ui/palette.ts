import type {Tone} from './line.js'

/** What Ink needs to know of a tone. */
export interface TextStyle {
  readonly color?: string
  readonly bold?: boolean
  readonly dimColor?: boolean
  readonly inverse?: boolean
}

/** A style for every tone. */
export type Palette = Readonly<Record<Tone, TextStyle>>

const SHAPES = {
  plain: {},
  dim: {dimColor: true},
  strong: {bold: true},
  title: {bold: true},
  chosen: {inverse: true},
} satisfies Partial<Palette>

/** Colours of Okabe and Ito: told apart with every kind of colour blindness. */
const MANY_COLOURS: Palette = {
  ...SHAPES,
  ok: {color: '#56B4E9'},
  near: {color: '#E69F00'},
  over: {color: '#D55E00', bold: true},
  history: {color: '#0072B2'},
}

/** Never red against green. */
const SIXTEEN_COLOURS: Palette = {
  ...SHAPES,
  ok: {color: 'cyan'},
  near: {color: 'yellow'},
  over: {color: 'red', bold: true},
  history: {color: 'blue'},
}

/** Bits of a terminal with 256 colours. */
const MANY_COLOUR_BITS = 8

/** The palette of a terminal; without colours Ink leaves them out, and symbols say the same. */
export function paletteFor(colourBits: number): Palette {
  return colourBits >= MANY_COLOUR_BITS ? MANY_COLOURS : SIXTEEN_COLOURS
}
