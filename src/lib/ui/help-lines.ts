import {BINDINGS, type Binding} from './keys.js'
import {cell, type Line, seg} from './line.js'
import type {Scene} from './scene.js'

const COLUMN_WIDTH = 40

/** The keys that are valid where help was asked for, and what the symbols mean. */
export function helpLines({state, settings, size}: Scene): Line[] {
  const {status, belowZero, overfull, empties, fills, plusMinus, old} = settings.glyphs
  const valid = BINDINGS.filter(({isValid}) => isValid(state.helpOver, state.tab))
  const columns = Math.max(1, Math.min(3, Math.floor(size.columns / COLUMN_WIDTH)))
  const height = Math.ceil(valid.length / columns)
  const rows = Array.from({length: height}, (_, row) =>
    Array.from({length: columns}, (_, column) => valid[column * height + row]).flatMap(binding =>
      binding ? keyCell(binding, settings.glyphs.arrows) : [],
    ),
  )
  return [
    [seg('Keys here', 'title')],
    ...rows,
    [],
    [
      seg(`${status.ok} ok  `, 'ok'),
      seg(`${status.near} below a fifth, or empty within a minute  `, 'near'),
      seg(`${status.over} refusing  `, 'over'),
      seg(`${status.gone} gone`, 'dim'),
    ],
    [
      seg(`${belowZero} in debt  ${overfull} more than the capacity  `),
      seg(`${empties} empty in  ${fills} full in  4${plusMinus}30% shards and how unequal they are`),
    ],
    [seg(`${old} not read for three polls: sampled, and not its turn yet`)],
  ]
}

function keyCell({label, says}: Binding, arrows: string): Line {
  const keys = label.replace('{arrows}', arrows)
  return [seg(keys, 'strong'), seg(cell(` ${says}`, COLUMN_WIDTH - keys.length, ''))]
}
