import {resourceFilter} from '../../watch/filter.js'
import {type Selection, SORT_KEYS, type SortKey} from '../../watch/model.js'
import {AT_START, type Cursor, type Move, move, scroll} from './cursor.js'

export type Tab = 'overview' | 'resources' | 'health'

export const TABS: readonly Tab[] = ['overview', 'resources', 'health']

/** Decides what keys mean. `help` lies over one of the others. */
export type Mode = 'list' | 'filter' | 'detail' | 'help'

/** All that the view knows besides what was read. */
export interface ScreenState {
  readonly mode: Mode
  /** What is below the help. */
  readonly helpOver: 'list' | 'detail'
  /** The first line of the help on the screen. */
  readonly helpTop: number
  readonly tab: Tab
  readonly selection: Selection
  /** What the filter was before a resource was opened; `undefined`: somebody typed the one that holds. */
  readonly filterBefore: string | undefined
  readonly cursors: Readonly<Record<Tab, Cursor>>
  /** The bucket that is drilled into. */
  readonly detailId: string | undefined
  readonly detailTop: number
  readonly isWide: boolean
  /** The instant at which time stands still on the screen; `undefined`: it runs. */
  readonly pausedAtMs: number | undefined
  /** An answer to the last key, until the next one. */
  readonly note: string | undefined
}

/** What changes the screen. */
export type ScreenAction =
  | {readonly type: 'move'; readonly move: Move}
  | {readonly type: 'open'}
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
  | {readonly type: 'pause'; readonly atMs: number}
  | {readonly type: 'note'; readonly text: string}

/** What is on the screen when an action comes: it gives moves their meaning. */
export interface ViewContext {
  /** The lines of the tab, by id. */
  readonly ids: readonly string[]
  /** How many of them the screen shows. */
  readonly height: number
  /** Lines of the help or the detail, if one is open, and how many of them the screen shows. */
  readonly text: {readonly length: number; readonly height: number}
}

/** The screen at the beginning. */
export function firstState(selection: Selection): ScreenState {
  return {
    mode: 'list',
    helpOver: 'list',
    helpTop: 0,
    tab: 'overview',
    selection,
    filterBefore: undefined,
    cursors: {overview: AT_START, resources: AT_START, health: AT_START},
    detailId: undefined,
    detailTop: 0,
    isWide: false,
    pausedAtMs: undefined,
    note: undefined,
  }
}

/** The screen after an action. What else the action means is done by the session; few actions need the stage. */
export function reduce(before: ScreenState, action: ScreenAction, stage: () => ViewContext): ScreenState {
  const state = before.note === undefined ? before : {...before, note: undefined}
  switch (action.type) {
    case 'move':
      return moved(state, action.move, stage())
    case 'open':
      return opened(state, stage())
    case 'back':
      return back(state)
    case 'help':
      return state.mode === 'help' ? back(state) : {...state, mode: 'help', helpOver: layerOf(state), helpTop: 0}
    case 'filter':
      return {...state, mode: 'filter', tab: 'overview'}
    case 'filter-type':
      return filtered(state, state.selection.filter + action.text)
    case 'filter-erase':
      return filtered(state, state.selection.filter.slice(0, -1))
    case 'filter-empty':
      return filtered(state, '')
    case 'filter-keep':
      return {...state, mode: 'list'}
    case 'sort-next':
      return sorted(state, SORT_KEYS[(SORT_KEYS.indexOf(state.selection.sort) + 1) % SORT_KEYS.length] as SortKey)
    case 'sort-by':
      return action.key === state.selection.sort ? reversed(state) : sorted(state, action.key)
    case 'sort-reverse':
      return reversed(state)
    case 'tab':
      return {...state, tab: TABS[(TABS.indexOf(state.tab) + 1) % TABS.length] as Tab}
    case 'wide':
      return {...state, isWide: !state.isWide}
    case 'pause':
      return {...state, pausedAtMs: state.pausedAtMs === undefined ? action.atMs : undefined}
    case 'note':
      return {...state, note: action.text}
  }
}

const layerOf = ({mode}: ScreenState): 'list' | 'detail' => (mode === 'detail' ? 'detail' : 'list')

function moved(state: ScreenState, how: Move, {ids, height, text}: ViewContext): ScreenState {
  if (state.mode === 'help') return {...state, helpTop: scroll(state.helpTop, how, text.length, text.height)}
  if (state.mode === 'detail') return {...state, detailTop: scroll(state.detailTop, how, text.length, text.height)}
  return withCursor(state, move(state.cursors[state.tab], how, ids, height))
}

/** A bucket is drilled into; a resource becomes the filter of the overview. */
function opened(state: ScreenState, {ids, height}: ViewContext): ScreenState {
  const chosen = move(state.cursors[state.tab], {by: 0}, ids, height)
  if (chosen.id === undefined) return state
  if (state.tab === 'resources') {
    const filterBefore = state.filterBefore ?? state.selection.filter
    return {...filtered({...state, tab: 'overview'}, resourceFilter(chosen.id)), filterBefore}
  }
  if (state.tab === 'health') return state
  return {...withCursor(state, chosen), mode: 'detail', detailId: chosen.id, detailTop: 0}
}

/** One step back: out of what lies on top, then to the resources or out of the filter, then out of the chosen line. */
function back(state: ScreenState): ScreenState {
  if (state.mode === 'help') return {...state, mode: state.helpOver}
  if (state.mode === 'detail') return {...state, mode: 'list', detailId: undefined}
  if (state.mode === 'filter') return filtered({...state, mode: 'list'}, '')
  if (state.tab !== 'overview') return {...state, tab: 'overview'}
  if (state.filterBefore !== undefined) return filtered({...state, tab: 'resources'}, state.filterBefore)
  return state.selection.filter === '' ? withCursor(state, AT_START) : filtered(state, '')
}

function filtered(state: ScreenState, filter: string): ScreenState {
  return {...state, selection: {...state.selection, filter}, filterBefore: undefined}
}

function sorted(state: ScreenState, sort: SortKey): ScreenState {
  return {...state, selection: {...state.selection, sort, reversed: false}}
}

function reversed(state: ScreenState): ScreenState {
  return {...state, selection: {...state.selection, reversed: !state.selection.reversed}}
}

function withCursor(state: ScreenState, cursor: Cursor): ScreenState {
  return {...state, cursors: {...state.cursors, [state.tab]: cursor}}
}
