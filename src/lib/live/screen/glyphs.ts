import {BLOCKS} from '../../core/text/gauge.js'
import type {RowStatus} from '../model/model.js'

export const BLOCK_GLYPHS = {
  ...BLOCKS,
  status: {ok: '●', overdrawn: '◆', near: '▲', over: '✖', disabled: '⊘', gone: '○'} satisfies Record<RowStatus, string>,
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

export type GlyphSet = Readonly<typeof BLOCK_GLYPHS>

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
