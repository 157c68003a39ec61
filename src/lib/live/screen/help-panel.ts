import {textWidth} from '../../core/text/text-width.js'
import {bindingsOf, type KeyBinding} from '../state/keys.js'
import type {Frame} from './frame.js'
import {cell, type Line, seg, wrapPieces} from './line.js'

const COLUMN_WIDTH = 40
const GAP = '  '

export function helpLines({state, settings, size}: Frame): Line[] {
  const valid = bindingsOf(state.canAct).filter(({isValid}) => isValid(state.helpOver, state.tab))
  const columns = Math.max(1, Math.min(3, Math.floor(size.columns / COLUMN_WIDTH)))
  const height = Math.ceil(valid.length / columns)
  const keys = Array.from({length: height}, (_, row) =>
    Array.from({length: columns}, (_, column) => valid[column * height + row]).flatMap(binding =>
      binding ? keyCell(binding, settings.glyphs.arrows) : [],
    ),
  )
  const filters = state.helpOver === 'list' ? [[], ...wrapPieces(FILTERS, size.columns, GAP)] : []
  return [...keys, ...filters, [], ...legend(settings.glyphs).flatMap(row => wrapPieces(row, size.columns, GAP))]
}

function keyCell({label, description}: KeyBinding, arrows: string): Line {
  const keys = label.replace('{arrows}', arrows)
  return [seg(keys, 'strong'), seg(cell(` ${description}`, COLUMN_WIDTH - textWidth(keys), ''))]
}

const FILTERS: readonly Line[] = [
  [seg('Filters:')],
  [seg('gpt', 'strong'), seg(' part of a name')],
  [seg('!gpt', 'strong'), seg(' excludes it')],
  [seg('status:over', 'strong')],
  [seg('resource:gpt-4', 'strong'), seg(' or '), seg('entity:ada', 'strong'), seg(' exact match')],
]

function legend(glyphs: Frame['settings']['glyphs']): Line[][] {
  const {status, belowZero, overfull, empties, fills, plusMinus, old} = glyphs
  return [
    [
      [seg(`${status.ok} ok`, 'ok')],
      [seg(`${status.near} below 20 %, or empty within a minute`, 'near')],
      [seg(`${status.over} refusing`, 'over')],
      [seg(`${fills} parent its parent refuses`, 'over')],
      [seg(`${fills} provider a shared scope refuses`, 'over')],
      [seg(`${status.overdrawn} soft and empty`, 'near')],
      [seg(`${status.disabled} disabled`, 'disabled')],
      [seg(`${status.gone} gone`, 'dim')],
    ],
    [
      [seg(`${belowZero} in debt`)],
      [seg(`${overfull} above its capacity`)],
      [seg(`${empties} empty in`)],
      [seg(`${fills} full in`)],
      [seg(`4${plusMinus}30% shards and their imbalance`)],
    ],
    [[seg(`${old} not read in the last three polls (each poll reads a sample)`)]],
  ]
}
