import {shellWord} from '../../core/text.js'
import {filterProblem, resourceFilter} from '../../watch/filter.js'
import {type Selection, SORT_KEYS, type SortKey} from '../../watch/model.js'
import {intervalText} from '../draw/interval.js'
import {AT_START, type Cursor, type Move, move, scroll} from './cursor.js'

export type Tab = 'overview' | 'resources' | 'health'

export const TABS: readonly Tab[] = ['overview', 'resources', 'health']

/** Determines the meaning of keys. `help` is an overlay over one of the others. */
export type Mode = 'list' | 'filter' | Layer | 'help'

/** A text about one bucket, over the list. */
export type Layer = 'detail' | 'why'

export type ExitCode = 0 | 130 | 143

/** Poll intervals that `+` and `-` step through. */
const INTERVALS_MS: readonly number[] = [1000, 2000, 5000, 10_000, 30_000, 60_000]

/** The state of the view, apart from the data. Effects of the view bring the watch and the terminal in line with it. */
export interface ScreenState {
  readonly mode: Mode
  /** The mode below the help. */
  readonly helpOver: 'list' | Layer
  /** First visible line of the help. */
  readonly helpTop: number
  readonly tab: Tab
  readonly selection: Selection
  /** The filter before a resource was opened; `undefined`: the current filter was typed. */
  readonly filterBefore: string | undefined
  readonly cursors: Readonly<Record<Tab, Cursor>>
  /** The bucket whose detail is open. */
  readonly detailId: string | undefined
  readonly detailTop: number
  /** The bucket that is explained. */
  readonly whyId: string | undefined
  readonly whyTop: number
  readonly isWide: boolean
  /** The instant at which the screen is frozen; `undefined`: not paused. */
  readonly pausedAtMs: number | undefined
  readonly intervalMs: number
  /** How often a poll was asked for by key. */
  readonly refreshes: number
  /** How often the view was suspended. */
  readonly suspensions: number
  /** Set when the view is to end. */
  readonly exitCode: ExitCode | undefined
  /** A message about the last key, until the next one. */
  readonly note: string | undefined
}

/** A change of the screen. */
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

/** What actions depend on besides the state: the extent of what is on the screen, and the time. */
export interface ViewContext {
  /** Ids of the lines of the tab. */
  readonly ids: readonly string[]
  /** How many of them the screen shows. */
  readonly height: number
  /** Lines of the help or the detail, if one is open, and how many of them the screen shows. */
  readonly text: {readonly length: number; readonly height: number}
  /** Server time of the action. */
  readonly atMs: number
  /** Flags of this command, for commands to suggest. */
  readonly typedFlags: string
}

/** The state when the view opens. */
export function initialState(selection: Selection, intervalMs: number): ScreenState {
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
    whyId: undefined,
    whyTop: 0,
    isWide: false,
    pausedAtMs: undefined,
    intervalMs,
    refreshes: 0,
    suspensions: 0,
    exitCode: undefined,
    note: undefined,
  }
}

/** The state after an action. Few actions need the context. */
export function reduce(before: ScreenState, action: ScreenAction, context: () => ViewContext): ScreenState {
  const state = before.note === undefined ? before : {...before, note: undefined}
  switch (action.type) {
    case 'move':
      return moved(state, action.move, context())
    case 'open':
      return opened(state, context())
    case 'why':
      return explained(state, context())
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
      return kept(state)
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
      return {...state, pausedAtMs: state.pausedAtMs === undefined ? context().atMs : undefined}
    case 'poll':
      return polled(state, action.often)
    case 'refresh':
      return {...state, refreshes: state.refreshes + 1}
    case 'show-command':
      return withCommand(state, context())
    case 'suspend':
      return {...state, suspensions: state.suspensions + 1}
    case 'quit':
      return {...state, exitCode: action.exitCode}
  }
}

const layerOf = ({mode}: ScreenState): 'list' | Layer => (mode === 'detail' || mode === 'why' ? mode : 'list')

/** A filter that can match nothing is not kept. */
function kept(state: ScreenState): ScreenState {
  const problem = filterProblem(state.selection.filter)
  return problem === undefined ? {...state, mode: 'list'} : {...state, note: problem}
}

function moved(state: ScreenState, how: Move, {ids, height, text}: ViewContext): ScreenState {
  if (state.mode === 'help') return {...state, helpTop: scroll(state.helpTop, how, text.length, text.height)}
  if (state.mode === 'why') return {...state, whyTop: scroll(state.whyTop, how, text.length, text.height)}
  if (state.mode === 'detail') return {...state, detailTop: scroll(state.detailTop, how, text.length, text.height)}
  return withCursor(state, move(state.cursors[state.tab], how, ids, height))
}

/** Opens the detail of a bucket; opening a resource filters the overview by it. */
function opened(state: ScreenState, {ids, height}: ViewContext): ScreenState {
  const selected = move(state.cursors[state.tab], {by: 0}, ids, height)
  if (selected.id === undefined) return state
  if (state.tab === 'resources') {
    const filterBefore = state.filterBefore ?? state.selection.filter
    return {...filtered({...state, tab: 'overview'}, resourceFilter(selected.id)), filterBefore}
  }
  if (state.tab === 'health') return state
  return {...withCursor(state, selected), mode: 'detail', detailId: selected.id, detailTop: 0}
}

/** Explains the selected bucket, or that of the open detail. */
function explained(state: ScreenState, {ids, height}: ViewContext): ScreenState {
  if (state.detailId !== undefined) return {...state, mode: 'why', whyId: state.detailId, whyTop: 0}
  const selected = move(state.cursors[state.tab], {by: 0}, ids, height)
  if (selected.id === undefined) return state
  return {...withCursor(state, selected), mode: 'why', whyId: selected.id, whyTop: 0}
}

/** One step back: closes the overlay, then returns to the resources or clears the filter, then deselects the line. */
function back(state: ScreenState): ScreenState {
  if (state.mode === 'help') return {...state, mode: state.helpOver}
  if (state.mode === 'why') return {...state, mode: state.detailId === undefined ? 'list' : 'detail', whyId: undefined}
  if (state.mode === 'detail') return {...state, mode: 'list', detailId: undefined}
  if (state.mode === 'filter') return filtered({...state, mode: 'list'}, '')
  if (state.tab !== 'overview') return {...state, tab: 'overview'}
  if (state.filterBefore !== undefined) return filtered({...state, tab: 'resources'}, state.filterBefore)
  return state.selection.filter === '' ? withCursor(state, AT_START) : filtered(state, '')
}

function filtered(state: ScreenState, filter: string): ScreenState {
  return {...state, selection: {...state.selection, filter}, filterBefore: undefined}
}

const sorted = (state: ScreenState, sort: SortKey): ScreenState => reordered(state, {sort, reversed: false})

const reversed = (state: ScreenState): ScreenState => reordered(state, {reversed: !state.selection.reversed})

/** A new order starts at its top: what comes first in it is what it was chosen for. */
function reordered(state: ScreenState, order: Partial<Selection>): ScreenState {
  const cursors = {...state.cursors, overview: AT_START}
  return {...state, cursors, selection: {...state.selection, ...order}}
}

/** The next shorter or longer interval; unchanged at either end. */
function polled(state: ScreenState, often: 'more' | 'less'): ScreenState {
  const {intervalMs} = state
  const next =
    often === 'more' ? INTERVALS_MS.findLast(each => each < intervalMs) : INTERVALS_MS.find(each => each > intervalMs)
  return {...state, intervalMs: next ?? intervalMs, note: `polling every ${intervalText(next ?? intervalMs)}`}
}

/** Shown, not copied: the clipboard would be that of the machine that zael runs on, which may be remote. */
function withCommand(state: ScreenState, {ids, height, typedFlags}: ViewContext): ScreenState {
  const id = state.whyId ?? state.detailId ?? move(state.cursors[state.tab], {by: 0}, ids, height).id
  if (id === undefined) return state
  const [entity = '', resource = ''] = id.split('#')
  return {...state, note: `zael bucket show ${shellWord(entity)} --resource ${shellWord(resource)}${typedFlags}`}
}

function withCursor(state: ScreenState, cursor: Cursor): ScreenState {
  return {...state, cursors: {...state.cursors, [state.tab]: cursor}}
}
