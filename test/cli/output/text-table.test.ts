import fc from 'fast-check'
import {describe, expect, it, vi} from 'vitest'
import {textTable} from '../../../src/lib/cli/output/text-table.js'

vi.stubEnv('FORCE_COLOR', '0')

describe('a text table', () => {
  it('aligns text left and numbers right, with separators; a missing value is a dash', () => {
    const columns = [{header: 'NAME'}, {header: 'COUNT'}, {header: 'NOTE'}]
    const rows = [
      ['a', 1234567, null],
      ['longer', 2.345, ''],
      ['c', undefined, 'x'],
    ]
    expect(textTable(columns, rows, {header: true, width: undefined})).toEqual([
      'NAME        COUNT  NOTE',
      'a       1,234,567  -',
      'longer       2.35  -',
      'c               -  x',
    ])
    expect(textTable(columns, rows, {header: false, width: undefined})[0]).toBe('a       1,234,567  -')
  })

  it('can align text right and numbers left', () => {
    const columns = [{header: 'A', align: 'right'}, {header: 'B', align: 'left'}, {header: 'C'}] as const
    const rows = [
      ['x', 1, '.'],
      ['yyy', 22, '.'],
    ]
    expect(textTable(columns, rows, {header: false, width: undefined})).toEqual(['  x  1   .', 'yyy  22  .'])
  })

  it('shortens the widest text columns until every line fits, never numbers', () => {
    const columns = [{header: 'ID'}, {header: 'TEXT'}, {header: 'N'}]
    const rows = [['an-id-of-20-letters!', 'a text that is thirty letters.', 123456789]]
    const lines = textTable(columns, rows, {header: true, width: 40})
    expect(lines).toEqual(['ID            TEXT                     N', 'an-id-of-20…  a text that …  123,456,789'])
    expect(textTable(columns, rows, {header: true, width: 200})[1]).toContain('a text that is thirty letters.')
    // Below six characters a column says nothing any more: the line is cut off then.
    expect(textTable(columns, rows, {header: false, width: 20})).toEqual(['an-id…  a tex…  123…'])
    expect(textTable(columns, rows, {header: false, width: 5})).toEqual(['an-i…'])
  })

  it('leaves out spare columns, last first, before text becomes unreadable, and never shortens a time', () => {
    const columns = [
      {header: 'TIME', fit: 'whole'},
      {header: 'TEXT'},
      {header: 'BAR', fit: 'spare'},
      {header: 'N'},
      {header: 'AGE', fit: 'spare'},
    ] as const
    const rows = [['2026-11-01T10:00:00Z', 'a text that is thirty letters.', '██████', 12, '3 min']]
    const at = (width: number) => textTable(columns, rows, {header: false, width})[0]
    expect(at(80)).toBe('2026-11-01T10:00:00Z  a text that is thirty letters.  ██████  12  3 min')
    expect(at(60)).toBe('2026-11-01T10:00:00Z  a text that is thi…  ██████  12  3 min')
    expect(at(50)).toBe('2026-11-01T10:00:00Z  a text that is …  ██████  12')
    expect(at(44)).toBe('2026-11-01T10:00:00Z  a text that is th…  12')
    expect(at(32)).toBe('2026-11-01T10:00:00Z  a tex…  12')
  })

  it('has no line longer than the width, whatever it contains', () => {
    const cell = fc.oneof(fc.string({maxLength: 40}), fc.integer(), fc.constant(null))
    const column = fc.record({header: fc.string({maxLength: 12}), fit: fc.constantFrom('whole', 'spare', undefined)})
    fc.assert(
      fc.property(
        fc.array(column, {minLength: 1, maxLength: 8}),
        fc.array(fc.array(cell, {minLength: 8, maxLength: 8}), {minLength: 1, maxLength: 4}),
        fc.integer({min: 1, max: 120}),
        (columns, rows, width) => {
          const chosen = columns.map(({header, fit}) => (fit === undefined ? {header} : {header, fit}))
          const cells = rows.map(row => row.slice(0, chosen.length))
          for (const line of textTable(chosen, cells, {header: true, width})) {
            expect([...line].length).toBeLessThanOrEqual(width)
          }
        },
      ),
    )
  })

  it('measures displayed characters, not stored ones', () => {
    const rows = [
      ['red', 'x'],
      ['🙂🙂🙂🙂', 'x'],
    ]
    const columns = [{header: 'A'}, {header: 'B'}]
    expect(textTable(columns, rows, {header: false, width: undefined})).toEqual(['red   x', '🙂🙂🙂🙂  x'])
    expect(textTable([{header: 'A'}], [['🙂🙂🙂🙂🙂🙂🙂🙂']], {header: false, width: 6})).toEqual(['🙂🙂🙂🙂🙂…'])
  })

  it('shows control characters of stored text, colours too, as escapes', () => {
    const hostile = 'a\nb\rc\td\u001b[2Je\u0007'
    expect(textTable([{header: 'A'}], [[hostile]], {header: false, width: undefined})).toEqual([
      'a\\nb\\rc\\td\\x1b[2Je\\x07',
    ])
  })

  it('can have more rows than a function call can have arguments', () => {
    const rows = Array.from({length: 200_000}, (_, i) => [`r${i}`])
    expect(textTable([{header: 'A'}], rows, {header: false, width: undefined}).at(-1)).toBe('r199999')
  })
})
