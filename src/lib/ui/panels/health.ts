import type {HealthLine, RowStatus} from '../../watch/model.js'
import {cell, type Line, seg} from '../draw/line.js'
import type {Scene} from '../model/scene.js'
import {TONE_OF_STATUS} from './overview.js'

const NAME_WIDTH = 20

/** Health speaks with the symbols of the rows. */
const STATUS_OF_STATE: Readonly<Record<HealthLine['state'], RowStatus>> = {
  ok: 'ok',
  warn: 'near',
  bad: 'over',
  unknown: 'gone',
}

/** What is known about stream, aggregator and table. */
export function healthLines({knowledge, cursor, heights, settings}: Scene): Line[] {
  const {glyphs} = settings
  const {health} = knowledge
  if (!health) return [[seg('  Asking.', 'dim')]]
  if (health.length === 0) return [[seg('  Nothing is known about the health of this stack.', 'dim')]]
  return health.slice(cursor.top, cursor.top + heights.body).map(({name, state, text}, position) => {
    const status = STATUS_OF_STATE[state]
    const isChosen = cursor.top + position === cursor.index
    return [
      seg(isChosen ? `${glyphs.cursor} ` : '  ', 'strong'),
      seg(`${glyphs.status[status]} `, TONE_OF_STATUS[status]),
      seg(cell(name, NAME_WIDTH, glyphs.ellipsis), 'strong'),
      seg(` ${text}`, state === 'unknown' ? 'dim' : 'plain'),
    ]
  })
}
