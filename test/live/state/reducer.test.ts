import {describe, expect, it} from 'vitest'
import {type Extent, screenReducer} from '../../../src/lib/live/state/reduce.js'
import {initialState, type ScreenState} from '../../../src/lib/live/state/screen-state.js'

const FIRST = initialState({sort: 'left', reversed: false, filter: ''}, 2000)
const IDS = ['ada#gpt-4', 'ben#gpt-4', 'eve#search']

/** The list is the one that the filter of a state selects. */
const extentOf = ({selection}: ScreenState): Extent => ({
  ids: IDS.filter(id => id.includes(selection.filter)),
  height: 10,
  text: {length: 0, height: 10},
  typedFlags: '',
  rowOf: () => undefined,
})

const press = (state: ScreenState, input: string, key = {}): ScreenState =>
  screenReducer(state, {type: 'press', input, key, atMs: 7}, extentOf)

describe('a key', () => {
  it('depends on the mode: q is text in a filter, and quits elsewhere', () => {
    expect(press(FIRST, 'q').exitCode).toBe(0)
    const typing = press(press(FIRST, '/'), 'q')
    expect(typing).toMatchObject({mode: 'filter', selection: {filter: 'q'}, exitCode: undefined})
    expect(press(typing, 'c', {ctrl: true}).exitCode).toBe(130)
  })

  it('returns the same object where it has no meaning', () => {
    expect(press(FIRST, 'x')).toBe(FIRST)
  })

  it('uses the time of the key press for a pause', () => {
    expect(press(FIRST, 'p').pausedAtMs).toBe(7)
  })

  it('is counted where the terminal or the watch must act', () => {
    const state = [
      ['r', {}],
      ['r', {}],
      ['z', {ctrl: true}],
    ].reduce((current, [input, key]) => press(current, input as string, key as object), FIRST)
    expect([state.refreshes, state.suspensions]).toEqual([2, 1])
  })
})

it('applies keys that arrived together to the list that the earlier ones left', () => {
  expect(press(FIRST, '/search\r\r')).toMatchObject({mode: 'detail', detailId: 'eve#search'})
  expect(press(FIRST, 'jj\r')).toMatchObject({mode: 'detail', detailId: 'eve#search'})
})

it('remembers the new index of the selected line after new data', () => {
  const cursor = {id: 'ben#gpt-4', index: 2, top: 1}
  const state = screenReducer(FIRST, {type: 'settled', cursor}, extentOf)
  expect(state.cursors).toEqual({...FIRST.cursors, overview: cursor})
})
