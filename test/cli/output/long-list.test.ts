import {afterEach, beforeEach, describe, expect, it, vi} from 'vitest'
import {jsonText} from '../../../src/lib/cli/output/json-text.js'
import {type ListFlagValues, type Listing, listingCsv, listingLines} from '../../../src/lib/cli/output/listing.js'
import {printLongList} from '../../../src/lib/cli/output/long-list.js'
import {OUTPUT_FORMATS, type OutputFormat} from '../../../src/lib/cli/output/output-format.js'
import {yamlText} from '../../../src/lib/files/yaml-text.js'

interface Item {
  readonly id: string
  readonly size: number
  readonly note?: string
}

const listing = (rows: readonly Item[], isMore = false): Listing<Item> => ({
  rows,
  columns: [
    {name: 'id', value: ({id}) => id},
    {name: 'size', value: ({size}) => size},
    {name: 'note', value: ({note}) => note, isExtra: !isMore && rows.every(({note}) => note === undefined)},
  ],
  empty: 'Nothing',
})

const itemsOf = (count: number): Item[] => Array.from({length: count}, (_, at) => ({id: `item-${at}`, size: at * 7}))

describe('a list that is printed while it is read', () => {
  let written = ''
  let taken = 0

  beforeEach(() => {
    written = ''
    taken = 0
    vi.spyOn(process.stdout, 'write').mockImplementation(text => {
      written += String(text)
      return true
    })
  })
  afterEach(() => vi.restoreAllMocks())

  async function* of(items: readonly Item[]): AsyncGenerator<Item, void> {
    for (const item of items) {
      taken++
      yield item
    }
  }

  const print = async (
    items: AsyncIterable<Item>,
    format: OutputFormat,
    flags: Partial<ListFlagValues> = {},
    onBegin = () => {},
  ): Promise<string> => {
    const options = {flags: {'no-header': false, ...flags}, width: undefined, after: () => ({next: null}), onBegin}
    await printLongList({field: 'items', items, json: item => item, listing}, {format, ...options})
    return written
  }

  const whole = async (items: readonly Item[], format: OutputFormat, sort?: string): Promise<string> => {
    const flags = {'no-header': false, sort}
    const lines = (each: Iterable<string>) => [...each].map(line => `${line}\n`).join('')
    switch (format) {
      case 'json':
        return `${jsonText({items, next: null}, 2)}\n`
      case 'yaml':
        return yamlText({items, next: null})
      case 'jsonl':
        return lines(items.map(item => jsonText(item)))
      case 'csv':
        return lines(listingCsv(listing(items), flags))
      default:
        return lines(await listingLines(listing(items), flags, undefined))
    }
  }

  it.each(OUTPUT_FORMATS.flatMap(format => [0, 1, 1000].map(count => [count, format] as const)))(
    'of %i items prints as %s like a list read in advance',
    async (count, format) => expect(await print(of(itemsOf(count)), format)).toBe(await whole(itemsOf(count), format)),
  )

  it.each(['table', 'csv'] as const)('is sorted as a whole as %s', async format => {
    const items = itemsOf(1500)
    expect(await print(of(items), format, {sort: '-size'})).toBe(await whole(items, format, '-size'))
  })

  it.each(['table', 'csv'] as const)('has the columns that later rows need as %s', async format => {
    const items = [...itemsOf(1499), {id: 'the-last-has-a-longer-name', size: 1, note: 'seen'}]
    const lines = (await print(of(items), format)).trimEnd().split('\n')
    expect(lines).toHaveLength(1501)
    expect(lines[0]).toMatch(/note/i)
    expect(lines.at(-1)).toMatch(/^the-last-has-a-longer-name\b.*\bseen$/)
  })

  it.each(['json', 'jsonl', 'csv', 'table'] as const)('does not keep printed rows as %s', async format => {
    let [most, printed] = [0, 0]
    const items = itemsOf(30_000)
    vi.mocked(process.stdout.write).mockImplementation(text => {
      printed += String(text).split('item-').length - 1
      most = Math.max(most, taken - printed)
      return true
    })
    await print(of(items), format)
    expect([taken, printed]).toEqual([30_000, 30_000])
    expect(most).toBeLessThan(3000)
  })

  it('rejects an unknown column before it reads', async () => {
    await expect(print(of(itemsOf(3)), 'json', {columns: 'nothing'})).rejects.toMatchObject({code: 'list.column'})
    expect(taken).toBe(0)
  })

  it('prints nothing if an error comes before the first output', async () => {
    const failing = async function* (count: number) {
      yield* itemsOf(count)
      throw new Error('out of reach')
    }
    const onBegin = vi.fn()
    await expect(print(failing(10), 'json', {}, onBegin)).rejects.toThrow('out of reach')
    expect(written).toBe('')
    expect(onBegin).not.toHaveBeenCalled()
    await expect(print(failing(5000), 'json', {}, onBegin)).rejects.toThrow('out of reach')
    expect(onBegin).toHaveBeenCalledOnce()
    expect(written).toContain('item-4999')
    expect(() => JSON.parse(written)).toThrow()
  })
})
