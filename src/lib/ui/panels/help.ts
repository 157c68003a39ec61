import {cell, type Line, seg, wrapped} from '../draw/line.js'
import {BINDINGS, type Binding} from '../model/keys.js'
import type {Scene} from '../model/scene.js'

const COLUMN_WIDTH = 40
/** Between the parts of a legend. */
const GAP = '  '

/** The help as far as the screen shows it; its title stays, and tells of the rest. */
export function helpPanel(scene: Scene): Line[] {
  const lines = helpLines(scene)
  const height = helpHeight(scene)
  const top = Math.max(0, Math.min(scene.state.helpTop, lines.length - height))
  const visible = lines.slice(top, top + height)
  const place = `${GAP}lines ${top + 1}-${top + visible.length} of ${lines.length}; j k scroll`
  return [[seg('Keys here', 'title'), ...(visible.length < lines.length ? [seg(place, 'near')] : [])], ...visible]
}

/** Lines of the help that are seen at once, below its title. */
export const helpHeight = ({heights}: Scene): number => Math.max(0, heights.text - 1)

/** The keys that are valid where help was asked for, what a filter may be, and what the symbols mean. */
export function helpLines({state, settings, size}: Scene): Line[] {
  const valid = BINDINGS.filter(({isValid}) => isValid(state.helpOver, state.tab))
  const columns = Math.max(1, Math.min(3, Math.floor(size.columns / COLUMN_WIDTH)))
  const height = Math.ceil(valid.length / columns)
  const keys = Array.from({length: height}, (_, row) =>
    Array.from({length: columns}, (_, column) => valid[column * height + row]).flatMap(binding =>
      binding ? keyCell(binding, settings.glyphs.arrows) : [],
    ),
  )
  const filters = state.helpOver === 'list' ? [[], ...wrapped(FILTERS, size.columns, GAP)] : []
  return [...keys, ...filters, [], ...legend(settings.glyphs).flatMap(row => wrapped(row, size.columns, GAP))]
}

function keyCell({label, says}: Binding, arrows: string): Line {
  const keys = label.replace('{arrows}', arrows)
  return [seg(keys, 'strong'), seg(cell(` ${says}`, COLUMN_WIDTH - keys.length, ''))]
}

const FILTERS: readonly Line[] = [
  [seg('Filters:')],
  [seg('gpt', 'strong'), seg(' part of a name')],
  [seg('!gpt', 'strong'), seg(' all others')],
  [seg('status:over', 'strong')],
  [seg('resource:gpt-4', 'strong'), seg(' or '), seg('entity:ada', 'strong'), seg(' that one alone')],
]

function legend(glyphs: Scene['settings']['glyphs']): Line[][] {
  const {status, belowZero, overfull, empties, fills, plusMinus, old} = glyphs
  return [
    [
      [seg(`${status.ok} ok`, 'ok')],
      [seg(`${status.near} below a fifth, or empty within a minute`, 'near')],
      [seg(`${status.over} refusing`, 'over')],
      [seg(`${status.gone} gone`, 'dim')],
    ],
    [
      [seg(`${belowZero} in debt`)],
      [seg(`${overfull} more than the capacity`)],
      [seg(`${empties} empty in`)],
      [seg(`${fills} full in`)],
      [seg(`4${plusMinus}30% shards and how unequal they are`)],
    ],
    [[seg(`${old} not read for three polls: sampled, and not its turn yet`)]],
  ]
}
