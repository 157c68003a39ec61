import {stripVTControlCharacters} from 'node:util'
import {renderToString} from 'ink'
import {expect} from 'vitest'
import {textWidth} from '../../../src/lib/core/text/text-width.js'
import type {Reading, Selection, Watch, WatchData} from '../../../src/lib/live/model/model.js'
import {buildFrame, type Frame, levelsInstant, Ranker, type ViewSettings} from '../../../src/lib/live/screen/frame.js'
import {ASCII_GLYPHS, BLOCK_GLYPHS} from '../../../src/lib/live/screen/glyphs.js'
import {paletteFor} from '../../../src/lib/live/screen/line.js'
import {extentOf, Screen} from '../../../src/lib/live/screen/screen.js'
import type {KeyPress} from '../../../src/lib/live/state/keys.js'
import {screenReducer} from '../../../src/lib/live/state/reduce.js'
import {initialState, type ScreenState} from '../../../src/lib/live/state/screen-state.js'
import {READ_AT_MS} from '../support.js'
import {watchDataOf} from './fake-watch.js'
import {SAMPLE} from './fixtures.js'

/** Differences from the default screen. */
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
  const screen = {...initialState({sort: 'left', reversed: false, filter: ''}, known.intervalMs), ...state}
  const nowMs = READ_AT_MS + ageMs
  const glyphs = ascii ? ASCII_GLYPHS : BLOCK_GLYPHS
  const settings = {stack: 'prod', namespace: 'default', where: 'eu-west-1', top, glyphs}
  const atMs = levelsInstant(screen, known, nowMs)
  const ranking = new Ranker(top).rankingAt(known.readings, atMs, screen.selection, screen.tab)
  return buildFrame({settings, size: {columns, rows}, state: screen, data: known, ranking, nowMs})
}

/** The screen as text, one line per row of the terminal; colours must not change it. */
export function draw(options: DrawOptions = {}): string {
  const {columns = 80, rows = 12} = options
  const frame = frameOf(options)
  const text = textOf(frame, 1)
  const lines = text.split('\n')
  expect(lines).toHaveLength(rows)
  for (const line of lines) expect(textWidth(line)).toBeLessThanOrEqual(columns)
  expect(stripVTControlCharacters(textOf(frame, 24)).replaceAll(/ +$/gm, '')).toBe(text)
  return `\n${text}\n`
}

function textOf(frame: Frame, colourBits: number): string {
  return renderToString(<Screen frame={frame} palette={paletteFor(colourBits)} />, {columns: frame.size.columns})
}

/** A view of a watch on 120×24 without a terminal. */
export class OffScreenView {
  readonly #watch: Watch
  readonly #settings: ViewSettings = {stack: 's', namespace: 'n', where: 'w', top: undefined, glyphs: BLOCK_GLYPHS}
  readonly #ranker = new Ranker(undefined)
  #state: ScreenState

  constructor(watch: Watch, selection: Selection) {
    this.#watch = watch
    this.#state = initialState(selection, watch.data().intervalMs)
  }

  press(input: string, key: KeyPress = {}): void {
    const event = {type: 'press', input, key, atMs: this.#watch.now()} as const
    this.#state = screenReducer(this.#state, event, state => extentOf(this.#frameOf(state)))
  }

  /** The screen at the time of the watch. */
  get screen(): string {
    return textOf(this.#frameOf(this.#state), 1)
  }

  #frameOf(state: ScreenState): Frame {
    const data = this.#watch.data()
    const nowMs = this.#watch.now()
    const ranking = this.#ranker.rankingAt(data.readings, nowMs, state.selection, state.tab)
    const size = {columns: 120, rows: 24}
    return buildFrame({settings: this.#settings, size, state, data, ranking, nowMs})
  }
}
