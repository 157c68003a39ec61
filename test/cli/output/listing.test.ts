import {describe, expect, it} from 'vitest'
import {
  type ListFlagValues,
  type Listing,
  type ListingColumn,
  listingCsv,
  listingLines,
} from '../../../src/lib/cli/output/listing.js'

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
const ids = (more: Partial<ListFlagValues>) => listingCsv(listing, flags({columns: 'id', 'no-header': true, ...more}))

describe('lists for people', () => {
  it('have the columns that are not extra, in the order of the command', () => {
    expect(listingLines(listing, flags(), undefined)).toEqual([
      'ID  SIZE IN KB',
      'b         9 KB',
      'a        10 KB',
      'c            -',
    ])
    expect(listingLines(listing, flags({'no-header': true}), undefined)[0]).toBe('b   9 KB')
  })

  it('have the columns that were asked for, in that order, extra ones too', () => {
    expect(listingLines(listing, flags({columns: 'note, id'}), undefined)[0]).toBe('NOTE              ID')
  })

  it('without rows are a sentence; a mistyped column is told all the same', () => {
    const none = {...listing, rows: []}
    expect(listingLines(none, flags({columns: 'id', sort: '-size'}), undefined)).toEqual(['There is nothing'])
    expect(() => listingLines(none, flags({columns: 'ids'}), undefined)).toThrow('--columns: there is no column "ids"')
    expect(() => listingLines(none, flags({sort: 'ids'}), undefined)).toThrow('--sort: there is no column "ids"')
  })
})

describe('lists for spreadsheets', () => {
  it('have bare values, and quotes where they are needed', () => {
    expect(listingCsv(listing, flags({columns: 'id,size,note'}))).toEqual([
      'id,size,note',
      'b,9,"one, ""two""\nthree"',
      'a,10,',
      'c,,',
    ])
  })

  it('without rows are the header alone', () => {
    expect(listingCsv({...listing, rows: []}, flags())).toEqual(['id,size'])
  })
})

describe('--sort', () => {
  it('is by value, not by what is shown, and nothing comes last', () => {
    expect(ids({sort: 'id'})).toEqual(['a', 'b', 'c'])
    expect(ids({sort: 'size'})).toEqual(['b', 'a', 'c'])
    expect(ids({sort: '-size'})).toEqual(['a', 'b', 'c'])
    expect(ids({})).toEqual(['b', 'a', 'c'])
    expect(ids({sort: 'note'})).toEqual(['b', 'a', 'c'])
  })

  it('of a column that does not exist names those that do', () => {
    expect(() => ids({sort: '-sise'})).toThrow(
      expect.objectContaining({
        code: 'list.column',
        exitCode: 2,
        hint: 'Did you mean "size"? The columns are id, size, note.',
        details: {column: 'sise', columns: ['id', 'size', 'note']},
      }),
    )
    expect(() => ids({columns: 'id,whatever'})).toThrow(
      expect.objectContaining({hint: 'The columns are id, size, note.'}),
    )
  })
})
