import {type Line, seg} from '../draw/line.js'
import {ScreenLines} from '../draw/screen-line.js'
import {wrapped, wrappedCommand} from '../draw/wrap.js'
import type {ActionKind, OpenAction} from '../model/actions.js'
import type {Frame} from '../model/frame.js'

const TITLES: Readonly<Record<ActionKind, string>> = {
  reset: 'Reset',
  boost: 'Boost',
  block: 'Block',
  unblock: 'Unblock',
}

/** The visible part of an open action; its title stays, and shows the scroll position. */
export function Action({frame, action}: {readonly frame: Frame; readonly action: OpenAction}) {
  const lines = actionLines(frame, action)
  const height = actionHeight(frame)
  const top = Math.max(0, Math.min(action.top, lines.length - height))
  const visible = lines.slice(top, top + height)
  const {dot} = frame.settings.glyphs
  const {kind, target} = action
  const position = `  lines ${top + 1}-${top + visible.length} of ${lines.length}; j k scroll`
  const title = [
    seg(`${TITLES[kind]} ${target.entity} ${dot} ${target.resource}`, 'title'),
    ...(visible.length < lines.length ? [seg(position, 'near')] : []),
  ]
  return <ScreenLines lines={[title, ...visible]} />
}

/** Visible lines of an action, below its title. */
export const actionHeight = ({heights}: Frame): number => Math.max(0, heights.text - 1)

/** What an action would do, and the question; the text that is edited for it; or what came of it. */
export function actionLines(frame: Frame, action: OpenAction): Line[] {
  const {state, size} = frame
  const {columns} = size
  const text = (lines: readonly string[]): Line[] =>
    lines.flatMap(line => wrapped(line, columns)).map((line): Line => [seg(line)])
  switch (state.mode) {
    case 'editing':
      return editorLines(action, columns)
    case 'asking':
    case 'running':
      return [
        ...text(action.question?.lines ?? []),
        [],
        [seg('The same as a command:', 'dim')],
        ...commandLines(action, columns),
        [],
        state.mode === 'asking'
          ? [seg('Do this now? y/N', 'strong')]
          : [seg(state.exitCode === undefined ? 'Doing it.' : 'Doing it; the view ends with the answer.', 'strong')],
      ]
    case 'over':
      return outcomeLines(frame, action)
    default:
      return [[seg('Looking up what it would change.', 'dim')]]
  }
}

function editorLines({input, outcome}: OpenAction, columns: number): Line[] {
  const {before, after} = input ?? {before: '', after: ''}
  const [under = ' ', ...rest] = Array.from(after)
  return [
    [seg('Limits, and for how long, as in zael limits set:', 'dim')],
    [],
    [seg(`> ${before}`, 'strong'), seg(under === ' ' ? '_' : under, 'chosen'), seg(rest.join(''), 'strong')],
    [],
    ...outcome.flatMap(line => wrapped(line, columns)).map((line): Line => [seg(line, 'over')]),
    ...(outcome.length > 0 ? [[]] : []),
    ...wrapped(
      'Several limits: rpm=100/min tpm=200k/min. The end: --for 90m, --for 24h or --until 2026-12-01T14:30.',
      columns,
    ).map((line): Line => [seg(line, 'dim')]),
  ]
}

function outcomeLines({settings, size}: Frame, action: OpenAction): Line[] {
  const {outcome, isFailed, question} = action
  const mark = isFailed ? `${settings.glyphs.status.over} ` : ''
  const [first = '', ...rest] = outcome
  return [
    ...wrapped(mark + first, size.columns).map((line): Line => [seg(line, isFailed ? 'over' : 'strong')]),
    ...rest.flatMap(line => wrapped(line, size.columns)).map((line): Line => [seg(line)]),
    ...(question ? [[], [seg('The command that it stands for:', 'dim')], ...commandLines(action, size.columns)] : []),
  ]
}

const commandLines = ({question}: OpenAction, columns: number): Line[] =>
  wrappedCommand(question?.command ?? [], columns).map((line): Line => [seg(line)])
