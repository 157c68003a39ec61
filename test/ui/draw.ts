import {expect} from 'vitest'
import {ASCII_GLYPHS, BLOCK_GLYPHS} from '../../src/lib/ui/draw/glyphs.js'
import {lengthOf} from '../../src/lib/ui/draw/line.js'
import {paletteFor} from '../../src/lib/ui/draw/palette.js'
import {TerminalRenderer} from '../../src/lib/ui/draw/renderer.js'
import {buildFrame, type Frame, levelsInstant, type Size} from '../../src/lib/ui/model/frame.js'
import {Ranker} from '../../src/lib/ui/model/ranker.js'
import {initialState, type ScreenState} from '../../src/lib/ui/model/screen-state.js'
import {screenLines} from '../../src/lib/ui/panels/screen.js'
import type {Reading, WatchData} from '../../src/lib/watch/model.js'
import {READ_AT_MS} from '../watch/support.js'
import {watchDataOf} from './fake-watch.js'
import {SAMPLE} from './fixtures.js'
import {FakeTerminal} from './terminal.js'

/** What differs from the default screen. */
export interface DrawOptions {
  readonly columns?: number
  readonly rows?: number
  readonly state?: Partial<ScreenState>
  readonly data?: Partial<WatchData>
  readonly readings?: readonly Reading[]
  readonly ascii?: boolean
  readonly ageMs?: number
  readonly top?: number
}

function frameOf({
  columns = 80,
  rows = 12,
  state,
  data,
  readings = SAMPLE,
  ascii,
  ageMs = 1000,
  top,
}: DrawOptions): Frame {
  const known = watchDataOf(readings, data)
  const screen = {...initialState({sort: 'left', reversed: false, filter: ''}), ...state}
  const nowMs = READ_AT_MS + ageMs
  const glyphs = ascii ? ASCII_GLYPHS : BLOCK_GLYPHS
  const settings = {stack: 'prod', namespace: 'default', where: 'eu-west-1', top, glyphs}
  const atMs = levelsInstant(screen, known, nowMs)
  const ranking = new Ranker(top).rankingAt(known.readings, atMs, screen.selection, screen.tab)
  return buildFrame({settings, size: {columns, rows}, state: screen, data: known, ranking, nowMs})
}

/** The screen as text, one line per row of the terminal. */
export function draw(options: DrawOptions = {}): string {
  const {columns = 80, rows = 12} = options
  const frame = frameOf(options)
  const lines = screenLines(frame)
  expect(lines).toHaveLength(rows)
  for (const line of lines) expect(lengthOf(line)).toBeLessThanOrEqual(columns)
  return `\n${screenOn({columns, rows})(frame)}\n`
}

/** A colour terminal on which frames are rendered one over the other; returns its text without the colours. */
export function screenOn({columns, rows}: Size): (frame: Frame) => string {
  const terminal = new FakeTerminal(columns, rows)
  const renderer = new TerminalRenderer(text => terminal.write(text), paletteFor(24))
  return frame => {
    renderer.render(screenLines(frame))
    return terminal.screen
  }
}
