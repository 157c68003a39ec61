import type {SortKey} from '../watch/model.js'
import {COMPACT_WIDTH, SPAN_WIDTH} from './format.js'

export type ColumnKey =
  | 'entity'
  | 'resource'
  | 'gauge'
  | 'level'
  | 'limit'
  | 'rate'
  | 'history'
  | 'shards'
  | 'pressure'
  | 'eta'

/** A column of the overview as it is drawn. */
export interface Column {
  readonly key: ColumnKey
  readonly title: string
  readonly width: number
  readonly sort: SortKey | undefined
}

interface ColumnRule {
  readonly key: ColumnKey
  readonly title: string
  readonly sort?: SortKey
  readonly least: number
  /** The narrowest screen that shows it. */
  readonly from: number
}

/** Below this nothing useful can be drawn. */
export const SMALLEST = {columns: 40, rows: 8} as const

const NORMAL = 80
const WIDE = 120

/** Level and capacity with a slash between them. */
const LEVEL_WIDTH = 2 * COMPACT_WIDTH + 1
/** An arrow and a span. */
const ETA_WIDTH = SPAN_WIDTH + 1
/** The cursor, the status, a space. */
export const MARGIN = 3
const GAP = 1

/** From left to right. Widths are fixed, so that nothing jumps when a number changes. */
const RULES: readonly ColumnRule[] = [
  {key: 'entity', title: 'ENTITY', sort: 'entity', least: 10, from: 0},
  {key: 'resource', title: 'RESOURCE', sort: 'resource', least: 8, from: 0},
  {key: 'gauge', title: 'LEVEL', least: 8, from: 0},
  {key: 'level', title: 'LEFT/CAP', sort: 'left', least: LEVEL_WIDTH, from: 0},
  {key: 'limit', title: 'LIMIT', least: 5, from: 0},
  {key: 'rate', title: 'USED/S', sort: 'rate', least: COMPACT_WIDTH + 1, from: NORMAL},
  {key: 'history', title: 'IN USE', least: 12, from: WIDE},
  {key: 'shards', title: 'SHARDS', sort: 'shards', least: 7, from: NORMAL},
  {key: 'pressure', title: 'WRITES', sort: 'pressure', least: 7, from: WIDE},
  {key: 'eta', title: 'UNTIL', sort: 'empty', least: ETA_WIDTH, from: 0},
]

/** Who comes first when there is not room for all. */
const IMPORTANCE: readonly ColumnKey[] = [
  'entity',
  'resource',
  'level',
  'gauge',
  'eta',
  'rate',
  'limit',
  'shards',
  'pressure',
  'history',
]

/** Who gets what is left over, in turn, and up to which width. */
const GROWTH: readonly (readonly [ColumnKey, width: number])[] = [
  ['entity', 16],
  ['resource', 12],
  ['history', 24],
  ['entity', 24],
  ['gauge', 12],
  ['resource', 20],
  ['history', 60],
  ['limit', 10],
  ['entity', 36],
  ['gauge', 24],
]

/** Wide names are worth these columns. */
const GIVE_WAY: ReadonlySet<ColumnKey> = new Set(['history', 'shards', 'pressure', 'gauge', 'limit'])

/** With wide names: as much of them as there is room for, up to the longest that can be. */
const WIDE_GROWTH: typeof GROWTH = [
  ['entity', 40],
  ['resource', 64],
  ['entity', 256],
]

/** The columns of the overview on a screen. Together with margin and gaps they are never wider than it. */
export function overviewColumns(screenWidth: number, isWide: boolean): Column[] {
  const room = screenWidth - MARGIN
  const chosen = chooseColumns(room, screenWidth, isWide)
  const widths = new Map(chosen.map(({key, least}) => [key, least]))
  let spare = room - widthOf(chosen.map(({least}) => least))
  for (const [key, width] of isWide ? WIDE_GROWTH : GROWTH) {
    const before = widths.get(key) ?? width
    const more = Math.max(0, Math.min(width - before, spare))
    if (more > 0) widths.set(key, before + more)
    spare -= more
  }
  return chosen.map(({key, title, sort}) => ({key, title, sort, width: widths.get(key) ?? 0}))
}

function chooseColumns(room: number, screenWidth: number, isWide: boolean): ColumnRule[] {
  let chosen: ColumnRule[] = []
  for (const key of IMPORTANCE) {
    const isWanted = ({key: each, from}: ColumnRule) => each === key && screenWidth >= from
    const more = RULES.filter(rule => chosen.includes(rule) || (isWanted(rule) && !(isWide && GIVE_WAY.has(key))))
    if (widthOf(more.map(({least}) => least)) <= room) chosen = more
  }
  return chosen
}

function widthOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP * Math.max(0, widths.length - 1)
}

/** Where the lines of the screen go. */
export interface Heights {
  /** Lines of the list or text in the middle. */
  readonly body: number
  readonly hasColumnTitles: boolean
  readonly hasFilterLine: boolean
}

/** Two lines of header, totals and status are always there. */
const FRAME_LINES = 4

/** Shares out the lines of a screen. */
export function heightsOf(rows: number, hasColumnTitles: boolean, hasFilterLine: boolean): Heights {
  const body = rows - FRAME_LINES - (hasColumnTitles ? 1 : 0) - (hasFilterLine ? 1 : 0)
  return {body: Math.max(0, body), hasColumnTitles, hasFilterLine}
}

/** Whether anything can be drawn. */
export function isTooSmall({columns, rows}: {readonly columns: number; readonly rows: number}): boolean {
  return columns < SMALLEST.columns || rows < SMALLEST.rows
}
