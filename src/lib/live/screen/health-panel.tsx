import type {HealthLine, RowStatus} from '../model/model.js'
import type {Frame} from './frame.js'
import {cell, type Line, seg} from './line.js'
import {TONE_OF_STATUS} from './overview-panel.js'
import {ScreenLines} from './screen-line.js'

const NAME_WIDTH = 20

const STATUS_OF_STATE: Readonly<Record<HealthLine['state'], RowStatus>> = {
  ok: 'ok',
  warn: 'near',
  bad: 'over',
  unknown: 'gone',
}

export function Health({frame}: {readonly frame: Frame}) {
  return <ScreenLines lines={healthLines(frame)} />
}

function healthLines({data, cursor, heights, settings}: Frame): Line[] {
  const {glyphs} = settings
  const {health} = data
  if (!health) return [[seg('  Loading.', 'dim')]]
  if (health.length === 0) return [[seg('  There is no health information for this stack.', 'dim')]]
  return health.slice(cursor.top, cursor.top + heights.body).map(({name, state, text}, position) => {
    const status = STATUS_OF_STATE[state]
    const isSelected = cursor.top + position === cursor.index
    return [
      seg(isSelected ? `${glyphs.cursor} ` : '  ', 'strong'),
      seg(`${glyphs.status[status]} `, TONE_OF_STATUS[status]),
      seg(cell(name, NAME_WIDTH, glyphs.ellipsis), 'strong'),
      seg(` ${text}`, state === 'unknown' ? 'dim' : 'plain'),
    ]
  })
}
