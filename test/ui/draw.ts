import {expect} from 'vitest'
import {ASCII_GLYPHS, BLOCK_GLYPHS} from '../../src/lib/ui/draw/glyphs.js'
import {lengthOf} from '../../src/lib/ui/draw/line.js'
import {Ranker} from '../../src/lib/ui/model/ranker.js'
import {levelsInstant, type Scene, setScene} from '../../src/lib/ui/model/scene.js'
import {firstState, type ScreenState} from '../../src/lib/ui/model/screen-state.js'
import {screenLines} from '../../src/lib/ui/screen.js'
import type {Knowledge, Reading} from '../../src/lib/watch/model.js'
import {READ_AT_MS} from '../watch/support.js'
import {knowledgeOf} from './fake-watch.js'
import {SAMPLE} from './fixtures.js'
import {easel} from './painted.js'

/** What is on the screen, where it is not the usual. */
export interface Look {
  readonly columns?: number
  readonly rows?: number
  readonly state?: Partial<ScreenState>
  readonly knowledge?: Partial<Knowledge>
  readonly readings?: readonly Reading[]
  readonly ascii?: boolean
  readonly ageMs?: number
  readonly top?: number
}

function sceneOf({
  columns = 80,
  rows = 12,
  state,
  knowledge,
  readings = SAMPLE,
  ascii,
  ageMs = 1000,
  top,
}: Look): Scene {
  const known = knowledgeOf(readings, knowledge)
  const screen = {...firstState({sort: 'left', reversed: false, filter: ''}), ...state}
  const nowMs = READ_AT_MS + ageMs
  const glyphs = ascii ? ASCII_GLYPHS : BLOCK_GLYPHS
  const settings = {stack: 'prod', namespace: 'default', where: 'eu-west-1', top, glyphs}
  const atMs = levelsInstant(screen, known, nowMs)
  const ranking = new Ranker(top).rankingAt(known.readings, atMs, screen.selection, screen.tab)
  return setScene({settings, size: {columns, rows}, state: screen, knowledge: known, ranking, nowMs})
}

/** The screen as text, one line per row of the terminal. */
export function draw(look: Look = {}): string {
  const {columns = 80, rows = 12} = look
  const scene = sceneOf(look)
  const lines = screenLines(scene)
  expect(lines).toHaveLength(rows)
  for (const line of lines) expect(lengthOf(line)).toBeLessThanOrEqual(columns)
  return `\n${easel({columns, rows})(scene)}\n`
}
