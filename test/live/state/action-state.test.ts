import {describe, expect, it} from 'vitest'
import type {Row} from '../../../src/lib/live/model/status.js'
import {unansweredText} from '../../../src/lib/live/state/action-state.js'
import type {ActionEvent, ActionQuestion} from '../../../src/lib/live/state/actions.js'
import type {KeyPress} from '../../../src/lib/live/state/keys.js'
import {type Extent, screenReducer} from '../../../src/lib/live/state/reduce.js'
import {initialState, type ScreenState} from '../../../src/lib/live/state/screen-state.js'

const FIRST = initialState({sort: 'left', reversed: false, filter: ''}, 2000, true)
const QUESTION: ActionQuestion = {
  command: ['zael', 'bucket', 'reset', 'ada'],
  lines: ['This refills'],
  perform: async () => [],
}
const ESCAPE: KeyPress = {escape: true}
const ENTER: KeyPress = {return: true}
const CTRL: KeyPress = {ctrl: true}

const row = (view: object, rest: object = {}) =>
  ({view: {parent: null, ...view}, tightest: {name: 'tpm'}, ...rest}) as Row

const EXTENT: Extent = {
  ids: ['ada#gpt-4', 'ben#gpt-4', 'eve#search'],
  height: 10,
  text: {length: 8, height: 10},
  typedFlags: '',
  rowOf: id => row({isDisabled: id === 'ben#gpt-4'}),
}

const press = (state: ScreenState, input: string, key: KeyPress = {}, extent = EXTENT): ScreenState =>
  screenReducer(state, {type: 'press', input, key, atMs: 7}, () => extent)
const dispatch = (state: ScreenState, event: ActionEvent) => screenReducer(state, event, () => EXTENT)
const asked = (state: ScreenState, question = QUESTION) => dispatch(state, {type: 'asked', step: state.steps, question})
const failed = (state: ScreenState, error: unknown) =>
  dispatch(state, {type: 'failed', step: state.steps, error, atMs: Date.UTC(2026, 10, 16, 8)})
const done = (state: ScreenState, lines = ['full']) =>
  dispatch(state, {type: 'done', step: state.steps, lines, atMs: Date.UTC(2026, 10, 16, 8)})

const looking = press(FIRST, 'R')
const asking = asked(looking)
const running = press(asking, 'y')

describe('an action opens', () => {
  it.each([
    ['R', 'j', 'reset', 'ben'],
    ['B', '', 'boost', 'ada'],
    ['X', '', 'block', 'ada'],
    ['X', 'j', 'unblock', 'ben'],
  ])('%s after "%s": %s of %s', (key, before, kind, entity) => {
    const state = press(FIRST, before + key)
    expect(state).toMatchObject({
      mode: 'looking',
      steps: 1,
      action: {kind, target: {entity, resource: 'gpt-4', limit: 'tpm'}},
    })
  })

  it('for the bucket whose detail or explanation is open', () => {
    const detail = press(press(FIRST, 'j'), '', ENTER)
    expect(press(detail, 'R').action).toMatchObject({over: 'detail', target: {entity: 'ben'}})
    expect(press(press(detail, 'y'), 'R').action).toMatchObject({over: 'why', target: {entity: 'ben'}})
    expect(press(press(detail, 'R'), '', ESCAPE)).toMatchObject({mode: 'detail', detailId: 'ben#gpt-4'})
  })

  it('and carries the parent that refuses', () => {
    const rowOf = () => row({isDisabled: false, parent: 'team-1'}, {refusedBy: 'parent', refusingParents: ['team-1']})
    expect(press(FIRST, 'R', {}, {...EXTENT, rowOf}).action?.target).toMatchObject({refusingParents: ['team-1']})
    expect(looking.action?.target.refusingParents).toEqual([])
  })

  it('never without a row, in other tabs, in the help, or while a filter is typed', () => {
    const nothing = {...EXTENT, ids: []}
    expect(press(FIRST, 'R', {}, nothing).action).toBeUndefined()
    for (const before of ['?', '/']) expect(press(press(FIRST, before), 'R').action).toBeUndefined()
    const resources = press(FIRST, '', {tab: true})
    for (const key of ['R', 'B', 'X']) expect(press(resources, key)).toBe(resources)
  })

  it('never in a read-only view: the keys change nothing, not even the object', () => {
    const reading = initialState(FIRST.selection, 2000)
    const detail = press(reading, '', ENTER)
    const why = press(reading, 'y')
    for (const state of [reading, detail, why]) {
      for (const key of ['R', 'B', 'X', 'Ry', 'X\ry']) {
        const after = press(state, key)
        expect([after.action, after.steps]).toEqual([undefined, 0])
      }
      for (const key of ['R', 'B', 'X']) expect(press(state, key)).toBe(state)
    }
  })
})

describe('while it is looked up', () => {
  it('ignores y, also when it arrived together with the key', () => {
    for (const state of [press(looking, 'y'), press(FIRST, 'Ry'), press(FIRST, 'Xyyy')]) {
      expect(state).toMatchObject({mode: 'looking', steps: 1})
    }
  })

  it('closes on esc, and ignores a late answer', () => {
    const closed = press(looking, '', ESCAPE)
    expect(closed).toMatchObject({mode: 'list', action: undefined, note: 'cancelled: nothing was changed'})
    expect(dispatch(closed, {type: 'asked', step: 1, question: QUESTION})).toBe(closed)
  })

  it('ignores the answer to an earlier question', () => {
    const again = press(press(looking, '', ESCAPE), 'jX')
    expect(dispatch(again, {type: 'asked', step: 1, question: QUESTION})).toBe(again)
    expect(asked(again)).toMatchObject({mode: 'asking', action: {kind: 'unblock', target: {entity: 'ben'}}})
  })

  it('shows an error, in lines', () => {
    const error = Object.assign(new Error('no bucket\n  here'), {hint: 'Try later.'})
    expect(failed(looking, error)).toMatchObject({
      mode: 'over',
      performed: [],
      action: {isFailed: true, outcome: ['no bucket', '  here', 'Try later.']},
    })
    expect(failed(looking, 'broken').action?.outcome).toEqual(['broken'])
  })
})

describe('a question', () => {
  it('is confirmed by y', () => {
    expect(running).toMatchObject({mode: 'running', steps: 2, action: {question: QUESTION}})
  })

  it.each<[string, KeyPress]>([
    ['n', {}],
    ['N', {}],
    ['Y', {}],
    ['q', {}],
    ['R', {}],
    ['X', {}],
    [' ', {}],
    ['', ENTER],
    ['', ESCAPE],
    ['', {tab: true}],
    ['y', {meta: true}],
    ['y', CTRL],
  ])('is declined by %j %j', (input, key) => {
    expect(press(asking, input, key)).toMatchObject({
      mode: 'list',
      action: undefined,
      steps: 1,
      exitCode: undefined,
      note: 'cancelled: nothing was changed',
    })
  })

  it('keeps the row of the key press after the list is sorted anew, and after the row is gone', () => {
    for (const ids of [EXTENT.ids.toReversed(), ['eve#search']]) {
      const extent = {...EXTENT, ids, rowOf: () => undefined}
      const sorted = screenReducer(asking, {type: 'settled', cursor: {id: 'ada#gpt-4', index: 2, top: 0}}, () => extent)
      const confirmed = press(sorted, 'y', {}, extent)
      expect(confirmed).toMatchObject({mode: 'running', action: {target: {entity: 'ada', resource: 'gpt-4'}}})
      expect(confirmed.action?.question).toBe(QUESTION)
    }
  })

  it('must be scrolled to its end before y when it does not fit on the screen', () => {
    const long = {...EXTENT, text: {length: 30, height: 10}}
    const early = press(asking, 'y', {}, long)
    expect(early).toMatchObject({mode: 'asking', steps: 1, note: 'scroll down to the end first (j, G)'})
    const read = press(early, 'G', {}, long)
    expect(read.action?.top).toBe(20)
    expect(press(read, 'y', {}, long).mode).toBe('running')
    expect(press(press(read, 'k', {}, long), 'y', {}, long).mode).toBe('asking')
    const tiny = {...EXTENT, text: {length: 0, height: 0}}
    expect(press(asking, 'y', {}, tiny).mode).toBe('asking')
  })
})

describe('while it runs', () => {
  it('ignores keys', () => {
    for (const key of ['y', 'R', 'X', 'B', 'n', 'j', '/', '?', 'p']) expect(press(running, key)).toBe(running)
    for (const key of [ESCAPE, ENTER]) expect(press(running, '', key)).toBe(running)
  })

  it('waits for the answer on q and Ctrl-C, and quits on the second press', () => {
    const waiting = press(running, 'q')
    expect(waiting).toMatchObject({mode: 'running', exitCode: 0, endsAtOnce: false})
    expect(done(waiting)).toMatchObject({mode: 'over', exitCode: 0})
    const left = press(waiting, 'c', CTRL)
    expect(left).toMatchObject({mode: 'running', exitCode: 130, endsAtOnce: true})
    expect(unansweredText(left)).toEqual([
      'zael bucket reset ada: no response yet, so the outcome is unknown. Check the audit events of ada.',
    ])
    expect(unansweredText(done(left))).toEqual([])
    expect(screenReducer(running, {type: 'end', exitCode: 143}, () => EXTENT)).toMatchObject({
      exitCode: 143,
      endsAtOnce: false,
    })
  })
})

describe('when it is over', () => {
  it('shows and notes the result, and requests a poll', () => {
    expect(done(running, ['rpm +40'])).toMatchObject({
      mode: 'over',
      refreshes: 1,
      performed: ['08:00:00Z zael bucket reset ada: done'],
      action: {outcome: ['rpm +40'], isFailed: false},
    })
  })

  it('shows and notes a failure, and requests a poll because data may have changed', () => {
    expect(failed(running, new Error('no answer'))).toMatchObject({
      mode: 'over',
      refreshes: 1,
      performed: ['08:00:00Z zael bucket reset ada: failed: no answer'],
      action: {outcome: ['no answer'], isFailed: true},
    })
  })

  it('closes on esc and enter, quits on q, and ignores another answer', () => {
    const over = done(running)
    for (const key of [ESCAPE, ENTER]) expect(press(over, '', key)).toMatchObject({mode: 'list', note: undefined})
    expect(press(over, 'q').exitCode).toBe(0)
    for (const key of ['y', 'R', 'X']) expect(press(over, key)).toBe(over)
    expect(done(over)).toBe(over)
  })
})

describe('a boost', () => {
  const drafting = press(FIRST, 'B')
  const editing = dispatch(drafting, {type: 'drafted', step: 1, text: 'tpm=2k/min --for 1h'})

  it('is edited, then looked up with its text', () => {
    expect(editing).toMatchObject({mode: 'editing', action: {input: {before: 'tpm=2k/min --for 1h', after: ''}}})
    const typed = press(press(editing, '', {backspace: true}), '5m')
    expect(typed.action?.input).toEqual({before: 'tpm=2k/min --for 15m', after: ''})
    expect(press(typed, '', ENTER)).toMatchObject({mode: 'looking', steps: 2, action: {input: typed.action?.input}})
  })

  it('treats every letter as text, and supports the keys of an editor', () => {
    const typed = press(editing, 'qyRX? j')
    expect(typed.action?.input?.before).toBe('tpm=2k/min --for 1hqyRX? j')
    expect(typed.steps).toBe(1)
    expect(press(editing, '', {leftArrow: true}).action?.input).toEqual({before: 'tpm=2k/min --for 1', after: 'h'})
    expect(press(editing, 'u', CTRL).action?.input).toEqual({before: '', after: ''})
    expect(press(press(editing, 'a', CTRL), 'x').action?.input).toEqual({before: 'x', after: 'tpm=2k/min --for 1h'})
    expect(press(editing, '', {home: true}).action?.input?.before).toBe('')
    expect(press(editing, '', ESCAPE)).toMatchObject({mode: 'list', action: undefined})
  })

  it('keeps an invalid text, with the reason, until it is edited', () => {
    const wrong = failed(press(editing, '', ENTER), new Error('no such limit'))
    expect(wrong).toMatchObject({mode: 'editing', action: {input: editing.action?.input, outcome: ['no such limit']}})
    expect(press(wrong, 'x').action?.outcome).toEqual([])
  })
})
