import {describe, expect, it} from 'vitest'
import {SORT_KEYS} from '../../../src/lib/live/model/model.js'
import {reduce} from '../../../src/lib/live/state/reduce.js'
import {
  initialState,
  type ScreenAction,
  type ScreenState,
  type ViewContext,
} from '../../../src/lib/live/state/screen-state.js'

const IDS = Array.from({length: 30}, (_, index) => `e${index}#r`)
const STAGE: ViewContext = {
  ids: IDS,
  height: 10,
  text: {length: 40, height: 10},
  atMs: 5,
  typedFlags: ' --stack prod',
  rowOf: () => undefined,
}
const FIRST = initialState({sort: 'left', reversed: false, filter: ''}, 2000)

function stateAfter(...actions: ScreenAction[]): ScreenState {
  return actions.reduce((state, action) => reduce(state, action, () => STAGE), FIRST)
}

const down: ScreenAction = {type: 'move', move: {by: 1}}
const type = (text: string): ScreenAction => ({type: 'filter-type', text})

describe('moving', () => {
  it.each<[string, ScreenAction[], number, number]>([
    ['down', [down, down], 2, 0],
    ['up at the top', [{type: 'move', move: {by: -1}}], 0, 0],
    ['past the window', Array.from({length: 12}, () => down), 12, 3],
    ['to the end', [{type: 'move', move: {to: 'end'}}], 29, 20],
    [
      'to the end and back',
      [
        {type: 'move', move: {to: 'end'}},
        {type: 'move', move: {to: 'start'}},
      ],
      0,
      0,
    ],
    ['a page', [{type: 'move', move: {pages: 1}}], 10, 1],
    ['half a page', [{type: 'move', move: {pages: 0.5}}], 5, 0],
    [
      'half a page up from the end',
      [
        {type: 'move', move: {to: 'end'}},
        {type: 'move', move: {pages: -0.5}},
      ],
      24,
      20,
    ],
  ])('%s', (_, actions, index, top) => {
    expect(stateAfter(...actions).cursors.overview).toEqual({id: IDS[index], index, top})
  })

  it('follows the id, not the index', () => {
    const chosen = stateAfter(down, down)
    const reordered = {...STAGE, ids: IDS.toReversed()}
    expect(reduce(chosen, down, () => reordered).cursors.overview.id).toBe('e1#r')
  })

  it('selects the neighbour when the selected line disappears', () => {
    const chosen = stateAfter(down, down)
    const fewer = {...STAGE, ids: IDS.filter(id => id !== 'e2#r')}
    expect(reduce(chosen, {type: 'move', move: {by: 0}}, () => fewer).cursors.overview.id).toBe('e3#r')
  })

  it('works with an empty list and a screen without lines', () => {
    const nowhere = {...STAGE, ids: [], height: 0, text: {length: 0, height: 0}}
    const moves: ScreenAction[] = [
      down,
      {type: 'move', move: {to: 'end'}},
      {type: 'move', move: {pages: -1}},
      {type: 'open'},
    ]
    for (const move of moves) {
      expect(reduce(FIRST, move, () => nowhere)).toMatchObject({mode: 'list', cursors: {overview: {index: 0, top: 0}}})
    }
  })

  it('keeps a cursor per tab', () => {
    const state = stateAfter(down, {type: 'tab'}, down, down)
    expect([state.cursors.overview.index, state.cursors.resources.index]).toEqual([1, 2])
  })
})

describe('filter', () => {
  it('is typed, erased, kept and cleared', () => {
    const typing = stateAfter({type: 'filter'}, type('gp'), type('t'))
    expect(typing).toMatchObject({mode: 'filter', selection: {filter: 'gpt'}})
    expect(reduce(typing, {type: 'filter-erase'}, () => STAGE).selection.filter).toBe('gp')
    expect(reduce(typing, {type: 'filter-empty'}, () => STAGE).selection.filter).toBe('')
    const kept = reduce(typing, {type: 'filter-keep'}, () => STAGE)
    expect(kept).toMatchObject({mode: 'list', selection: {filter: 'gpt'}})
    expect(reduce(kept, {type: 'back'}, () => STAGE)).toMatchObject({mode: 'list', selection: {filter: ''}})
  })

  it.each(['🙂', '👩‍💻', 'é'])('loses %s as a whole when it is erased', text => {
    const typing = stateAfter({type: 'filter'}, type('a'), type(text))
    expect(reduce(typing, {type: 'filter-erase'}, () => STAGE).selection.filter).toBe('a')
  })

  it('is dropped by esc while it is typed', () => {
    expect(stateAfter({type: 'filter'}, type('x'), {type: 'back'})).toMatchObject({
      mode: 'list',
      selection: {filter: ''},
    })
  })

  it('switches to the overview', () => {
    expect(stateAfter({type: 'tab'}, {type: 'filter'})).toMatchObject({tab: 'overview', mode: 'filter'})
  })
})

describe('why', () => {
  it('explains the selected bucket, and returns to where it was opened', () => {
    const fromList = stateAfter(down, {type: 'why'})
    expect(fromList).toMatchObject({mode: 'why', whyId: 'e1#r', detailId: undefined})
    expect(reduce(fromList, {type: 'back'}, () => STAGE)).toMatchObject({mode: 'list', whyId: undefined})
    const fromDetail = stateAfter(down, {type: 'open'}, {type: 'why'})
    expect(fromDetail).toMatchObject({mode: 'why', whyId: 'e1#r', detailId: 'e1#r'})
    expect(reduce(fromDetail, {type: 'back'}, () => STAGE)).toMatchObject({mode: 'detail', whyId: undefined})
    const help = reduce(fromList, {type: 'help'}, () => STAGE)
    expect(help).toMatchObject({mode: 'help', helpOver: 'why'})
    expect(reduce(help, {type: 'back'}, () => STAGE).mode).toBe('why')
    expect(reduce(fromList, {type: 'show-command'}, () => STAGE).note).toContain('bucket show e1 ')
  })
})

describe('a filter that can match nothing', () => {
  it('is not kept: enter shows its problem', () => {
    const typed = stateAfter({type: 'filter'}, type('status:nonsense'), {type: 'filter-keep'})
    expect(typed).toMatchObject({mode: 'filter', note: expect.stringContaining('not a status: ok, ')})
    expect(stateAfter({type: 'filter'}, type('status:over'), {type: 'filter-keep'}).mode).toBe('list')
  })
})

describe('back', () => {
  it('goes one step at a time', () => {
    const deep = stateAfter({type: 'filter'}, type('e'), {type: 'filter-keep'}, down, {type: 'open'}, {type: 'help'})
    expect(deep).toMatchObject({mode: 'help', helpOver: 'detail', detailId: 'e1#r'})
    const steps = [0, 1, 2, 3].reduce<ScreenState[]>(
      states => [...states, reduce(states.at(-1) as ScreenState, {type: 'back'}, () => STAGE)],
      [deep],
    )
    expect(
      steps.map(({mode, detailId, selection, cursors}) => [mode, detailId, selection.filter, cursors.overview.id]),
    ).toEqual([
      ['help', 'e1#r', 'e', 'e1#r'],
      ['detail', 'e1#r', 'e', 'e1#r'],
      ['list', undefined, 'e', 'e1#r'],
      ['list', undefined, '', 'e1#r'],
      ['list', undefined, '', undefined],
    ])
  })

  it('returns from another tab', () => {
    expect(stateAfter({type: 'tab'}, {type: 'back'}).tab).toBe('overview')
  })
})

describe('sort', () => {
  it('cycles through all keys', () => {
    const keys = SORT_KEYS.map(
      (_, times) =>
        stateAfter(...Array.from({length: times}, (): ScreenAction => ({type: 'sort-next'}))).selection.sort,
    )
    expect(keys).toEqual(SORT_KEYS)
    expect(stateAfter(...SORT_KEYS.map((): ScreenAction => ({type: 'sort-next'}))).selection.sort).toBe('left')
  })

  it.each<ScreenAction>([
    {type: 'sort-next'},
    {type: 'sort-reverse'},
    {type: 'sort-by', key: 'rate'},
    {type: 'sort-by', key: 'left'},
  ])('starts at the top of the new order, with nothing selected: %j', action => {
    const state = stateAfter({type: 'move', move: {to: 'end'}}, action)
    expect(state.cursors.overview).toEqual({id: undefined, index: 0, top: 0})
  })

  it('reverses, and starts unreversed with another column', () => {
    expect(stateAfter({type: 'sort-reverse'}).selection).toMatchObject({sort: 'left', reversed: true})
    expect(stateAfter({type: 'sort-by', key: 'rate'}, {type: 'sort-by', key: 'rate'}).selection).toMatchObject({
      reversed: true,
    })
    expect(stateAfter({type: 'sort-reverse'}, {type: 'sort-by', key: 'rate'}).selection.reversed).toBe(false)
  })
})

describe('drilling in', () => {
  it('opens the selected bucket, scrolls in it, and starts at its top next time', () => {
    const open = stateAfter(down, {type: 'open'}, {type: 'move', move: {pages: 1}})
    expect(open).toMatchObject({mode: 'detail', detailId: 'e1#r', detailTop: 10})
    expect(reduce(open, {type: 'move', move: {to: 'end'}}, () => STAGE).detailTop).toBe(30)
    const again = reduce(
      reduce(open, {type: 'back'}, () => STAGE),
      {type: 'open'},
      () => STAGE,
    )
    expect(again.detailTop).toBe(0)
  })

  const openOther: ScreenAction[] = [{type: 'tab'}, down, {type: 'open'}]

  it('filters the overview by a resource, and restores the previous filter on the way back', () => {
    const typed = stateAfter({type: 'filter'}, type('x'), {type: 'filter-keep'}, ...openOther)
    expect(typed).toMatchObject({tab: 'overview', mode: 'list', selection: {filter: 'resource:e1#r'}})
    expect(reduce(typed, {type: 'back'}, () => STAGE)).toMatchObject({tab: 'resources', selection: {filter: 'x'}})
  })

  it('restores the typed filter, however many resources were opened since', () => {
    const again = [...openOther, {type: 'tab'}, {type: 'open'}, {type: 'back'}] as const
    const state = stateAfter({type: 'filter'}, type('x'), {type: 'filter-keep'}, ...again)
    expect(state).toMatchObject({tab: 'resources', selection: {filter: 'x'}, filterBefore: undefined})
  })

  it('treats a resource filter as typed once it is edited', () => {
    const edited = stateAfter(...openOther, {type: 'filter'}, {type: 'filter-erase'}, {type: 'filter-keep'})
    expect(edited.selection.filter).toBe('resource:e1#')
    expect(reduce(edited, {type: 'back'}, () => STAGE)).toMatchObject({tab: 'overview', selection: {filter: ''}})
  })
})

it('freezes time at a pause, until the next key', () => {
  expect(stateAfter({type: 'pause'}).pausedAtMs).toBe(5)
  expect(stateAfter({type: 'pause'}, {type: 'pause'}).pausedAtMs).toBeUndefined()
})

it('clears a note with the next action', () => {
  const noted = stateAfter(down, {type: 'show-command'})
  expect(noted.note).toBe('zael bucket show e1 --resource r --stack prod')
  expect(reduce(noted, {type: 'wide'}, () => STAGE)).toMatchObject({note: undefined, isWide: true})
})

it('polls more or less often, within bounds', () => {
  const intervals = (often: 'more' | 'less') =>
    Array.from({length: 6}, (_, times) =>
      stateAfter(...Array.from({length: times + 1}, (): ScreenAction => ({type: 'poll', often}))),
    ).map(({intervalMs}) => intervalMs)
  expect(intervals('more')).toEqual([1000, 1000, 1000, 1000, 1000, 1000])
  expect(intervals('less')).toEqual([5000, 10_000, 30_000, 60_000, 60_000, 60_000])
  expect(stateAfter({type: 'poll', often: 'less'}).note).toBe('polling every 5s')
})

it('scrolls the help, which starts at its top each time, and not the list below', () => {
  const scrolled = stateAfter(
    down,
    {type: 'help'},
    down,
    {type: 'move', move: {to: 'end'}},
    {type: 'move', move: {by: -1}},
  )
  expect(scrolled).toMatchObject({mode: 'help', helpTop: 29, cursors: {overview: {index: 1}}})
  expect(
    reduce(
      reduce(scrolled, {type: 'help'}, () => STAGE),
      {type: 'help'},
      () => STAGE,
    ).helpTop,
  ).toBe(0)
})

it('opens and closes the help with the same key', () => {
  expect(stateAfter({type: 'help'}).mode).toBe('help')
  expect(stateAfter({type: 'help'}, {type: 'help'}).mode).toBe('list')
})
