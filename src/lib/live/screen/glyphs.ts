import {BLOCKS, type GaugeGlyphs} from '../../core/text/gauge.js'
import type {RowStatus} from '../model/model.js'

export interface GlyphSet extends GaugeGlyphs {
  readonly status: Readonly<Record<RowStatus, string>>
  readonly cursor: string
  readonly paused: string
  readonly ascending: string
  readonly descending: string
  readonly empties: string
  readonly fills: string
  readonly plusMinus: string
  readonly pressure: string
  readonly dot: string
  readonly ellipsis: string
  readonly dash: string
  readonly old: string
  readonly arrows: string
  readonly times: string
  readonly becomes: string
}

export const BLOCK_GLYPHS: GlyphSet = {
  ...BLOCKS,
  status: {ok: '●', overdrawn: '◆', near: '▲', over: '✖', disabled: '⊘', gone: '○'},
  cursor: '▸',
  paused: '‖',
  ascending: '↑',
  descending: '↓',
  empties: '↓',
  fills: '↑',
  plusMinus: '±',
  pressure: '▲',
  dot: '·',
  ellipsis: '…',
  dash: '–',
  old: '~',
  arrows: '↑ ↓',
  times: '×',
  becomes: '→',
}

export const ASCII_GLYPHS: GlyphSet = {
  eighths: '_.:-=+*#',
  track: ' ',
  edges: ['[', ']'],
  belowZero: '<',
  debt: 'x',
  overfull: '>',
  heights: '_.:-=+*#',
  noSample: ' ',
  status: {ok: 'o', overdrawn: 'd', near: '!', over: 'X', disabled: '#', gone: '-'},
  cursor: '>',
  paused: '||',
  ascending: '^',
  descending: 'v',
  empties: 'v',
  fills: '^',
  plusMinus: '~',
  pressure: '!',
  dot: '|',
  ellipsis: '~',
  dash: '-',
  old: '~',
  arrows: 'up down',
  times: 'x',
  becomes: '->',
}
