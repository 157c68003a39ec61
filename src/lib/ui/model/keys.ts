import type {SortKey} from '../../watch/model.js'
import type {Move} from './cursor.js'
import type {Mode, ScreenAction, Tab} from './screen-state.js'

const NAMED_KEYS = [
  'upArrow',
  'downArrow',
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

/** What Ink tells of a key besides its character. */
export type KeyPress = Readonly<Partial<Record<(typeof NAMED_KEYS)[number] | 'ctrl' | 'meta', boolean>>>

/** What a key asks for: a change of the screen, or something that the session does. */
export type Intent =
  | Exclude<ScreenAction, {type: 'pause' | 'note'}>
  | {readonly type: 'quit'; readonly exitCode: 0 | 130}
  | {readonly type: 'pause'}
  | {readonly type: 'refresh'}
  | {readonly type: 'interval'; readonly step: 1 | -1}
  | {readonly type: 'tell'}

/** One key habit; the help overlay shows those that are valid where it was opened. */
export interface Binding {
  readonly label: string
  readonly says: string
  readonly isValid: (mode: Mode, tab: Tab) => boolean
  /** By key: a character, `ctrl-` and a character, or the name of the key. */
  readonly keys: Readonly<Record<string, Intent>>
}

/** What the digits sort by: the columns from left to right. */
export const COLUMN_SORTS: readonly SortKey[] = ['entity', 'resource', 'left', 'rate', 'shards', 'pressure', 'empty']

const outsideFilter = (mode: Mode): boolean => mode !== 'filter'
const belowHelp = (mode: Mode): boolean => mode === 'list' || mode === 'detail'
const inList = (mode: Mode): boolean => mode === 'list'
const inOverview = (mode: Mode, tab: Tab): boolean => mode === 'list' && tab === 'overview'
const inFilter = (mode: Mode): boolean => mode === 'filter'

const hasMore = (mode: Mode, tab: Tab): boolean => mode === 'list' && tab !== 'health'
const hasName = (mode: Mode, tab: Tab): boolean => mode === 'detail' || inOverview(mode, tab)

const moving = (move: Move): Intent => ({type: 'move', move})
const UP = moving({by: -1})
const DOWN = moving({by: 1})
const START = moving({to: 'start'})
const END = moving({to: 'end'})
const PAUSE: Intent = {type: 'pause'}
const ERASE: Intent = {type: 'filter-erase'}

const DIGITS = Object.fromEntries(
  COLUMN_SORTS.map((key, position): [string, Intent] => [String(position + 1), {type: 'sort-by', key}]),
)

/** Every key of the view. None of them changes anything but the view. */
export const BINDINGS: readonly Binding[] = [
  {label: 'Ctrl-C', says: 'quit', isValid: () => true, keys: {'ctrl-c': {type: 'quit', exitCode: 130}}},
  {label: 'enter', says: 'keep the filter', isValid: inFilter, keys: {return: {type: 'filter-keep'}}},
  {label: 'esc', says: 'drop the filter', isValid: inFilter, keys: {escape: {type: 'back'}}},
  // Terminals send either for the key that erases.
  {label: 'backspace', says: 'erase a letter', isValid: inFilter, keys: {backspace: ERASE, delete: ERASE}},
  {label: 'Ctrl-u', says: 'erase all', isValid: inFilter, keys: {'ctrl-u': {type: 'filter-empty'}}},

  {label: 'q', says: 'quit', isValid: outsideFilter, keys: {q: {type: 'quit', exitCode: 0}}},
  {label: '?', says: 'this help', isValid: outsideFilter, keys: {'?': {type: 'help'}}},
  {label: 'esc', says: 'back, or clear the filter', isValid: outsideFilter, keys: {escape: {type: 'back'}}},
  {label: '{arrows} j k', says: 'move', isValid: outsideFilter, keys: {upArrow: UP, downArrow: DOWN, k: UP, j: DOWN}},
  {label: 'g G', says: 'first, last', isValid: outsideFilter, keys: {g: START, G: END, home: START, end: END}},
  {
    label: 'PgUp PgDn',
    says: 'a page',
    isValid: outsideFilter,
    keys: {pageUp: moving({pages: -1}), pageDown: moving({pages: 1})},
  },
  {
    label: 'Ctrl-u Ctrl-d',
    says: 'half a page',
    isValid: outsideFilter,
    keys: {'ctrl-u': moving({pages: -0.5}), 'ctrl-d': moving({pages: 0.5})},
  },
  {label: 'enter', says: 'drill in', isValid: hasMore, keys: {return: {type: 'open'}}},
  {label: '/', says: 'filter as you type', isValid: inList, keys: {'/': {type: 'filter'}}},
  {
    label: 's S',
    says: 'next sort, reverse',
    isValid: inOverview,
    keys: {s: {type: 'sort-next'}, S: {type: 'sort-reverse'}},
  },
  {label: '1-7', says: 'sort by column; again: reverse', isValid: inOverview, keys: DIGITS},
  {label: 'w', says: 'wide names', isValid: inOverview, keys: {w: {type: 'wide'}}},
  {label: 'tab', says: 'next panel', isValid: inList, keys: {tab: {type: 'tab'}}},
  {label: 'p space', says: 'pause', isValid: belowHelp, keys: {p: PAUSE, ' ': PAUSE}},
  {label: 'r', says: 'refresh now', isValid: belowHelp, keys: {r: {type: 'refresh'}}},
  {
    label: '+ -',
    says: 'poll less often, more often',
    isValid: belowHelp,
    keys: {'+': {type: 'interval', step: 1}, '-': {type: 'interval', step: -1}},
  },
  {label: 'c', says: 'tell the name and its command', isValid: hasName, keys: {c: {type: 'tell'}}},
]

/** One key, as Ink tells it. */
export interface Stroke {
  readonly input: string
  readonly key: KeyPress
}

const CONTROL_STROKES: ReadonlyMap<string, Stroke> = new Map([
  ['\r', {input: '', key: {return: true}}],
  ['\n', {input: '', key: {return: true}}],
  ['\t', {input: '', key: {tab: true}}],
  ['\b', {input: '', key: {backspace: true}}],
  ['\u007f', {input: '', key: {backspace: true}}],
  ['\u001b', {input: '', key: {escape: true}}],
])

/** The keys in what Ink tells: those that were typed fast, or pasted, come together and as bare characters. */
export function strokesOf(input: string, key: KeyPress): Stroke[] {
  return input.length <= 1 ? [{input, key}] : Array.from(input, strokeOf)
}

function strokeOf(character: string): Stroke {
  const code = character.charCodeAt(0)
  if (code >= 32 && code !== 127) return {input: character, key: {}}
  // Ctrl and a letter is the letter's place in the alphabet.
  return CONTROL_STROKES.get(character) ?? {input: String.fromCharCode(code + 96), key: {ctrl: true}}
}

/** What a key means in a mode; `undefined`: nothing. While a filter is typed, letters are text. */
export function intentOf(input: string, key: KeyPress, mode: Mode, tab: Tab): Intent | undefined {
  const name = nameOf(input, key)
  const bound = BINDINGS.find(({isValid, keys}) => isValid(mode, tab) && Object.hasOwn(keys, name))
  if (bound) return bound.keys[name]
  return mode === 'filter' && name !== '' && name === input ? {type: 'filter-type', text: input} : undefined
}

function nameOf(input: string, key: KeyPress): string {
  const named = NAMED_KEYS.find(each => key[each])
  if (named || key.meta) return named ?? ''
  return key.ctrl ? `ctrl-${input}` : input
}
