import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {actionOf as actionIn, BINDINGS, type KeyPress, keyStrokesOf} from '../../../src/lib/live/state/keys.js'
import type {Mode, ScreenAction, Tab} from '../../../src/lib/live/state/screen-state.js'

const MODES: Mode[] = ['list', 'filter', 'detail', 'why', 'help']
const actionOf = (input: string, key: KeyPress, mode: Mode, tab: Tab, canAct = false) =>
  actionIn(input, key, {mode, tab, canAct})
const list = (input: string, key: KeyPress = {}, tab: Tab = 'overview') => actionOf(input, key, 'list', tab)

describe('in the list', () => {
  it.each<[string, KeyPress, ScreenAction]>([
    ['q', {}, {type: 'quit', exitCode: 0}],
    ['c', {ctrl: true}, {type: 'quit', exitCode: 130}],
    ['?', {}, {type: 'help'}],
    ['', {escape: true}, {type: 'back'}],
    ['/', {}, {type: 'filter'}],
    ['', {upArrow: true}, {type: 'move', move: {by: -1}}],
    ['', {downArrow: true}, {type: 'move', move: {by: 1}}],
    ['j', {}, {type: 'move', move: {by: 1}}],
    ['k', {}, {type: 'move', move: {by: -1}}],
    ['g', {}, {type: 'move', move: {to: 'start'}}],
    ['G', {}, {type: 'move', move: {to: 'end'}}],
    ['', {home: true}, {type: 'move', move: {to: 'start'}}],
    ['', {end: true}, {type: 'move', move: {to: 'end'}}],
    ['', {pageUp: true}, {type: 'move', move: {pages: -1}}],
    ['', {pageDown: true}, {type: 'move', move: {pages: 1}}],
    ['u', {ctrl: true}, {type: 'move', move: {pages: -0.5}}],
    ['d', {ctrl: true}, {type: 'move', move: {pages: 0.5}}],
    ['', {return: true}, {type: 'open'}],
    ['y', {}, {type: 'why'}],
    ['p', {}, {type: 'pause'}],
    [' ', {}, {type: 'pause'}],
    ['r', {}, {type: 'refresh'}],
    ['s', {}, {type: 'sort-next'}],
    ['S', {}, {type: 'sort-reverse'}],
    ['1', {}, {type: 'sort-by', key: 'entity'}],
    ['5', {}, {type: 'sort-by', key: 'refused'}],
    ['8', {}, {type: 'sort-by', key: 'empty'}],
    ['+', {}, {type: 'poll', often: 'more'}],
    ['-', {}, {type: 'poll', often: 'less'}],
    ['z', {ctrl: true}, {type: 'suspend'}],
    ['', {tab: true}, {type: 'tab'}],
    ['w', {}, {type: 'wide'}],
    ['c', {}, {type: 'show-command'}],
  ])('%j %j', (input, key, action) => {
    expect(list(input, key)).toEqual(action)
  })

  it('ignores unbound keys', () => {
    for (const input of ['x', '9', 'Z', '[']) expect(list(input)).toBeUndefined()
    expect(list('q', {meta: true})).toBeUndefined()
    expect(list('s', {ctrl: true})).toBeUndefined()
    expect(list('p', {meta: true})).toBeUndefined()
  })

  it('sorts, filters and drills in only where that is possible', () => {
    for (const input of ['s', 'S', '1', 'w', 'c']) expect(list(input, {}, 'resources')).toBeUndefined()
    expect(list('', {return: true}, 'resources')).toEqual({type: 'open'})
    expect(list('', {return: true}, 'health')).toBeUndefined()
    expect(list('/', {}, 'health')).toEqual({type: 'filter'})
  })
})

describe('while a filter is typed', () => {
  it('treats every printable character as text', () => {
    fc.assert(
      fc.property(fc.string({minLength: 1, maxLength: 1, unit: 'grapheme-ascii'}), text => {
        expect(actionOf(text, {}, 'filter', 'overview')).toEqual({type: 'filter-type', text})
      }),
    )
  })

  it.each<[string, KeyPress, ScreenAction | undefined]>([
    ['c', {ctrl: true}, {type: 'quit', exitCode: 130}],
    ['', {return: true}, {type: 'filter-keep'}],
    ['', {escape: true}, {type: 'back'}],
    ['', {backspace: true}, {type: 'filter-erase'}],
    ['', {delete: true}, {type: 'filter-erase'}],
    ['u', {ctrl: true}, {type: 'filter-empty'}],
    ['', {tab: true}, undefined],
    ['', {upArrow: true}, undefined],
    ['x', {ctrl: true}, undefined],
  ])('%j %j', (input, key, action) => {
    expect(actionOf(input, key, 'filter', 'overview')).toEqual(action)
  })
})

it('always quits with Ctrl-C, and with q except while typing', () => {
  for (const mode of MODES) expect(actionOf('c', {ctrl: true}, mode, 'health')).toEqual({type: 'quit', exitCode: 130})
  for (const mode of ['list', 'detail', 'help'] as const) {
    expect(actionOf('q', {}, mode, 'overview')).toEqual({type: 'quit', exitCode: 0})
  }
})

it('scrolls or closes the help', () => {
  for (const input of ['s', '/', 'p', 'r']) expect(actionOf(input, {}, 'help', 'overview')).toBeUndefined()
  expect(actionOf('j', {}, 'help', 'overview')).toEqual({type: 'move', move: {by: 1}})
  expect(actionOf('', {escape: true}, 'help', 'overview')).toEqual({type: 'back'})
  expect(actionOf('?', {}, 'help', 'overview')).toEqual({type: 'help'})
})

it('splits keys that arrived together', () => {
  const strokes = keyStrokesOf('/a\r\u0003\t\u007f\u001b\u0004', {})
  expect(strokes.map(({input, key}) => actionOf(input, key, 'list', 'overview')?.type)).toEqual([
    'filter',
    undefined,
    'open',
    'quit',
    'tab',
    undefined,
    'back',
    'move',
  ])
  expect(keyStrokesOf('u', {ctrl: true})).toEqual([{input: 'u', key: {ctrl: true}}])
  expect(keyStrokesOf('', {upArrow: true})).toEqual([{input: '', key: {upArrow: true}}])
})

it('binds R, B and X only where the view may write', () => {
  for (const [input, kind] of Object.entries({R: 'reset', B: 'boost', X: 'switch'})) {
    for (const mode of MODES) expect(actionOf(input, {}, mode, 'overview')?.type).not.toBe('act')
    for (const mode of ['list', 'detail', 'why'] as const) {
      expect(actionOf(input, {}, mode, 'overview', true)).toEqual({type: 'act', kind})
    }
    for (const tab of ['resources', 'health'] as const) expect(actionOf(input, {}, 'list', tab, true)).toBeUndefined()
    expect(actionOf(input, {}, 'help', 'overview', true)).toBeUndefined()
  }
})

it('binds no key that writes', () => {
  const words = BINDINGS.map(({description}) => description).join(' ')
  expect(words).not.toMatch(/delete|reset|remove|set /)
})
