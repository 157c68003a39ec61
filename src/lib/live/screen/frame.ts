import type {Reading, ResourceRow, Row, Totals, WatchData} from '../model/model.js'
import {rowAt} from '../model/rows.js'
import {type Cursor, resolveCursor} from '../state/cursor.js'
import type {ScreenState} from '../state/screen-state.js'
import type {GlyphSet} from './glyphs.js'

export const MIN_SIZE: Size = {columns: 40, rows: 8}

/** Header (2), totals and status. */
const FIXED_LINES = 4

export interface ViewSettings {
  readonly stack: string
  readonly namespace: string
  /** Region or endpoint. */
  readonly where: string
  readonly typedFlags?: string
  /** Maximum number of rows; `undefined`: all. */
  readonly top: number | undefined
  readonly glyphs: GlyphSet
}

export interface Size {
  readonly columns: number
  readonly rows: number
}

export interface Heights {
  readonly body: number
  /** Lines of a text in its place, which has no column titles. */
  readonly text: number
  readonly hasColumnTitles: boolean
  readonly hasFilterLine: boolean
}

/** All buckets at one instant, in the order of the selection. Too expensive to compute for every frame. */
export interface Ranking {
  readonly ids: readonly string[]
  /** Of those, how many still exist. */
  readonly shown: number
  /** The limit whose rate they are sorted by; `undefined`: sorted by something else, or no rate is known. */
  readonly rateLimit: string | undefined
  /** Of all buckets that match the filter, also those beyond `top`. */
  readonly totals: Totals
  /** Buckets with a reading, whatever the filter. */
  readonly all: number
  /** Only computed for its tab. */
  readonly resources: readonly ResourceRow[]
}

export interface Frame {
  readonly settings: ViewSettings
  readonly size: Size
  readonly state: ScreenState
  readonly data: WatchData
  readonly ranking: Ranking
  /** The instant of every level on the screen, server time. */
  readonly levelsAtMs: number
  /** Server time now; ages count up to it, also while the screen is paused. */
  readonly nowMs: number
  readonly heights: Heights
  readonly cursor: Cursor
  readonly rows: readonly Row[]
}

type FrameInput = Pick<Frame, 'settings' | 'size' | 'state' | 'data' | 'ranking' | 'nowMs'>

/** The instant of the levels: now, or that of the pause; a manual poll during a pause moves it on. */
export function levelsInstant(state: ScreenState, data: WatchData, nowMs: number): number {
  return state.pausedAtMs === undefined ? nowMs : Math.max(state.pausedAtMs, data.lastPoll?.atMs ?? 0)
}

export function buildFrame(input: FrameInput): Frame {
  const {size, state, data, ranking, nowMs} = input
  const isList = state.detailId === undefined && state.whyId === undefined
  const isOverview = state.tab === 'overview' && isList
  const hasFilterLine = isOverview && (state.mode === 'filter' || state.selection.filter !== '')
  const heights = heightsOf(size.rows, state.tab !== 'health' && isList, hasFilterLine)
  const cursor = resolveCursor(state.cursors[state.tab], listIds(state, data, ranking), heights.body)
  const levelsAtMs = levelsInstant(state, data, nowMs)
  const visible = isOverview ? ranking.ids.slice(cursor.top, cursor.top + heights.body) : []
  const rows = visible.flatMap(id => {
    const reading = data.readings.get(id)
    return reading ? [knownRowAt(reading, levelsAtMs, data)] : []
  })
  return {...input, levelsAtMs, heights, cursor, rows}
}

const knownRows = new WeakMap<Reading, {readonly atMs: number; readonly row: Row}>()

/** The row of a reading; the same object for the same instant, so that its line need not be drawn again. */
function knownRowAt(reading: Reading, atMs: number, {readings}: WatchData): Row {
  const known = knownRows.get(reading)
  if (known?.atMs === atMs) return known.row
  const row = rowAt(reading, atMs, id => readings.get(id))
  knownRows.set(reading, {atMs, row})
  return row
}

export function heightsOf(rows: number, hasColumnTitles: boolean, hasFilterLine: boolean): Heights {
  const text = Math.max(0, rows - FIXED_LINES - (hasFilterLine ? 1 : 0))
  return {body: Math.max(0, text - (hasColumnTitles ? 1 : 0)), text, hasColumnTitles, hasFilterLine}
}

export function isTooSmall({columns, rows}: Size): boolean {
  return columns < MIN_SIZE.columns || rows < MIN_SIZE.rows
}

export function listIds({tab}: ScreenState, data: WatchData, ranking: Ranking): readonly string[] {
  if (tab === 'overview') return ranking.ids
  if (tab === 'resources') return ranking.resources.map(({resource}) => resource)
  return (data.health ?? []).map(({name}) => name)
}
