import {Box} from 'ink'
import {useMemo} from 'react'
import {formatShortSpan} from '../../core/text/text.js'
import {wrapped} from '../../core/text/wrap.js'
import type {HealthLine, RowStatus} from '../model/model.js'
import {rowAt} from '../model/status.js'
import type {Extent} from '../state/reduce.js'
import {Action, actionHeight, actionLines} from './action-panel.js'
import {DrillIn, detailLines} from './detail-panel.js'
import {Footer} from './footer-panel.js'
import {type Frame, isTooSmall, listIds, MIN_SIZE} from './frame.js'
import {Header} from './header-panel.js'
import {Help, helpHeight, helpLines} from './help-panel.js'
import {cell, type Line, type Palette, seg} from './line.js'
import {Overview, TONE_OF_STATUS} from './overview-panel.js'
import {Resources} from './resources-panel.js'
import {CanvasContext, ScreenLine, ScreenLines} from './screen-line.js'

/** Exactly as many lines as the terminal has, none wider than it. */
export function Screen({frame, palette}: {readonly frame: Frame; readonly palette: Palette}) {
  const {size, settings, heights} = frame
  const {columns, rows} = size
  const {ellipsis, times} = settings.glyphs
  const canvas = useMemo(() => ({columns, palette, ellipsis}), [columns, palette, ellipsis])
  const required = `needs at least ${MIN_SIZE.columns}${times}${MIN_SIZE.rows}; q quits`
  return (
    <CanvasContext value={canvas}>
      <Box flexDirection="column" width={columns} height={rows}>
        {isTooSmall(size) ? (
          <ScreenLine line={[seg(required)]} />
        ) : (
          <>
            <Header frame={frame} />
            <Box flexDirection="column" height={heights.text} flexShrink={0}>
              <Body frame={frame} />
            </Box>
            <Footer frame={frame} />
          </>
        )}
      </Box>
    </CanvasContext>
  )
}

function Body({frame}: {readonly frame: Frame}) {
  const {mode, tab, detailId, whyId, action} = frame.state
  if (mode === 'help') return <Help frame={frame} />
  if (action) return <Action frame={frame} action={action} />
  if (whyId !== undefined) return <Why frame={frame} />
  if (detailId !== undefined) return <DrillIn frame={frame} />
  if (tab === 'resources') return <Resources frame={frame} />
  return tab === 'health' ? <Health frame={frame} /> : <Overview frame={frame} />
}

export function extentOf(frame: Frame): Extent {
  const {state, data, ranking, heights, settings, levelsAtMs} = frame
  const ids = listIds(state, data, ranking)
  const rowOf = (id: string) => {
    const reading = data.readings.get(id)
    return reading && rowAt(reading, levelsAtMs, other => data.readings.get(other))
  }
  return {ids, height: heights.body, text: textExtent(frame), typedFlags: settings.typedFlags ?? '', rowOf}
}

function textExtent(frame: Frame): Extent['text'] {
  const {state, heights, size} = frame
  if (isTooSmall(size)) return {length: 0, height: 0}
  if (state.mode === 'help') return {length: helpLines(frame).length, height: helpHeight(frame)}
  if (state.action) return {length: actionLines(frame, state.action).length, height: actionHeight(frame)}
  if (state.whyId !== undefined) return {length: explanationLines(frame).length, height: heights.text}
  return {length: state.detailId === undefined ? 0 : detailLines(frame).length, height: heights.text}
}

const NAME_WIDTH = 20

const STATUS_OF_STATE: Readonly<Record<HealthLine['state'], RowStatus>> = {
  ok: 'ok',
  warn: 'near',
  bad: 'over',
  unknown: 'gone',
}

function Health({frame}: {readonly frame: Frame}) {
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

function Why({frame}: {readonly frame: Frame}) {
  const lines = explanationLines(frame)
  const {state, heights} = frame
  const top = Math.max(0, Math.min(state.whyTop, lines.length - heights.text))
  return <ScreenLines lines={lines.slice(top, top + heights.text)} />
}

function explanationLines({state, data, nowMs, settings, size}: Frame): Line[] {
  const [entity = '', resource = ''] = (state.whyId ?? '').split('#')
  const title = seg(`Why ${entity} ${settings.glyphs.dot} ${resource}`, 'title')
  const why = data.why?.id === state.whyId ? data.why : undefined
  if (!why) return [[title], [], [seg('Loading.', 'dim')]]
  const age = seg(`  read ${formatShortSpan(nowMs - why.loadedAtMs)} ago`, 'dim')
  const [verdict = '', ...rest] = why.lines
  return [
    [title, age],
    [],
    ...wrapped(verdict, size.columns).map((text): Line => [seg(text, 'strong')]),
    ...rest.flatMap(line => wrapped(line, size.columns)).map((text): Line => [seg(text)]),
  ]
}
