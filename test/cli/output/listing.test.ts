import {describe, expect, it} from 'vitest'
import type {ListFlagValues, Listing, ListingColumn} from '../../../src/lib/cli/output/listing.js'
import {listed, listedCsv} from '../../helpers/lines.js'

interface Row {
  readonly id: string
  readonly size: number | null
  readonly note?: string
}

const columns: readonly ListingColumn<Row>[] = [
  {name: 'id', value: ({id}) => id},
  {
    name: 'size',
    header: 'SIZE IN KB',
    align: 'right',
    value: ({size}) => (size === null ? null : `${size} KB`),
    raw: ({size}) => size,
  },
  {name: 'note', value: ({note}) => note, isExtra: true},
]
const rows: readonly Row[] = [
  {id: 'b', size: 9, note: 'one, "two"\nthree'},
  {id: 'a', size: 10},
  {id: 'c', size: null},
]
const listing: Listing<Row> = {rows, columns, empty: 'There is nothing'}
const flags = (more: Partial<ListFlagValues> = {}): ListFlagValues => ({'no-header': false, ...more})
const ids = (more: Partial<ListFlagValues>) => listedCsv(listing, flags({columns: 'id', 'no-header': true, ...more}))

describe('lists as text', () => {
  it('have the default columns, in the order of the command', async () => {
    expect(await listed(listing, flags(), undefined)).toEqual([
      'ID  SIZE IN KB',
      'b         9 KB',
      'a        10 KB',
      'c            -',
    ])
    expect((await listed(listing, flags({'no-header': true}), undefined))[0]).toBe('b   9 KB')
  })

  it('have the named columns in the named order, including extra ones', async () => {
    expect((await listed(listing, flags({columns: 'note, id'}), undefined))[0]).toBe('NOTE               ID')
  })

  it('print a sentence when there are no rows, and refuse an unknown column even then', async () => {
    const none = {...listing, rows: []}
    expect(await listed(none, flags({columns: 'id', sort: '-size'}), undefined)).toEqual(['There is nothing'])
    await expect(listed(none, flags({columns: 'ids'}), undefined)).rejects.toThrow(
      '--columns: column "ids" does not exist',
    )
    await expect(listed(none, flags({sort: 'ids'}), undefined)).rejects.toThrow('--sort: column "ids" does not exist')
  })
})

describe('lists as CSV', () => {
  it('have plain values, quoted where needed', () => {
    expect(listedCsv(listing, flags({columns: 'id,size,note'}))).toEqual([
      'id,size,note',
      'b,9,"one, ""two""\\nthree"',
      'a,10,',
      'c,,',
    ])
  })

  it('contain no cell that a spreadsheet would compute; numbers stay numbers', () => {
    const column = {name: 'v', value: (cell: string | number) => cell}
    const csvOf = (cell: string | number) =>
      listedCsv({rows: [cell], columns: [column], empty: ''}, flags({'no-header': true}))[0]
    for (const text of ['=1+1', '+1+1', '-1+cmd', '@SUM(A1)', '＝1', '-', '=']) expect(csvOf(text)).toBe(`'${text}`)
    for (const text of ['\t=1', '\r=1']) expect(csvOf(text)).toMatch(/^\\[tr]=1$/)
    for (const text of ['-5', '-5.25', '+49', 'a=b', '5-']) expect(csvOf(text)).toBe(text)
    for (const number of [-5, -0.5]) expect(csvOf(number)).toBe(String(number))
    expect(csvOf('=A,"B"')).toBe(`"'=A,""B"""`)
  })

  it('have one line per row, and escape line breaks and hidden characters', () => {
    const hostile = {rows: ['a\nb\u001b[31m\u202e'], columns: [{name: 'v', value: (text: string) => text}], empty: ''}
    expect(listedCsv(hostile, flags())).toEqual(['v', 'a\\nb\\x1b[31m\\u202e'])
  })

  it('print only the header when there are no rows', () => {
    expect(listedCsv({...listing, rows: []}, flags())).toEqual(['id,size'])
  })
})

describe('--sort', () => {
  it('keeps the column in a narrow terminal', async () => {
    const wide = [{name: 'long', value: () => 'a text of 20 columns'}, ...columns.slice(0, 2)]
    const header = async (sort?: string) =>
      (await listed({...listing, columns: wide}, flags({sort}), 24)).slice(0, 2).join(' ')
    expect(await header()).not.toContain('SIZE IN KB')
    expect(await header('-size')).toContain('SIZE IN KB')
  })

  it('sorts by value, not by the displayed text, with missing values last', () => {
    expect(ids({sort: 'id'})).toEqual(['a', 'b', 'c'])
    expect(ids({sort: 'size'})).toEqual(['b', 'a', 'c'])
    expect(ids({sort: '-size'})).toEqual(['a', 'b', 'c'])
    expect(ids({})).toEqual(['b', 'a', 'c'])
    expect(ids({sort: 'note'})).toEqual(['b', 'a', 'c'])
  })

  it('names the columns when one does not exist', () => {
    expect(() => ids({sort: '-sise'})).toThrow(
      expect.objectContaining({
        code: 'list.column',
        kind: 'usage',
        hint: 'Did you mean "size"? Use id, size, note.',
        details: {column: 'sise', columns: ['id', 'size', 'note']},
      }),
    )
    expect(() => ids({columns: 'id,whatever'})).toThrow(expect.objectContaining({hint: 'Use id, size, note.'}))
  })
})
