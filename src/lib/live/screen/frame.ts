import {formatCount, formatPlural, formatShortNumber} from '../../core/text/text.js'
import type {PollFacts, Reading, Selection, WatchData} from '../model/model.js'
import {type Ranked, ranking} from '../model/rank.js'
import {type Row, rowAt} from '../model/status.js'
import {type ResourceRow, resourcesAt, type Totals, totalsAt} from '../model/totals.js'
import {type Cursor, resolveCursor, type ScreenState, type Tab} from '../state/screen-state.js'
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
  readonly top: number | undefined
  readonly glyphs: GlyphSet
}

export interface Size {
  readonly columns: number
  readonly rows: number
}

export interface Heights {
  readonly body: number
  /** For text in place of a list, without column titles. */
  readonly text: number
  readonly hasFilterLine: boolean
}

export interface Ranking {
  readonly ids: readonly string[]
  /** Of `ids`, those that still exist. */
  readonly shown: number
  readonly rateLimit: string | undefined
  /** Of all buckets that match the filter, also beyond `top`. */
  readonly totals: Totals
  readonly all: number
  readonly resources: readonly ResourceRow[]
}

export interface Frame {
  readonly settings: ViewSettings
  readonly size: Size
  readonly state: ScreenState
  readonly data: WatchData
  readonly ranking: Ranking
  /** Server time of every level on the screen. */
  readonly levelsAtMs: number
  /** Server time; ages count up to it, even while paused. */
  readonly nowMs: number
  readonly heights: Heights
  readonly cursor: Cursor
  readonly rows: readonly Row[]
}

type FrameInput = Pick<Frame, 'settings' | 'size' | 'state' | 'data' | 'ranking' | 'nowMs'>

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

/** Returns the same object for the same instant, so that its line is not redrawn. */
function knownRowAt(reading: Reading, atMs: number, {readings}: WatchData): Row {
  const known = knownRows.get(reading)
  if (known?.atMs === atMs) return known.row
  const row = rowAt(reading, atMs, id => readings.get(id))
  knownRows.set(reading, {atMs, row})
  return row
}

export function heightsOf(rows: number, hasColumnTitles: boolean, hasFilterLine: boolean): Heights {
  const text = Math.max(0, rows - FIXED_LINES - (hasFilterLine ? 1 : 0))
  return {body: Math.max(0, text - (hasColumnTitles ? 1 : 0)), text, hasFilterLine}
}

export function isTooSmall({columns, rows}: Size): boolean {
  return columns < MIN_SIZE.columns || rows < MIN_SIZE.rows
}

export function listIds({tab}: ScreenState, data: WatchData, ranking: Ranking): readonly string[] {
  if (tab === 'overview') return ranking.ids
  if (tab === 'resources') return ranking.resources.map(({resource}) => resource)
  return (data.health ?? []).map(({name}) => name)
}

const SECOND_MS = 1000

type Order = Ranked & {readonly first: Pick<Ranking, 'ids' | 'shown'>}

/** Memoized: with ten thousand buckets, ranking is too expensive for every frame. */
export class Ranker {
  readonly #top: number | undefined
  readonly #order = memoized<Order>()
  readonly #totals = memoized<Totals>()
  readonly #resources = memoized<Ranking['resources']>()

  constructor(top: number | undefined) {
    this.#top = top
  }

  rankingAt(readings: WatchData['readings'], atMs: number, selection: Selection, tab: Tab): Ranking {
    const second = Math.floor(atMs / SECOND_MS)
    const find = (id: string) => readings.get(id)
    const order = this.#order([readings, second, selection], () => this.#orderOf(readings, atMs, selection))
    const filtered = tab === 'overview' && selection.filter !== '' ? order : undefined
    const totals = this.#totals([readings, second, filtered], () =>
      totalsAt(filtered ? readingsOf(filtered.ids, readings) : readings.values(), atMs, find),
    )
    const resources =
      tab === 'resources' ? this.#resources([readings, second], () => resourcesAt(readings.values(), atMs, find)) : []
    return {...order.first, rateLimit: order.rateLimit, totals, all: order.live, resources}
  }

  #orderOf(readings: WatchData['readings'], atMs: number, selection: Selection): Order {
    const ranked = ranking(readings.values(), atMs, selection, id => readings.get(id))
    const ids = ranked.ids.slice(0, this.#top)
    return {...ranked, first: {ids, shown: readingsOf(ids, readings).filter(({isGone}) => !isGone).length}}
  }
}

const readingsOf = (ids: readonly string[], readings: WatchData['readings']): Reading[] =>
  ids.flatMap(id => readings.get(id) ?? [])

function memoized<T>(): (dependencies: readonly unknown[], compute: () => T) => T {
  let last: {readonly dependencies: readonly unknown[]; readonly value: T} | undefined
  return (dependencies, compute) => {
    if (!last || dependencies.some((each, position) => each !== last?.dependencies[position])) {
      last = {dependencies, value: compute()}
    }
    return last.value
  }
}

export interface ViewStats {
  readonly startedAtMs: number
  readonly polls: number
  readonly readUnits: number
  readonly lastPoll: number
}

export function countPoll(stats: ViewStats, poll: PollFacts | undefined): ViewStats {
  if (!poll || poll.number === stats.lastPoll) return stats
  return {...stats, polls: stats.polls + 1, readUnits: stats.readUnits + poll.readUnits, lastPoll: poll.number}
}

export function summaryLine(
  {totals: {buckets, over, near}, all}: {totals: Pick<Totals, 'buckets' | 'over' | 'near'>; all: number},
  stats: ViewStats,
  nowMs: number,
): string {
  const watched =
    buckets < all ? `${formatCount(buckets)} of ${formatPlural(all, 'bucket')}` : formatPlural(buckets, 'bucket')
  const cost = `${formatPlural(stats.polls, 'poll')}, ${formatShortNumber(stats.readUnits)} read units`
  const end = `${formatCount(over)} over, ${formatCount(near)} near at the end`
  return `Watched ${watched} for ${duration(nowMs - stats.startedAtMs)}, ${cost}; ${end}.`
}

function duration(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
