import {answered} from './action-state.js'
import type {ActionEvent} from './actions.js'
import type {Cursor} from './cursor.js'
import {actionOf, type KeyPress, keyStrokesOf} from './keys.js'
import {reduce} from './reduce.js'
import type {ExitCode, ScreenState, ViewContext} from './screen-state.js'

export type ScreenEvent =
  /** A key as Ink reports it, or several that arrived together; `atMs`: server time. */
  | {readonly type: 'press'; readonly input: string; readonly key: KeyPress; readonly atMs: number}
  | {readonly type: 'settled'; readonly cursor: Cursor}
  | {readonly type: 'end'; readonly exitCode: ExitCode}
  | ActionEvent

/** What a state shows; the keys that arrive together need it after each of them, because each may change the list. */
export type Extent = Omit<ViewContext, 'atMs'>

/** The one reducer of the view, pure: keys mean what they mean in the mode that the keys before them led to. */
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
