import {clip, type Line, merged, printable, seg} from './draw/line.js'
import {isTooSmall, SMALLEST} from './model/layout.js'
import type {Scene} from './model/scene.js'
import {detailLines} from './panels/detail.js'
import {filterLine, statusLine, totalsLine} from './panels/footer.js'
import {headerLines} from './panels/header.js'
import {healthLines} from './panels/health.js'
import {helpPanel} from './panels/help.js'
import {overviewLines, overviewTitles} from './panels/overview.js'
import {resourceLines, resourceTitles} from './panels/resources.js'

/** The whole screen: exactly as many lines as the terminal has, none longer than it is wide, whatever is in them. */
export function screenLines(scene: Scene): Line[] {
  const {size, settings} = scene
  const lines = isTooSmall(size) ? [smallLine(scene)] : panelLines(scene)
  return Array.from({length: size.rows}, (_, row) => {
    return printable(merged(clip(lines[row] ?? [], size.columns, settings.glyphs.ellipsis)))
  })
}

function smallLine({settings}: Scene): Line {
  const {columns, rows} = SMALLEST
  return [seg(`needs at least ${columns}${settings.glyphs.times}${rows}; q quits`)]
}

function panelLines(scene: Scene): Line[] {
  const {state, heights} = scene
  const titles = heights.hasColumnTitles && state.mode !== 'help' ? [titleLine(scene)] : []
  const filter = heights.hasFilterLine ? [filterLine(scene)] : []
  const bodyHeight = titles.length > 0 ? heights.body : heights.text
  const body = bodyLines(scene, bodyHeight)
  const fill = Array.from({length: Math.max(0, bodyHeight - body.length)}, (): Line => [])
  return [...headerLines(scene), ...titles, ...body, ...fill, totalsLine(scene), ...filter, statusLine(scene)]
}

function titleLine(scene: Scene): Line {
  return scene.state.tab === 'resources' ? resourceTitles(scene) : overviewTitles(scene)
}

function bodyLines(scene: Scene, height: number): Line[] {
  const {state} = scene
  if (state.mode === 'help') return helpPanel(scene)
  if (state.detailId !== undefined) {
    const lines = detailLines(scene)
    const top = Math.max(0, Math.min(state.detailTop, lines.length - height))
    return lines.slice(top, top + height)
  }
  if (state.tab === 'resources') return resourceLines(scene)
  return state.tab === 'health' ? healthLines(scene) : overviewLines(scene)
}
