import {Box} from 'ink'
import {useMemo} from 'react'
import {formatShortSpan} from '../../core/text/text.js'
import {wrapped} from '../../core/text/wrap.js'
import type {HealthLine, RowStatus} from '../model/model.js'
import {rowAt} from '../model/status.js'
import type {Extent} from '../state/reduce.js'
import {actionLines, actionTitle} from './action-panel.js'
import {detailLines} from './detail-panel.js'
import {Footer} from './footer-panel.js'
import {type Frame, isTooSmall, listIds, MIN_SIZE} from './frame.js'
import {Header} from './header-panel.js'
import {helpLines} from './help-panel.js'
import {cell, type Line, linesOf, type Palette, seg} from './line.js'
import {Overview, TONE_OF_STATUS} from './overview-panel.js'
import {Resources} from './resources-panel.js'
import {CanvasContext, ScreenLine, ScreenLines} from './screen-line.js'

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
  const text = scrolledText(frame)
  if (text) return <ScrolledLines frame={frame} text={text} />
  const {tab} = frame.state
  if (tab === 'resources') return <Resources frame={frame} />
  return tab === 'health' ? <ScreenLines lines={healthLines(frame)} /> : <Overview frame={frame} />
}

interface ScrolledText {
  /** Lines that stay above the others; the first also shows the position. */
  readonly fixed: readonly Line[]
  readonly lines: readonly Line[]
  readonly top: number
}

function scrolledText(frame: Frame): ScrolledText | undefined {
  const {mode, action, whyId, whyTop, detailId, detailTop, helpTop} = frame.state
  if (mode === 'help') return {fixed: [[seg('Keys', 'title')]], lines: helpLines(frame), top: helpTop}
  if (action) return {fixed: [actionTitle(frame, action), []], lines: actionLines(frame, action), top: action.top}
  if (whyId !== undefined) return {fixed: [], lines: explanationLines(frame), top: whyTop}
  return detailId === undefined ? undefined : {fixed: [], lines: detailLines(frame), top: detailTop}
}

const scrolledHeight = ({heights}: Frame, text: ScrolledText | undefined): number =>
  Math.max(0, heights.text - (text?.fixed.length ?? 0))

function ScrolledLines({frame, text}: {readonly frame: Frame; readonly text: ScrolledText}) {
  const {fixed, lines} = text
  const height = scrolledHeight(frame, text)
  const top = Math.max(0, Math.min(text.top, lines.length - height))
  const visible = lines.slice(top, top + height)
  const position = `  lines ${top + 1}-${top + visible.length} of ${lines.length}; j k scroll`
  const [title, ...below] = fixed
  const shown = title && visible.length < lines.length ? [...title, seg(position, 'near')] : title
  return <ScreenLines lines={[...(shown ? [shown] : []), ...below, ...visible]} />
}

export function extentOf(frame: Frame): Extent {
  const {state, data, ranking, heights, settings, levelsAtMs, size} = frame
  const ids = listIds(state, data, ranking)
  const rowOf = (id: string) => {
    const reading = data.readings.get(id)
    return reading && rowAt(reading, levelsAtMs, other => data.readings.get(other))
  }
  const shown = isTooSmall(size) ? undefined : scrolledText(frame)
  const text = {length: shown?.lines.length ?? 0, height: isTooSmall(size) ? 0 : scrolledHeight(frame, shown)}
  return {ids, height: heights.body, text, typedFlags: settings.typedFlags ?? '', rowOf}
}

const NAME_WIDTH = 20

const STATUS_OF_STATE: Readonly<Record<HealthLine['state'], RowStatus>> = {
  ok: 'ok',
  warn: 'near',
  bad: 'over',
  unknown: 'gone',
}

function healthLines({data, cursor, heights, settings}: Frame): Line[] {
  const {glyphs} = settings
  const {health} = data
  if (!health) return [[seg('  Loading.', 'dim')]]
  if (health.length === 0) return [[seg('  No health information for this stack.', 'dim')]]
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
    ...linesOf(wrapped(verdict, size.columns), 'strong'),
    ...linesOf(rest.flatMap(line => wrapped(line, size.columns))),
  ]
}
