import {indentedJson, jsonInside, jsonText} from './json-text.js'
import {csvLine, type ListFlagValues, type Listing, listingCsv, listingLines, longListing} from './listing.js'
import type {OutputFormat} from './output-format.js'
import {keepHeapSmall} from './small-heap.js'
import {writeDocument, writeLines} from './write-lines.js'

export interface LongList<Item, Row> {
  /** Fields of the result before the one with the items. */
  readonly before?: object
  readonly field: string
  readonly items: AsyncIterable<Item>
  readonly json: (item: Item) => unknown
  /** Some of the items as rows. When more follow, columns that depend on all of them must be there. */
  readonly listing: (items: readonly Item[], isMore: boolean) => Listing<Row>
}

export interface LongListOptions {
  readonly format: OutputFormat
  readonly flags: ListFlagValues
  /** Columns per line; `undefined`: unlimited. */
  readonly width: number | undefined
  /** Fields of the result after the items. */
  readonly after: () => object
  /** Called before anything is printed. */
  readonly onBegin: () => void
}

/** Items by which columns and their widths are chosen; a list that is no longer looks as if it had been read first. */
const FIRST_ITEMS = 1000

const ITEMS_PER_STEP = 100

/** Prints a list while it is read; only `--sort` needs all of it in memory. */
export async function printLongList<Item, Row>(list: LongList<Item, Row>, options: LongListOptions): Promise<void> {
  const {format, flags, width, after, onBegin} = options
  const {before = {}, field, items, json, listing} = list
  keepHeapSmall()
  // Rejects unknown column names before anything is read, also where they do not matter.
  await listingLines(listing([], false), flags, width)
  switch (format) {
    case 'json':
      return writeDocument(longJson({before, field, parts: parts(), after}), onBegin)
    case 'yaml':
      return writeDocument(longYaml({before, field, parts: parts(), after}, (await yamlModule()).yamlText), onBegin)
    case 'jsonl':
      return writeDocument(jsonLines(), onBegin)
    case 'csv':
      return writeLines(csvLines(), onBegin)
    default:
      return writeLines(tableLines(), onBegin)
  }

  async function* parts(): LongDocument['parts'] & AsyncGenerator<unknown[], void> {
    for await (const item of items) yield [json(item)]
  }

  async function* jsonLines(): AsyncGenerator<string, void> {
    for await (const item of items) yield `${jsonText(json(item))}\n`
  }

  async function* csvLines(): AsyncGenerator<string, void> {
    const {first, rest} = await begin(items, flags)
    const {rows, columns, ...shown} = listing(first, rest !== undefined)
    yield* listingCsv({rows, columns, ...shown}, flags)
    for await (const more of rowsOf(rest, listing)) yield* more.map(csvLine(columns, flags))
  }

  async function* tableLines(): AsyncGenerator<string, void> {
    const {first, rest} = await begin(items, flags)
    if (!rest) yield* await listingLines(listing(first, false), flags, width)
    else yield* longListing(listing(first, true), rowsOf(rest, listing), flags, width)
  }
}

const yamlModule = () => import('./yaml-text.js')

async function begin<Item>(
  items: AsyncIterable<Item>,
  {sort}: ListFlagValues,
): Promise<{first: Item[]; rest: AsyncIterable<Item> | undefined}> {
  const most = sort === undefined ? FIRST_ITEMS : Number.POSITIVE_INFINITY
  const source = items[Symbol.asyncIterator]()
  const first: Item[] = []
  for (;;) {
    const next = await source.next()
    if (next.done) return {first, rest: undefined}
    if (first.length === most) return {first, rest: from(next.value, source)}
    first.push(next.value)
  }
}

async function* from<Item>(first: Item, rest: AsyncIterator<Item>): AsyncGenerator<Item, void> {
  yield first
  for (let next = await rest.next(); !next.done; next = await rest.next()) yield next.value
}

async function* rowsOf<Item, Row>(
  items: AsyncIterable<Item> | undefined,
  listing: LongList<Item, Row>['listing'],
): AsyncGenerator<readonly Row[], void> {
  let some: Item[] = []
  for await (const item of items ?? []) {
    some.push(item)
    if (some.length < ITEMS_PER_STEP) continue
    yield listing(some, true).rows
    some = []
  }
  yield listing(some, true).rows
}

/** One field of a document that is too long to be held in memory, and the short fields around it. */
export interface LongDocument {
  readonly before: object
  readonly field: string
  /** The field in parts, none of them empty: lists of elements to concatenate, or objects whose entries to combine. */
  readonly parts: AsyncIterable<readonly unknown[] | Readonly<Record<string, unknown>>>
  /** Whether a field without parts is left out; otherwise it is an empty list. */
  readonly isOptional?: boolean
  /** Read when all parts were written. */
  readonly after: () => object
}

/** A document as JSON, part by part: the same text as of the whole. */
export async function* longJson({before, field, parts, isOptional, after}: LongDocument): AsyncGenerator<string, void> {
  const head = fieldsOf(before)
  let close = ''
  for await (const part of parts) {
    const [open, end] = Array.isArray(part) ? ['[', ']'] : ['{', '}']
    const name = `{\n${head.map(each => `${each},\n`).join('')}  ${jsonText(field)}: ${open}\n`
    yield `${close === '' ? name : ',\n'}${indentedJson(jsonInside(part))}`
    close = `\n  ${end}`
  }
  const tail = fieldsOf(after())
  if (close !== '') {
    yield `${[close, ...tail].join(',\n')}\n}\n`
    return
  }
  const empty = isOptional ? [] : [`  ${jsonText(field)}: []`]
  yield `{\n${[...head, ...empty, ...tail].join(',\n')}\n}\n`
}

/** A document as YAML, part by part; `yaml` makes the text of a whole one. */
export async function* longYaml(
  {before, field, parts, isOptional, after}: LongDocument,
  yaml: (value: object) => string,
): AsyncGenerator<string, void> {
  const head = textUnlessEmpty(before, yaml)
  let isEmpty = true
  for await (const part of parts) {
    const text = yaml({[field]: part})
    // The name of the field stands in a line of its own.
    yield isEmpty ? head + text : text.slice(text.indexOf('\n') + 1)
    isEmpty = false
  }
  if (isEmpty) yield head + (isOptional ? '' : yaml({[field]: []}))
  yield textUnlessEmpty(after(), yaml)
}

const textUnlessEmpty = (fields: object, yaml: (value: object) => string): string =>
  Object.keys(fields).length === 0 ? '' : yaml(fields)

const fieldsOf = (fields: object): string[] =>
  Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : [jsonInside({[name]: value})]))
