import {formatShortSpan} from '../../core/text/text.js'
import type {Selection, SortKey} from '../model/model.js'
import type {Row} from '../model/status.js'
import type {ActionMode, ActOnAction, OpenAction} from './actions.js'

export type Tab = 'overview' | 'resources' | 'health'

export const TABS: readonly Tab[] = ['overview', 'resources', 'health']

/** Determines the meaning of keys. `help` and actions are overlays. */
export type Mode = 'list' | 'filter' | Layer | 'help' | ActionMode

export type Layer = 'detail' | 'why'

export type ExitCode = 0 | 130 | 143

/** Effects update the watch and the terminal to match it. */
export interface ScreenState {
  readonly mode: Mode
  readonly canAct: boolean
  readonly action: OpenAction | undefined
  /** Number of the last action step that the view has to start. */
  readonly steps: number
  readonly performed: readonly string[]
  readonly helpOver: 'list' | Layer
  readonly helpTop: number
  readonly tab: Tab
  readonly selection: Selection
  /** Before a resource was opened; `undefined`: the current filter was typed. */
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
  /** Ends the view once it is set, after a running action. */
  readonly exitCode: ExitCode | undefined
  /** The user asked to end a second time: does not wait. */
  readonly endsAtOnce: boolean
  readonly note: string | undefined
}

export type ScreenAction =
  | {
      readonly type:
        | 'open'
        | 'why'
        | 'back'
        | 'help'
        | 'tab'
        | 'wide'
        | 'pause'
        | 'refresh'
        | 'show-command'
        | 'suspend'
    }
  | {readonly type: 'filter' | 'filter-erase' | 'filter-empty' | 'filter-keep' | 'sort-next' | 'sort-reverse'}
  | {readonly type: 'move'; readonly move: Move}
  | {readonly type: 'filter-type'; readonly text: string}
  | {readonly type: 'sort-by'; readonly key: SortKey}
  | {readonly type: 'poll'; readonly often: 'more' | 'less'}
  | {readonly type: 'quit'; readonly exitCode: ExitCode}
  | ActOnAction

export interface ViewContext {
  readonly ids: readonly string[]
  readonly height: number
  readonly text: {readonly length: number; readonly height: number}
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

export interface Cursor {
  /** `undefined`: nothing is selected, and the cursor stays on the first line. */
  readonly id: string | undefined
  /** Last index of the selected line; kept if the line disappears. */
  readonly index: number
  readonly top: number
}

/** Half a page is `pages: 0.5`. */
export type Move = {readonly by: number} | {readonly to: 'start' | 'end'} | {readonly pages: number}

export const AT_START: Cursor = {id: undefined, index: 0, top: 0}

/** Keeps the line within `height` visible lines. Returns the same object if nothing changes. */
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

/** Exact: `2s`, `1.5s`, `1m30s`. */
export const intervalText = (intervalMs: number): string =>
  intervalMs % 1000 === 0 ? formatShortSpan(intervalMs) : `${intervalMs / 1000}s`
