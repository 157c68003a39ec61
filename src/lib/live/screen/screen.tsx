import {Box} from 'ink'
import {useMemo} from 'react'
import {rowAt} from '../model/rows.js'
import type {Extent} from '../state/reducer.js'
import {Action, actionHeight, actionLines} from './action-panel.js'
import {DrillIn, detailLines} from './detail-panel.js'
import {Footer} from './footer-panel.js'
import {type Frame, isTooSmall, listIds, MIN_SIZE} from './frame.js'
import {Header} from './header-panel.js'
import {Health} from './health-panel.js'
import {Help, helpHeight, helpLines} from './help-panel.js'
import {seg} from './line.js'
import {Overview} from './overview-panel.js'
import type {Palette} from './palette.js'
import {Resources} from './resources-panel.js'
import {CanvasContext, ScreenLine} from './screen-line.js'
import {explanationLines, Why} from './why-panel.js'

/** The whole screen: exactly as many lines as the terminal has, none wider than it. */
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
