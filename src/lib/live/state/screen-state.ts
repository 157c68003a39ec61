import type {Row, Selection, SortKey} from '../model/model.js'
import type {ActionMode, ActOnAction, OpenAction} from './actions.js'
import {AT_START, type Cursor, type Move} from './cursor.js'

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
