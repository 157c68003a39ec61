import {formatShortSpan} from '../../core/text/text.js'
import type {Row, Selection, SortKey} from '../model/model.js'
import type {ActionMode, ActOnAction, OpenAction} from './actions.js'

export type Tab = 'overview' | 'resources' | 'health'

export const TABS: readonly Tab[] = ['overview', 'resources', 'health']

/** Determines the meaning of keys. `help` and an action are overlays over one of the others. */
export type Mode = 'list' | 'filter' | Layer | 'help' | ActionMode

export type Layer = 'detail' | 'why'

export type ExitCode = 0 | 130 | 143

/** The state of the view, apart from the data. Effects of the view bring the watch and the terminal in line with it. */
export interface ScreenState {
  readonly mode: Mode
  readonly canAct: boolean
  readonly action: OpenAction | undefined
  /** Steps of actions that the view has to start; the number of the last one. */
  readonly steps: number
  readonly performed: readonly string[]
  readonly helpOver: 'list' | Layer
  readonly helpTop: number
  readonly tab: Tab
  readonly selection: Selection
  /** The filter before a resource was opened; `undefined`: the current filter was typed. */
  readonly filterBefore: string | undefined
  readonly cursors: Readonly<Record<Tab, Cursor>>
  readonly detailId: string | undefined
  readonly detailTop: number
  readonly whyId: string | undefined
  readonly whyTop: number
  readonly isWide: boolean
  readonly pausedAtMs: number | undefined
  readonly intervalMs: number
  readonly refreshes: number
  readonly suspensions: number
  /** Set when the view is to end; while an action runs, it first waits for the answer. */
  readonly exitCode: ExitCode | undefined
  /** It was asked to end again: it does not wait. */
  readonly endsAtOnce: boolean
  /** A message about the last key, until the next one. */
  readonly note: string | undefined
}

export type ScreenAction =
  | {readonly type: 'move'; readonly move: Move}
  | {readonly type: 'open'}
  | {readonly type: 'why'}
  | {readonly type: 'back'}
  | {readonly type: 'filter'}
  | {readonly type: 'filter-type'; readonly text: string}
  | {readonly type: 'filter-erase'}
  | {readonly type: 'filter-empty'}
  | {readonly type: 'filter-keep'}
  | {readonly type: 'sort-next'}
  | {readonly type: 'sort-reverse'}
  | {readonly type: 'sort-by'; readonly key: SortKey}
  | {readonly type: 'tab'}
  | {readonly type: 'wide'}
  | {readonly type: 'help'}
  | {readonly type: 'pause'}
  | {readonly type: 'poll'; readonly often: 'more' | 'less'}
  | {readonly type: 'refresh'}
  | {readonly type: 'show-command'}
  | {readonly type: 'suspend'}
  | {readonly type: 'quit'; readonly exitCode: ExitCode}
  | ActOnAction

export interface ViewContext {
  readonly ids: readonly string[]
  readonly height: number
  readonly text: {readonly length: number; readonly height: number}
  /** Server time of the action. */
  readonly atMs: number
  readonly typedFlags: string
  readonly rowOf: (id: string) => Row | undefined
}

export function initialState(selection: Selection, intervalMs: number, canAct = false): ScreenState {
  return {
    mode: 'list',
    canAct,
    action: undefined,
    steps: 0,
    performed: [],
    helpOver: 'list',
    helpTop: 0,
    tab: 'overview',
    selection,
    filterBefore: undefined,
    cursors: {overview: AT_START, resources: AT_START, health: AT_START},
    detailId: undefined,
    detailTop: 0,
    whyId: undefined,
    whyTop: 0,
    isWide: false,
    pausedAtMs: undefined,
    intervalMs,
    refreshes: 0,
    suspensions: 0,
    exitCode: undefined,
    endsAtOnce: false,
    note: undefined,
  }
}

/** A position in a list. A selected line is followed by its id, wherever sorting moves it. */
export interface Cursor {
  /** `undefined` until a line is selected: the cursor stays on the first line, whichever that is. */
  readonly id: string | undefined
  /** Last index of the selected line; if the line disappears, the cursor stays at this index. */
  readonly index: number
  /** The first line on the screen. */
  readonly top: number
}

/** Half a page is `pages: 0.5`. */
export type Move = {readonly by: number} | {readonly to: 'start' | 'end'} | {readonly pages: number}

export const AT_START: Cursor = {id: undefined, index: 0, top: 0}

/** The cursor on the current list, with its line inside the window of `height` lines; the same object if that changes nothing. */
export function resolveCursor(cursor: Cursor, ids: readonly string[], height: number): Cursor {
  const found = cursor.id === undefined ? 0 : ids.indexOf(cursor.id)
  const index = within(found === -1 ? cursor.index : found, ids.length - 1)
  const top = windowTop(cursor.top, index, ids.length, height)
  return index === cursor.index && top === cursor.top ? cursor : {id: cursor.id, index, top}
}

export function move(cursor: Cursor, how: Move, ids: readonly string[], height: number): Cursor {
  const from = resolveCursor(cursor, ids, height).index
  const index = within(targetOf(how, from, ids.length, height), ids.length - 1)
  return {id: ids[index], index, top: windowTop(cursor.top, index, ids.length, height)}
}

export function scroll(top: number, how: Move, length: number, height: number): number {
  return within(targetOf(how, top, length, height), length - height)
}

function targetOf(how: Move, from: number, length: number, height: number): number {
  if ('by' in how) return from + how.by
  if ('to' in how) return how.to === 'start' ? 0 : length - 1
  return from + Math.sign(how.pages) * Math.max(1, Math.floor(Math.abs(how.pages) * height))
}

/** Moves the window as little as possible; no empty lines at the end of a long list. */
function windowTop(top: number, index: number, length: number, height: number): number {
  const lowest = Math.max(0, index - Math.max(1, height) + 1)
  return within(Math.min(Math.max(top, lowest), index), Math.max(0, length - Math.max(1, height)))
}

const within = (value: number, last: number): number => Math.max(0, Math.min(value, last))

/** An exact interval: `2s`, `1.5s`, `1m30s`. */
export const intervalText = (intervalMs: number): string =>
  intervalMs % 1000 === 0 ? formatShortSpan(intervalMs) : `${intervalMs / 1000}s`
