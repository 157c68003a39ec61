import type {Knowledge, ResourceRow, Row, Totals} from '../../watch/model.js'
import {rowAt} from '../../watch/rows.js'
import type {GlyphSet} from '../draw/glyphs.js'
import {type Cursor, settle} from './cursor.js'
import {type Heights, heightsOf} from './layout.js'
import type {ScreenState} from './screen-state.js'

/** What stays the same while the view is open. */
export interface SceneSettings {
  readonly stack: string
  readonly namespace: string
  /** Region or endpoint. */
  readonly where: string
  /** The flags that led here, for commands to recommend. */
  readonly typedFlags?: string
  /** Rows at most; `undefined`: all. */
  readonly top: number | undefined
  readonly glyphs: GlyphSet
}

export interface Size {
  readonly columns: number
  readonly rows: number
}

/** All buckets at one instant, in the order of the selection. Too dear for every frame. */
export interface Ranking {
  readonly ids: readonly string[]
  /** How many of those are still there. */
  readonly shown: number
  /** The limit whose rate decides when they are sorted by it; `undefined`: by something else, or no rate is known. */
  readonly rateLimit: string | undefined
  /** Of what the filter chooses, where it holds; the first rows alone or not. */
  readonly totals: Totals
  /** Buckets of which a reading is there, chosen or not. */
  readonly all: number
  /** Only computed for its tab. */
  readonly resources: readonly ResourceRow[]
}

/** All that a frame shows. */
export interface Scene {
  readonly settings: SceneSettings
  readonly size: Size
  readonly state: ScreenState
  readonly knowledge: Knowledge
  readonly ranking: Ranking
  /** The instant of every level on the screen, server time. */
  readonly levelsAtMs: number
  /** Server time now; ages count up to it, also while the screen is paused. */
  readonly nowMs: number
  readonly heights: Heights
  /** Where one stands in the list of the tab. */
  readonly cursor: Cursor
  /** The visible rows of the overview. */
  readonly rows: readonly Row[]
}

/** What a scene is made of. */
export type SceneParts = Pick<Scene, 'settings' | 'size' | 'state' | 'knowledge' | 'ranking' | 'nowMs'>

/** The instant of the levels: now, or that of the pause; a poll that was asked for since then counts. */
export function levelsInstant(state: ScreenState, knowledge: Knowledge, nowMs: number): number {
  return state.pausedAtMs === undefined ? nowMs : Math.max(state.pausedAtMs, knowledge.lastPoll?.atMs ?? 0)
}

/** Sets the scene: only the rows that can be seen are computed. */
export function setScene(parts: SceneParts): Scene {
  const {size, state, knowledge, ranking, nowMs} = parts
  const isOverview = state.tab === 'overview' && state.detailId === undefined
  const hasFilterLine = isOverview && (state.mode === 'filter' || state.selection.filter !== '')
  const heights = heightsOf(size.rows, state.tab !== 'health' && state.detailId === undefined, hasFilterLine)
  const cursor = settle(state.cursors[state.tab], listIds(state, knowledge, ranking), heights.body)
  const levelsAtMs = levelsInstant(state, knowledge, nowMs)
  const visible = isOverview ? ranking.ids.slice(cursor.top, cursor.top + heights.body) : []
  const rows = visible.flatMap(id => {
    const reading = knowledge.readings.get(id)
    return reading ? [rowAt(reading, levelsAtMs)] : []
  })
  return {...parts, levelsAtMs, heights, cursor, rows}
}

/** The lines of the tab that is open, by id. */
export function listIds({tab}: ScreenState, knowledge: Knowledge, ranking: Ranking): readonly string[] {
  if (tab === 'overview') return ranking.ids
  if (tab === 'resources') return ranking.resources.map(({resource}) => resource)
  return (knowledge.health ?? []).map(({name}) => name)
}

/** Whether something on the screen changes by the mere passing of time. */
export function isMoving({state, rows}: Scene): boolean {
  if (state.pausedAtMs !== undefined) return false
  if (state.detailId !== undefined) return true
  return rows.some(({tightest}) => tightest !== undefined && tightest.level < tightest.capacity)
}
