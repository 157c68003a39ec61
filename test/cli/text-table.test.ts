import {describe, expect, it, vi} from 'vitest'
import {printable, textTable} from '../../src/lib/cli/text-table.js'

vi.stubEnv('FORCE_COLOR', '0')
const RED = '\u001b[31m'
const PLAIN = '\u001b[39m'

describe('textTable', () => {
  it('aligns text to the left and numbers to the right, with separators; nothing is a dash', () => {
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

  it('text can be aligned to the right, and a number to the left', () => {
    const columns = [{header: 'A', align: 'right'}, {header: 'B', align: 'left'}, {header: 'C'}] as const
    const rows = [
      ['x', 1, '.'],
      ['yyy', 22, '.'],
    ]
    expect(textTable(columns, rows, {header: false, width: undefined})).toEqual(['  x  1   .', 'yyy  22  .'])
  })

  it('takes from the widest columns of text until every line fits, never from numbers', () => {
    const columns = [{header: 'ID'}, {header: 'TEXT'}, {header: 'N'}]
    const rows = [['an-id-of-20-letters!', 'a text that is thirty letters.', 123456789]]
    const lines = textTable(columns, rows, {header: true, width: 40})
    expect(lines).toEqual(['ID            TEXT                     N', 'an-id-of-20…  a text that …  123,456,789'])
    expect(textTable(columns, rows, {header: true, width: 200})[1]).toContain('a text that is thirty letters.')
    // Below six characters a column says nothing any more: the line is too long then.
    expect(textTable(columns, rows, {header: false, width: 5})).toEqual(['an-id…  a tex…  123,456,789'])
  })

  it('measures what is seen, not what is stored', () => {
    const rows = [
      [`${RED}red${PLAIN}`, 'x'],
      ['🙂🙂🙂🙂', 'x'],
    ]
    const columns = [{header: 'A'}, {header: 'B'}]
    expect(textTable(columns, rows, {header: false, width: undefined})).toEqual([
      `${RED}red${PLAIN}   x`,
      '🙂🙂🙂🙂  x',
    ])
    expect(textTable([{header: 'A'}], [['🙂🙂🙂🙂🙂🙂🙂🙂']], {header: false, width: 6})).toEqual(['🙂🙂🙂🙂🙂…'])
  })

  it('stored text cannot break out of its line', () => {
    const hostile = 'a\nb\rc\td\u001b[2Je\u0007'
    expect(textTable([{header: 'A'}], [[hostile]], {header: false, width: undefined})).toEqual(['a b c d [2Je'])
    expect(printable(`${RED}x${PLAIN}\n`)).toBe(`${RED}x${PLAIN} `)
  })

  it('has room for more rows than a call has arguments', () => {
    const rows = Array.from({length: 200_000}, (_, i) => [`r${i}`])
    expect(textTable([{header: 'A'}], rows, {header: false, width: undefined}).at(-1)).toBe('r199999')
  })
})
