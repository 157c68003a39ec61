import {formatTimeOfDay} from '../../core/text/text.js'
import {
  type ActionEvent,
  type ActionKey,
  type ActOnAction,
  edited,
  inputOf,
  type OpenAction,
  problemLines,
  textOf,
} from './actions.js'
import {type ScreenState, scroll, type ViewContext} from './screen-state.js'

export function openAction(
  state: ScreenState,
  kind: ActionKey,
  id: string,
  context: Pick<ViewContext, 'rowOf'>,
): ScreenState {
  const [entity = '', resource = ''] = id.split('#')
  const row = context.rowOf(id)
  const isDisabled = row?.view.isDisabled ?? false
  const refusingParents = row?.refusingParents ?? []
  const action: OpenAction = {
    kind: kind === 'switch' ? (isDisabled ? 'unblock' : 'block') : kind,
    target: {entity, resource, limit: row?.tightest?.name, isDisabled, refusingParents},
    over: state.mode === 'detail' || state.mode === 'why' ? state.mode : 'list',
    top: 0,
    input: undefined,
    question: undefined,
    outcome: [],
    isFailed: false,
  }
  return started(state, 'looking', action)
}

export function reduceAction(
  state: ScreenState,
  key: Exclude<ActOnAction, {type: 'act'}>,
  context: () => ViewContext,
): ScreenState {
  const {action} = state
  if (!action) return state
  switch (key.type) {
    case 'act-edit':
      return {...state, action: {...action, input: edited(action.input ?? inputOf(''), key.edit), outcome: []}}
    case 'act-submit':
      return started(state, 'looking', {...action, outcome: []})
    case 'act-confirm':
      return confirmed(state, action, context())
    case 'act-close':
      return closed(state, action)
  }
}

export function scrolledAction(
  state: ScreenState,
  how: Parameters<typeof scroll>[1],
  {text}: Pick<ViewContext, 'text'>,
): ScreenState {
  if (!state.action) return state
  return {...state, action: {...state.action, top: scroll(state.action.top, how, text.length, text.height)}}
}

/** Ignores responses to an action that was closed or restarted. */
export function answered(state: ScreenState, event: ActionEvent): ScreenState {
  const {action} = state
  if (!action || event.step !== state.steps || (state.mode !== 'looking' && state.mode !== 'running')) return state
  switch (event.type) {
    case 'drafted':
      return {...state, mode: 'editing', action: {...action, input: inputOf(event.text)}}
    case 'asked':
      return {...state, mode: 'asking', action: {...action, top: 0, question: event.question}}
    case 'done':
      return finished(state, {...action, outcome: event.lines, isFailed: false}, event.atMs)
    case 'failed': {
      const outcome = problemLines(event.error)
      if (state.mode === 'running') return finished(state, {...action, outcome, isFailed: true}, event.atMs)
      const mode = action.input ? 'editing' : 'over'
      return {...state, mode, action: {...action, top: 0, outcome, isFailed: true}}
    }
  }
}

export function unansweredText({mode, action}: ScreenState): string[] {
  if (mode !== 'running' || !action?.question) return []
  const command = action.question.command.join(' ')
  return [`${command}: no response yet, so the outcome is unknown. Check the audit events of ${action.target.entity}.`]
}

function started(state: ScreenState, mode: 'looking' | 'running', action: OpenAction): ScreenState {
  return {...state, mode, action, steps: state.steps + 1}
}

/** Accepts the confirmation only after the question was scrolled to its end. */
function confirmed(state: ScreenState, action: OpenAction, {text}: ViewContext): ScreenState {
  if (text.height <= 0 || action.top + text.height < text.length)
    return {...state, note: 'scroll down to the end first (j, G)'}
  return started(state, 'running', action)
}

function closed(state: ScreenState, action: OpenAction): ScreenState {
  const note = state.mode === 'over' ? undefined : 'cancelled: nothing was changed'
  return {...state, mode: action.over, action: undefined, note}
}

function finished(state: ScreenState, action: OpenAction, atMs: number): ScreenState {
  const {question, outcome, isFailed} = action
  const result = isFailed ? `failed: ${outcome.join(' ')}` : 'done'
  const performed = `${formatTimeOfDay(atMs)} ${question?.command.join(' ')}: ${result}`
  return {
    ...state,
    mode: 'over',
    action: {...action, top: 0},
    refreshes: state.refreshes + 1,
    performed: [...state.performed, performed],
  }
}

export const boostTextOf = ({input}: OpenAction): string | undefined => input && textOf(input)
