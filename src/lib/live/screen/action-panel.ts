import {wrapped, wrappedCommand} from '../../core/text/wrap.js'
import type {ActionKind, OpenAction} from '../state/actions.js'
import type {Frame} from './frame.js'
import {type Line, linesOf, seg, type Tone} from './line.js'

const TITLES: Readonly<Record<ActionKind, string>> = {
  reset: 'Reset',
  boost: 'Boost',
  block: 'Block',
  unblock: 'Unblock',
}

export function actionTitle(frame: Frame, action: OpenAction): Line {
  const {kind, target, question} = action
  const {dot} = frame.settings.glyphs
  const isSwitch = kind === 'block' || kind === 'unblock'
  // A switch may affect more than the row.
  const resource =
    isSwitch && !question ? undefined : question?.resource === undefined ? target.resource : question.resource
  const where = resource === undefined ? '' : ` ${dot} ${resource ?? 'all resources'}`
  return [seg(`${TITLES[kind]} ${target.entity}${where}${resultWord(frame, action)}`, 'title')]
}

function resultWord({state}: Frame, {isFailed, question}: OpenAction): string {
  if (state.mode !== 'over') return ''
  if (!isFailed) return ': done'
  return question ? ': failed' : ': not possible'
}

export function actionLines(frame: Frame, action: OpenAction): Line[] {
  const {state, size} = frame
  const {columns} = size
  switch (state.mode) {
    case 'editing':
      return editorLines(action, columns)
    case 'asking':
    case 'running':
      return [
        ...textLines(frame, action.question?.lines ?? []),
        [],
        [seg('Equivalent command:', 'dim')],
        ...commandLines(action, columns),
        [],
        state.mode === 'asking'
          ? [seg('Continue? y/N', 'strong')]
          : [seg(state.exitCode === undefined ? 'Running.' : 'Running. The view closes when it is done.', 'strong')],
      ]
    case 'over':
      return outcomeLines(frame, action)
    default:
      return [[seg('Loading the effect.', 'dim')]]
  }
}

function editorLines({input, outcome}: OpenAction, columns: number): Line[] {
  const {before, after} = input ?? {before: '', after: ''}
  return [
    [seg('Limits and their end, as in zael limits set:', 'dim')],
    [],
    // A character, because a terminal without colours has no other way to show the cursor.
    [seg(`> ${before}`, 'strong'), seg('_', 'near'), seg(after, 'strong')],
    [],
    ...linesOf(
      outcome.flatMap(line => wrapped(line, columns)),
      'over',
    ),
    ...(outcome.length > 0 ? [[]] : []),
    ...linesOf(wrapped(EXAMPLES, columns), 'dim'),
  ]
}

const EXAMPLES = 'Several limits: rpm=100/min tpm=200k/min. The end: --for 90m, --for 24h or --until 2026-12-01T14:30.'

function outcomeLines(frame: Frame, action: OpenAction): Line[] {
  const {outcome, isFailed, question} = action
  const mark = isFailed ? `${frame.settings.glyphs.status.over} ` : ''
  const [first = '', ...rest] = outcome
  return [
    ...textLines(frame, [mark + first], isFailed ? 'over' : 'strong'),
    ...textLines(frame, rest),
    ...(question ? [[], [seg('Equivalent command:', 'dim')], ...commandLines(action, frame.size.columns)] : []),
  ]
}

/** Command texts always contain `→`. */
function textLines({settings, size}: Frame, lines: readonly string[], tone?: Tone): Line[] {
  const texts = lines.map(line => line.replaceAll('→', settings.glyphs.becomes))
  return linesOf(
    texts.flatMap(text => wrapped(text, size.columns)),
    tone,
  )
}

const commandLines = ({question}: OpenAction, columns: number): Line[] =>
  linesOf(wrappedCommand(question?.command ?? [], columns))
