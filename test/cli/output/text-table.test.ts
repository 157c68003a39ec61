import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {percentCell, plainTable} from '../../../src/lib/cli/output/text-table.js'
import {textWidth} from '../../../src/lib/core/text/text-width.js'
import {tabled} from '../../helpers/lines.js'

const PIPE = {header: false, width: undefined, isTerminal: false}

describe.each([
  ['in a pipe', false],
  ['on a terminal', true],
])('a text table %s', (_, isTerminal) => {
  it('aligns text left and numbers right, with separators; a missing value is a dash', async () => {
    const columns = [{header: 'NAME'}, {header: 'COUNT'}, {header: 'NOTE'}]
    const rows = [
      ['a', 1234567, null],
      ['longer', 2.345, ''],
      ['c', undefined, 'x'],
    ]
    expect(await tabled(columns, rows, {header: true, width: undefined, isTerminal})).toEqual([
      'NAME        COUNT  NOTE',
      'a       1,234,567  -',
      'longer       2.35  -',
      'c               -  x',
    ])
    const [first] = await tabled(columns, rows, {header: false, width: undefined, isTerminal})
    expect(first).toBe('a       1,234,567  -')
  })

  it('can align text right and numbers left', async () => {
    const columns = [{header: 'A', align: 'right'}, {header: 'B', align: 'left'}, {header: 'C'}] as const
    const rows = [
      ['x', 1, '.'],
      ['yyy', 22, '.'],
    ]
    const lines = await tabled(columns, rows, {header: false, width: undefined, isTerminal})
    expect(lines).toEqual(['  x  1   .', 'yyy  22  .'])
  })

  it('shortens the widest text columns until every line fits, never numbers', async () => {
    const columns = [{header: 'ID'}, {header: 'TEXT'}, {header: 'N'}]
    const rows = [['an-id-of-20-letters!', 'a text that is thirty letters.', 123456789]]
    const at = async (width: number) => (await tabled(columns, rows, {header: true, width, isTerminal})).slice(0, 2)
    expect(await at(40)).toEqual([
      'ID              TEXT                   N',
      'an-id-of-20-l…  a text tha…  123,456,789',
    ])
    expect((await at(200))[1]).toContain('a text that is thirty letters.')
  })

  it('omits spare columns, last first, before text becomes unreadable, and never shortens a time', async () => {
    const columns = [
      {header: 'TIME', fit: 'whole'},
      {header: 'TEXT'},
      {header: 'BAR', fit: 'spare'},
      {header: 'N'},
      {header: 'AGE', fit: 'spare'},
    ] as const
    const rows = [['2026-11-01T10:00:00Z', 'a text that is thirty letters.', '██████', 12, '3 min']]
    const at = async (width: number) => (await tabled(columns, rows, {header: false, width, isTerminal}))[0]
    expect(await at(80)).toBe('2026-11-01T10:00:00Z  a text that is thirty letters.  ██████  12  3 min')
    expect(await at(60)).toBe('2026-11-01T10:00:00Z  a text that is thi…  ██████  12  3 min')
    expect(await at(50)).toBe('2026-11-01T10:00:00Z  a text that is …  ██████  12')
    expect(await at(44)).toBe('2026-11-01T10:00:00Z  a text that is th…  12')
    expect(await at(32)).toBe('2026-11-01T10:00:00Z  a tex…  12')
  })

  it('shows a spare column whole or not at all', async () => {
    const columns = [{header: 'ID'}, {header: 'CREATED', fit: 'spare'}] as const
    const rows = [['short', '2026-11-01T10:00:00Z']]
    const at = async (width: number) => (await tabled(columns, rows, {header: false, width, isTerminal}))[0]
    expect(await at(27)).toBe('short  2026-11-01T10:00:00Z')
    expect(await at(26)).toBe('short')
  })

  it('omits columns from the right rather than cut values to nothing, and keeps the first', async () => {
    const columns = [{header: 'ID'}, {header: 'TEXT'}, {header: 'N'}]
    const rows = [['an-id-of-20-letters!', 'a text that is thirty letters.', 123456789]]
    const at = async (width: number) => (await tabled(columns, rows, {header: false, width, isTerminal}))[0]
    expect(await at(20)).toBe('an-id-of-20-letters!')
    expect(await at(13)).toBe('an-id-of-20-…')
    expect(await at(5)).toBe('an-i…')
  })

  it.each([60, 80, 120, 200])('aligns wide characters, emoji and marks within %i columns', async width => {
    const names = [
      'plain',
      '日本語の名前',
      '한국어',
      '👩🏽‍🚀 crew',
      '🫠🪿',
      'Zoë',
      'e\u0301',
      'नमस्ते',
      'ไทย',
      '❤️',
      '１２',
      '🇩🇪',
    ]
    const rows = names.map(name => [name.repeat(4), name.repeat(8), 'end'])
    const lines = await tabled([{header: 'A'}, {header: 'B'}, {header: 'C'}], rows, {header: true, width, isTerminal})
    expect(lines).toHaveLength(1 + names.length)
    // The last column starts in the same column of the screen in every line.
    expect(new Set(lines.map(line => textWidth(line.replace(/(end|C)$/, ''))))).toHaveProperty('size', 1)
    expect(Math.max(...lines.map(textWidth))).toBeLessThanOrEqual(width)
  })

  it('has no line longer than the width, and shows each column or names it, whatever it contains', async () => {
    const cell = fc.oneof(fc.string({maxLength: 40, unit: 'grapheme'}), fc.integer(), fc.constant(null))
    const fits = fc.constantFrom('whole' as const, 'spare' as const, 'key' as const, undefined)
    const column = fc.record({header: fc.string({maxLength: 12}), fit: fits})
    await fc.assert(
      fc.asyncProperty(
        fc.array(column, {minLength: 1, maxLength: 8}),
        fc.array(fc.array(cell, {minLength: 8, maxLength: 8}), {minLength: 1, maxLength: 4}),
        fc.integer({min: 1, max: 120}),
        async (columns, rows, width) => {
          const chosen = columns.map(({header, fit}) => (fit === undefined ? {header} : {header, fit}))
          const cells = rows.map(row => row.slice(0, chosen.length))
          const lines = await tabled(chosen, cells, {header: true, width, isTerminal})
          // Stacked rows have no header.
          expect(lines.length).toBeGreaterThanOrEqual(rows.length)
          for (const line of lines) expect(textWidth(line)).toBeLessThanOrEqual(width)
        },
      ),
    )
  })

  it('escapes control characters and colours of stored text', async () => {
    const hostile = 'a\nb\rc\td\u001b[2Je\u0007\u001b[31m'
    const lines = await tabled([{header: 'A'}], [[hostile]], {...PIPE, isTerminal})
    expect(lines).toEqual(['a\\nb\\rc\\td\\x1b[2Je\\x07\\x1b[31m'])
  })

  it('can have more rows than a function call can have arguments', async () => {
    const rows = Array.from({length: 200_000}, (_, i) => [`r${i}`])
    expect((await tabled([{header: 'A'}], rows, {...PIPE, isTerminal})).at(-1)).toBe('r199999')
  })
})

describe.each([
  ['in a pipe', false],
  ['on a terminal', true],
])('key columns %s', (_, isTerminal) => {
  const columns = [
    {header: 'STATUS'},
    {header: 'ENTITY', fit: 'key'},
    {header: 'TEXT'},
    {header: 'LEVEL'},
    {header: 'REFUSED', fit: 'key'},
    {header: 'BAR', fit: 'spare'},
  ] as const
  const rows = [
    ['over', 'customer-acme-production', 'some words', 603.15, 35, '██████'],
    ['ok', 'c3', 'more words', 1, 0, '░░░░░░'],
  ]
  const at = async (width: number, some = rows) => {
    const lines = await tabled(columns, some, {header: true, width, isTerminal})
    return lines.filter(line => !line.startsWith('Not shown'))
  }

  it('outlast other columns, and keep names of up to 24 characters', async () => {
    expect(await at(60)).toEqual([
      'STATUS  ENTITY                    TEXT        LEVEL  REFUSED',
      'over    customer-acme-production  some wor…  603.15       35',
      'ok      c3                        more wor…       1        0',
    ])
    expect(await at(48)).toEqual([
      'STATUS  ENTITY                    REFUSED',
      'over    customer-acme-production       35',
      'ok      c3                              0',
    ])
    const [, long] = await at(44, [['ok', 'a-name-of-more-than-24-characters', '', 1, 7, '']])
    expect(long).toBe('ok      a-name-of-more-than-24-cha…        7')
  })

  it('stack each row when they do not fit beside each other', async () => {
    expect(await at(32)).toEqual([
      'over  customer-acme-production',
      '  REFUSED 35  TEXT some words',
      '  LEVEL 603.15',
      'ok  c3',
      '  REFUSED 0  TEXT more words',
      '  LEVEL 1',
    ])
  })
})

describe('columns that do not fit', () => {
  const columns = [{header: 'ID'}, {header: 'SIZE', name: 'size'}, {header: 'AGE', fit: 'spare'}] as const
  const rows = [['a-name-of-16-char', 1234567890, '3 min 20 s']]

  it('are named below the table on a terminal, with where to see them', async () => {
    const at = (width: number) =>
      tabled(columns, rows, {header: false, width, isTerminal: true, elsewhere: '--output json'})
    expect(await at(60)).toHaveLength(1)
    expect((await at(35)).slice(1)).toEqual(['Not shown (--output json): AGE'])
    expect((await at(18)).slice(1)).toEqual(['Not shown', '    (--output', '    json): size,', '    AGE'])
    expect((await at(40))[0]).toBe('a-name-of-16-char  1,234,567,890')
  })

  it('are dropped before the name of a row is cut short', async () => {
    const names = [
      ['cust-0000', 'rpm', 600, 600],
      ['cust-0001', 'tpm', 60_000, 60_000],
    ]
    const shown = [{header: 'ENTITY'}, {header: 'LIMIT'}, {header: 'LEVEL'}, {header: 'CAPACITY'}]
    const lines = await tabled(shown, names, {header: false, width: 28, isTerminal: true})
    expect(lines.slice(0, 2)).toEqual(['cust-0000  rpm     600', 'cust-0001  tpm  60,000'])
  })

  it('are also named below a table with too many rows to be drawn by cli-table3', async () => {
    const many = Array.from({length: 1001}, () => rows[0] ?? [])
    const lines = await tabled(columns, many, {header: false, width: 35, isTerminal: true})
    expect(lines.slice(1000)).toEqual(['a-name-of-16-char  1,234,567,890', 'Not shown (--output json): AGE'])
  })

  it('are not mentioned in a pipe', async () => {
    expect(await tabled(columns, rows, {header: false, width: 35, isTerminal: false})).toHaveLength(1)
  })
})

it('sizes a plain table to its content', () => {
  expect(plainTable([{header: 'A'}, {header: 'B'}], [['日本', 1]], {header: true})).toEqual(['A     B', '日本  1'])
})

it('formats a share in percent, and leaves a missing one empty', () => {
  expect([percentCell(0.42), percentCell(null), percentCell(undefined)]).toEqual(['42 %', undefined, undefined])
})
