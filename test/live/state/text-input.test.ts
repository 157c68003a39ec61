import fc from 'fast-check'
import {expect, it} from 'vitest'
import {edited, inputOf, type TextEdit, textOf} from '../../../src/lib/live/state/actions.js'

const after = (text: string, ...edits: TextEdit[]) => edits.reduce(edited, inputOf(text))
const go = (to: 'left' | 'right' | 'start' | 'end'): TextEdit => ({type: 'go', to})
const insert = (text: string): TextEdit => ({type: 'insert', text})

it('inserts and erases at the cursor', () => {
  expect(after('tpm=1k', go('left'), {type: 'erase'}, insert('9'))).toEqual({before: 'tpm=9', after: 'k'})
  expect(after('ab', go('start'), {type: 'erase'}, insert('x'))).toEqual({before: 'x', after: 'ab'})
  expect(after('ab', go('left'), {type: 'empty'})).toEqual({before: '', after: ''})
})

it('does not leave the text, and never halves a character', () => {
  expect(after('a😀', go('left'), go('left'), go('left'))).toEqual({before: '', after: 'a😀'})
  expect(after('a😀', go('right'))).toEqual({before: 'a😀', after: ''})
  expect(after('a😀', {type: 'erase'})).toEqual({before: 'a', after: ''})
  expect(after('a😀', go('start'), go('right'))).toEqual({before: 'a', after: '😀'})
})

it('changes nothing when the cursor moves', () => {
  const moves = fc.array(fc.constantFrom('left', 'right', 'start', 'end'))
  fc.assert(
    fc.property(fc.string(), moves, (text, all) => {
      expect(textOf(after(text, ...(all as ('left' | 'right')[]).map(go)))).toBe(text)
    }),
  )
})
