import {clip, type Line, mergeSegments, printableLine, seg} from '../draw/line.js'
import {type Frame, isTooSmall, MIN_SIZE} from '../model/frame.js'
import {detailLines} from './detail.js'
import {filterLine, statusLine, totalsLine} from './footer.js'
import {headerLines} from './header.js'
import {healthLines} from './health.js'
import {helpPanel} from './help.js'
import {overviewLines, overviewTitles} from './overview.js'
import {resourceLines, resourceTitles} from './resources.js'

/** The whole screen: exactly as many lines as the terminal has, none wider than it. */
export function screenLines(frame: Frame): Line[] {
  const {size, settings} = frame
  const lines = isTooSmall(size) ? [smallLine(frame)] : panelLines(frame)
  return Array.from({length: size.rows}, (_, row) => {
    return printableLine(mergeSegments(clip(lines[row] ?? [], size.columns, settings.glyphs.ellipsis)))
  })
}

function smallLine({settings}: Frame): Line {
  const {columns, rows} = MIN_SIZE
  return [seg(`needs at least ${columns}${settings.glyphs.times}${rows}; q quits`)]
}

function panelLines(frame: Frame): Line[] {
  const {state, heights} = frame
  const titles = heights.hasColumnTitles && state.mode !== 'help' ? [titleLine(frame)] : []
  const filter = heights.hasFilterLine ? [filterLine(frame)] : []
  const bodyHeight = titles.length > 0 ? heights.body : heights.text
  const body = bodyLines(frame, bodyHeight)
  const fill = Array.from({length: Math.max(0, bodyHeight - body.length)}, (): Line => [])
  return [...headerLines(frame), ...titles, ...body, ...fill, totalsLine(frame), ...filter, statusLine(frame)]
}

function titleLine(frame: Frame): Line {
  return frame.state.tab === 'resources' ? resourceTitles(frame) : overviewTitles(frame)
}

function bodyLines(frame: Frame, height: number): Line[] {
  const {state} = frame
  if (state.mode === 'help') return helpPanel(frame)
  if (state.detailId !== undefined) {
    const lines = detailLines(frame)
    const top = Math.max(0, Math.min(state.detailTop, lines.length - height))
    return lines.slice(top, top + height)
  }
  if (state.tab === 'resources') return resourceLines(frame)
  return state.tab === 'health' ? healthLines(frame) : overviewLines(frame)
}
