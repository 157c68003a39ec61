import {shellWord} from '../../core/text/text.js'
import {graphemesOf} from '../../core/text/text-width.js'
import {type Selection, SORT_KEYS, type SortKey} from '../model/model.js'
import {filterProblem, resourceFilter} from '../model/rank.js'
import {answered, openAction, reduceAction, scrolledAction} from './action-state.js'
import {type ActionEvent, type ActionKey, isActionMode} from './actions.js'
import {actionOf, type KeyPress, keyStrokesOf} from './keys.js'
import {
  AT_START,
  type Cursor,
  type ExitCode,
  intervalText,
  type Layer,
  type Move,
  move,
  type ScreenAction,
  type ScreenState,
  scroll,
  TABS,
  type Tab,
  type ViewContext,
} from './screen-state.js'

const INTERVALS_MS: readonly number[] = [1000, 2000, 5000, 10_000, 30_000, 60_000]

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
      return filtered(state, graphemesOf(state.selection.filter).slice(0, -1).join(''))
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
      return {...state, exitCode: action.exitCode, endsAtOnce: state.exitCode !== undefined}
    case 'act':
      return acted(state, action.kind, context())
    default:
      return reduceAction(state, action, context)
  }
}

const layerOf = ({mode}: ScreenState): 'list' | Layer => (mode === 'detail' || mode === 'why' ? mode : 'list')

function kept(state: ScreenState): ScreenState {
  const problem = filterProblem(state.selection.filter)
  return problem === undefined ? {...state, mode: 'list'} : {...state, note: problem}
}

function moved(state: ScreenState, how: Move, {ids, height, text}: ViewContext): ScreenState {
  if (state.mode === 'help') return {...state, helpTop: scroll(state.helpTop, how, text.length, text.height)}
  if (state.mode === 'why') return {...state, whyTop: scroll(state.whyTop, how, text.length, text.height)}
  if (state.mode === 'detail') return {...state, detailTop: scroll(state.detailTop, how, text.length, text.height)}
  if (isActionMode(state.mode)) return scrolledAction(state, how, {text})
  return withCursor(state, move(state.cursors[state.tab], how, ids, height))
}

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

function explained(state: ScreenState, {ids, height}: ViewContext): ScreenState {
  if (state.detailId !== undefined) return {...state, mode: 'why', whyId: state.detailId, whyTop: 0}
  const selected = move(state.cursors[state.tab], {by: 0}, ids, height)
  if (selected.id === undefined) return state
  return {...withCursor(state, selected), mode: 'why', whyId: selected.id, whyTop: 0}
}

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

function reordered(state: ScreenState, order: Partial<Selection>): ScreenState {
  const cursors = {...state.cursors, overview: AT_START}
  return {...state, cursors, selection: {...state.selection, ...order}}
}

function polled(state: ScreenState, often: 'more' | 'less'): ScreenState {
  const {intervalMs} = state
  const next =
    often === 'more' ? INTERVALS_MS.findLast(each => each < intervalMs) : INTERVALS_MS.find(each => each > intervalMs)
  return {...state, intervalMs: next ?? intervalMs, note: `polling every ${intervalText(next ?? intervalMs)}`}
}

function acted(state: ScreenState, kind: ActionKey, context: ViewContext): ScreenState {
  const open = state.whyId ?? state.detailId
  if (open !== undefined) return openAction(state, kind, open, context)
  const selected = move(state.cursors[state.tab], {by: 0}, context.ids, context.height)
  return selected.id === undefined ? state : openAction(withCursor(state, selected), kind, selected.id, context)
}

/** Not copied: the clipboard would belong to the machine that runs zael, which may be remote. */
function withCommand(state: ScreenState, {ids, height, typedFlags}: ViewContext): ScreenState {
  const id = state.whyId ?? state.detailId ?? move(state.cursors[state.tab], {by: 0}, ids, height).id
  if (id === undefined) return state
  const [entity = '', resource = ''] = id.split('#')
  return {...state, note: `zael bucket show ${shellWord(entity)} --resource ${shellWord(resource)}${typedFlags}`}
}

function withCursor(state: ScreenState, cursor: Cursor): ScreenState {
  return {...state, cursors: {...state.cursors, [state.tab]: cursor}}
}

export type ScreenEvent =
  | {readonly type: 'press'; readonly input: string; readonly key: KeyPress; readonly atMs: number}
  | {readonly type: 'settled'; readonly cursor: Cursor}
  | {readonly type: 'end'; readonly exitCode: ExitCode}
  | ActionEvent

/** Needed again after each of several keys that arrive together, because each may change the list. */
export type Extent = Omit<ViewContext, 'atMs'>

/** Pure. Each key acts in the mode that the previous keys selected. */
export function screenReducer(
  state: ScreenState,
  event: ScreenEvent,
  extentOf: (state: ScreenState) => Extent,
): ScreenState {
  if (event.type === 'settled') return {...state, cursors: {...state.cursors, [state.tab]: event.cursor}}
  if (event.type === 'end') return {...state, exitCode: event.exitCode, endsAtOnce: state.exitCode !== undefined}
  if (event.type !== 'press') return answered(state, event)
  return keyStrokesOf(event.input, event.key).reduce((current, {input, key}) => {
    const action = actionOf(input, key, current)
    return action ? reduce(current, action, () => ({...extentOf(current), atMs: event.atMs})) : current
  }, state)
}
