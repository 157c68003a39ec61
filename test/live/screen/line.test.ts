import fc from 'fast-check'
import {expect, it} from 'vitest'
import {columnsOf, type joinPieces, seg, wrapPieces} from '../../../src/lib/live/screen/line.js'

const textOf = (line: ReturnType<typeof joinPieces>): string => line.map(({text}) => text).join('')

it('wraps pieces without losing, truncating or reordering any', () => {
  const anyPieces = fc.array(
    fc.array(
      fc.stringMatching(/^[a-z]{1,12}$/).map(text => seg(text)),
      {maxLength: 3},
    ),
  )
  fc.assert(
    fc.property(anyPieces, fc.integer({min: 1, max: 60}), (pieces, width) => {
      const rows = wrapPieces(pieces, width, '  ')
      expect(rows.flatMap(row => textOf(row).split('  '))).toEqual(pieces.filter(each => each.length > 0).map(textOf))
      for (const row of rows) expect(columnsOf(row) <= width || !textOf(row).includes('  ')).toBe(true)
    }),
  )
})

it('wraps no earlier than necessary', () => {
  const pieces = ['abc', 'de', 'fgh'].map(text => [seg(text)])
  expect(wrapPieces(pieces, 12, '  ').map(textOf)).toEqual(['abc  de  fgh'])
  expect(wrapPieces(pieces, 11, '  ').map(textOf)).toEqual(['abc  de', 'fgh'])
  expect(wrapPieces(pieces, 2, '  ').map(textOf)).toEqual(['abc', 'de', 'fgh'])
})
