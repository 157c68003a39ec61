import type {SortKey} from '../model/model.js'
import {type ActionKey, type ActionMode, type ActOnAction, isActionMode, type TextEdit} from './actions.js'
import type {Mode, Move, ScreenAction, ScreenState, Tab} from './screen-state.js'

const NAMED_KEYS = [
  'upArrow',
  'downArrow',
  'leftArrow',
  'rightArrow',
  'pageUp',
  'pageDown',
  'home',
  'end',
  'return',
  'escape',
  'tab',
  'backspace',
  'delete',
] as const

export type KeyPress = Readonly<Partial<Record<(typeof NAMED_KEYS)[number] | 'ctrl' | 'meta', boolean>>>

export interface KeyBinding {
  readonly label: string
  readonly description: string
  readonly isValid: (mode: Mode, tab: Tab) => boolean
  /** A character, `ctrl-` and a character, or the name of a key. */
  readonly keys: Readonly<Record<string, ScreenAction>>
}

const COLUMN_SORTS: readonly SortKey[] = [
  'entity',
  'resource',
  'left',
  'rate',
  'refused',
  'shards',
  'pressure',
  'empty',
]

const outsideFilter = (mode: Mode): boolean => belowHelp(mode) || mode === 'help'
const belowHelp = (mode: Mode): boolean => mode === 'list' || mode === 'detail' || mode === 'why'
const inList = (mode: Mode): boolean => mode === 'list'
const inOverview = (mode: Mode, tab: Tab): boolean => mode === 'list' && tab === 'overview'
const inFilter = (mode: Mode): boolean => mode === 'filter'

const canDrillIn = (mode: Mode, tab: Tab): boolean => mode === 'list' && tab !== 'health'
const hasBucket = (mode: Mode, tab: Tab): boolean => mode === 'detail' || mode === 'why' || inOverview(mode, tab)
const canExplain = (mode: Mode, tab: Tab): boolean => mode === 'detail' || inOverview(mode, tab)

const moveBy = (move: Move): ScreenAction => ({type: 'move', move})
const UP = moveBy({by: -1})
const DOWN = moveBy({by: 1})
const START = moveBy({to: 'start'})
const END = moveBy({to: 'end'})
const PAUSE: ScreenAction = {type: 'pause'}
const ERASE: ScreenAction = {type: 'filter-erase'}

const MOVE_BINDINGS: readonly Omit<KeyBinding, 'isValid'>[] = [
  {label: '{arrows} j k', description: 'move', keys: {upArrow: UP, downArrow: DOWN, k: UP, j: DOWN}},
  {label: 'g G', description: 'first, last', keys: {g: START, G: END, home: START, end: END}},
  {label: 'PgUp PgDn', description: 'a page', keys: {pageUp: moveBy({pages: -1}), pageDown: moveBy({pages: 1})}},
  {
    label: 'Ctrl-u Ctrl-d',
    description: 'half a page',
    keys: {'ctrl-u': moveBy({pages: -0.5}), 'ctrl-d': moveBy({pages: 0.5})},
  },
]

const SCROLL_KEYS: KeyBinding['keys'] = Object.assign({}, ...MOVE_BINDINGS.map(({keys}) => keys))

const DIGITS = Object.fromEntries(
  COLUMN_SORTS.map((key, position): [string, ScreenAction] => [String(position + 1), {type: 'sort-by', key}]),
)

export const BINDINGS: readonly KeyBinding[] = [
  {label: 'Ctrl-C', description: 'quit', isValid: () => true, keys: {'ctrl-c': {type: 'quit', exitCode: 130}}},
  {label: 'Ctrl-Z', description: 'suspend; fg resumes', isValid: () => true, keys: {'ctrl-z': {type: 'suspend'}}},
  {label: 'enter', description: 'keep the filter', isValid: inFilter, keys: {return: {type: 'filter-keep'}}},
  {label: 'esc', description: 'drop the filter', isValid: inFilter, keys: {escape: {type: 'back'}}},
  // Terminals send either for backspace.
  {label: 'backspace', description: 'erase a letter', isValid: inFilter, keys: {backspace: ERASE, delete: ERASE}},
  {label: 'Ctrl-u', description: 'erase all', isValid: inFilter, keys: {'ctrl-u': {type: 'filter-empty'}}},

  {label: 'q', description: 'quit', isValid: outsideFilter, keys: {q: {type: 'quit', exitCode: 0}}},
  {label: '?', description: 'this help', isValid: outsideFilter, keys: {'?': {type: 'help'}}},
  {label: 'esc', description: 'back, or clear the filter', isValid: outsideFilter, keys: {escape: {type: 'back'}}},
  ...MOVE_BINDINGS.map(binding => ({...binding, isValid: outsideFilter})),
  {label: 'enter', description: 'open', isValid: canDrillIn, keys: {return: {type: 'open'}}},
  {label: 'y', description: 'explain refusals', isValid: canExplain, keys: {y: {type: 'why'}}},
  {label: '/', description: 'filter as you type', isValid: inList, keys: {'/': {type: 'filter'}}},
  {
    label: 's S',
    description: 'next sort, reverse',
    isValid: inOverview,
    keys: {s: {type: 'sort-next'}, S: {type: 'sort-reverse'}},
  },
  {label: '1-8', description: 'sort by column; again: reverse', isValid: inOverview, keys: DIGITS},
  {label: 'w', description: 'wide names', isValid: inOverview, keys: {w: {type: 'wide'}}},
  {label: 'tab', description: 'next panel', isValid: inList, keys: {tab: {type: 'tab'}}},
  {label: 'p space', description: 'pause', isValid: belowHelp, keys: {p: PAUSE, ' ': PAUSE}},
  {label: 'r', description: 'refresh now', isValid: belowHelp, keys: {r: {type: 'refresh'}}},
  {
    label: '+ -',
    description: 'poll more often, less often',
    isValid: belowHelp,
    keys: {'+': {type: 'poll', often: 'more'}, '-': {type: 'poll', often: 'less'}},
  },
  {label: 'c', description: 'show a command for this bucket', isValid: hasBucket, keys: {c: {type: 'show-command'}}},
]

const act = (kind: ActionKey): ActOnAction => ({type: 'act', kind})

const ACTION_BINDINGS: readonly KeyBinding[] = [
  {label: 'R', description: 'reset the bucket (asks)', isValid: hasBucket, keys: {R: act('reset')}},
  {label: 'B', description: 'set temporary limits (asks)', isValid: hasBucket, keys: {B: act('boost')}},
  {label: 'X', description: 'block, unblock the entity (asks)', isValid: hasBucket, keys: {X: act('switch')}},
]

const CLOSE: ActOnAction = {type: 'act-close'}
const QUIT: ScreenAction = {type: 'quit', exitCode: 0}
const edit = (edit: TextEdit): ActOnAction => ({type: 'act-edit', edit})

const ACTION_KEYS: Readonly<Record<ActionMode, Readonly<Record<string, ScreenAction>>>> = {
  looking: {escape: CLOSE, q: QUIT},
  editing: {
    return: {type: 'act-submit'},
    escape: CLOSE,
    backspace: edit({type: 'erase'}),
    delete: edit({type: 'erase'}),
    'ctrl-u': edit({type: 'empty'}),
    leftArrow: edit({type: 'go', to: 'left'}),
    rightArrow: edit({type: 'go', to: 'right'}),
    home: edit({type: 'go', to: 'start'}),
    end: edit({type: 'go', to: 'end'}),
    'ctrl-a': edit({type: 'go', to: 'start'}),
    'ctrl-e': edit({type: 'go', to: 'end'}),
  },
  asking: {...SCROLL_KEYS, y: {type: 'act-confirm'}},
  running: {q: QUIT},
  over: {...SCROLL_KEYS, escape: CLOSE, return: CLOSE, q: QUIT},
}

interface KeyStroke {
  readonly input: string
  readonly key: KeyPress
}

const CONTROL_STROKES: ReadonlyMap<string, KeyStroke> = new Map([
  ['\r', {input: '', key: {return: true}}],
  ['\n', {input: '', key: {return: true}}],
  ['\t', {input: '', key: {tab: true}}],
  ['\b', {input: '', key: {backspace: true}}],
  ['\u007f', {input: '', key: {backspace: true}}],
  ['\u001b', {input: '', key: {escape: true}}],
])

/** Keys that are typed fast or pasted arrive together, as bare characters. */
export function keyStrokesOf(input: string, key: KeyPress): KeyStroke[] {
  return input.length <= 1 ? [{input, key}] : Array.from(input, strokeOf)
}

function strokeOf(character: string): KeyStroke {
  const code = character.charCodeAt(0)
  if (code >= 32 && code !== 127) return {input: character, key: {}}
  // Ctrl and a letter arrive as the letter's position in the alphabet.
  return CONTROL_STROKES.get(character) ?? {input: String.fromCharCode(code + 96), key: {ctrl: true}}
}

export function actionOf(
  input: string,
  key: KeyPress,
  {mode, tab, canAct}: Pick<ScreenState, 'mode' | 'tab' | 'canAct'>,
): ScreenAction | undefined {
  const name = nameOf(input, key)
  const bound = bindingsOf(canAct).find(({isValid, keys}) => isValid(mode, tab) && Object.hasOwn(keys, name))
  if (bound) return bound.keys[name]
  if (isActionMode(mode)) return actionKey(name, input, mode)
  return mode === 'filter' && isText(name, input) ? {type: 'filter-type', text: input} : undefined
}

export const bindingsOf = (canAct: boolean): readonly KeyBinding[] =>
  canAct ? [...BINDINGS, ...ACTION_BINDINGS] : BINDINGS

/** In a question, every key except y and the scroll keys declines. */
function actionKey(name: string, input: string, mode: ActionMode): ScreenAction | undefined {
  const keys = ACTION_KEYS[mode]
  if (Object.hasOwn(keys, name)) return keys[name]
  if (mode === 'asking') return CLOSE
  return mode === 'editing' && isText(name, input) ? edit({type: 'insert', text: input}) : undefined
}

const isText = (name: string, input: string): boolean => name !== '' && name === input

function nameOf(input: string, key: KeyPress): string {
  const named = NAMED_KEYS.find(each => key[each])
  if (named || key.meta) return named ?? ''
  return key.ctrl ? `ctrl-${input}` : input
}
