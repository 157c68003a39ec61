import {boolean, integer, string} from '@oclif/core/flags'
import {InvalidInput} from '../../core/errors.js'
import {didYouMean, nearestNames} from '../../core/text/nearest.js'
import {shownText} from '../../core/text/printable.js'
import {fittedLines} from './lines.js'
import type {Cell, TextColumn} from './table-layout.js'
import {longTable, type TextTableOptions, textTable} from './text-table.js'

const helpGroup = 'LIST'

export const listFlags = {
  columns: string({
    description: 'Show these columns, separated by commas.',
    helpValue: 'A,B',
    helpGroup,
  }),
  sort: string({
    description: 'Sort by this column. -COLUMN sorts in descending order.',
    helpValue: 'COLUMN',
    helpGroup,
  }),
  'no-header': boolean({description: 'Omit the header line.', helpGroup}),
}

export const pageFlags = {
  limit: integer({
    description: 'Maximum number of rows to show.',
    default: 50,
    helpValue: 'N',
    min: 1,
    max: 10_000,
    helpGroup,
  }),
  all: boolean({description: 'Show all rows.', exclusive: ['limit', 'cursor'], helpGroup}),
  cursor: string({description: 'Continue where an earlier call ended.', helpValue: 'NEXT', helpGroup}),
}

export interface ListFlagValues {
  readonly columns?: string | undefined
  readonly sort?: string | undefined
  readonly 'no-header': boolean
}

export interface ListingColumn<Row> extends Omit<TextColumn, 'header' | 'name'> {
  readonly name: string
  /** Default: the name in capitals. */
  readonly header?: string
  readonly value: (row: Row) => Cell
  /** For sorting and CSV. Default: `value`. */
  readonly raw?: (row: Row) => Cell
  /** Shown only when named in `--columns`. */
  readonly isExtra?: boolean
}

type CellKey<Row> = {[Key in keyof Row]-?: Row[Key] extends Cell ? Key : never}[keyof Row] & string

/** Columns that show properties, each with the name of its property: `refused-tokens` for `refusedTokens`. */
export const fieldColumns = <Row>(...keys: readonly CellKey<Row>[]): ListingColumn<Row>[] =>
  keys.map(key => ({
    name: key.replaceAll(/[A-Z]/g, letter => `-${letter.toLowerCase()}`),
    value: row => row[key] as Cell,
  }))

export interface Listing<Row> {
  readonly rows: readonly Row[]
  readonly columns: readonly ListingColumn<Row>[]
  readonly empty: string
  /** How to see dropped columns, for a command without `--columns`. */
  readonly elsewhere?: string
}

export async function listingLines<Row>(
  {rows, columns, empty, elsewhere}: Listing<Row>,
  flags: ListFlagValues,
  width: number | undefined,
): Promise<Iterable<string>> {
  const chosen = chooseColumns(columns, flags.columns)
  const sorted = sortRows(rows, columns, flags.sort)
  if (rows.length === 0) return fittedLines(empty, process.stdout)
  return textTable(textColumns(chosen, flags), cellsOf(chosen, sorted), tableOptions(flags, width, elsewhere))
}

/** The first rows, in `rows`, determine the widths. */
export function longListing<Row>(
  {rows, columns, elsewhere}: Listing<Row>,
  rest: AsyncIterable<readonly Row[]>,
  flags: ListFlagValues,
  width: number | undefined,
): AsyncGenerator<string, void> {
  const chosen = chooseColumns(columns, flags.columns)
  const more = (async function* () {
    for await (const some of rest) yield cellsOf(chosen, some)
  })()
  return longTable(textColumns(chosen, flags), cellsOf(chosen, rows), more, tableOptions(flags, width, elsewhere))
}

function textColumns<Row>(chosen: readonly ListingColumn<Row>[], flags: ListFlagValues): TextColumn[] {
  const isAsked = flags.columns !== undefined
  const sorted = flags.sort?.replace(/^-/, '')
  return chosen.map(({name, header = name.toUpperCase(), align, fit: own}) => {
    const fit = name === sorted ? 'key' : isAsked && own === 'spare' ? undefined : own
    return {name, header, ...(align === undefined ? {} : {align}), ...(fit === undefined ? {} : {fit})}
  })
}

const cellsOf = <Row>(chosen: readonly ListingColumn<Row>[], rows: readonly Row[]): Cell[][] =>
  rows.map(row => chosen.map(column => column.value(row)))

function tableOptions(
  flags: ListFlagValues,
  width: number | undefined,
  elsewhere = flags.columns === undefined ? '--columns or --output json' : '--output csv',
): TextTableOptions {
  return {header: !flags['no-header'], width, elsewhere}
}

/** Plain numbers, no truncation, empty fields for missing values. */
export function* listingCsv<Row>({rows, columns}: Listing<Row>, flags: ListFlagValues): Generator<string, void> {
  const chosen = chooseColumns(columns, flags.columns)
  const sorted = sortRows(rows, columns, flags.sort)
  if (!flags['no-header']) yield chosen.map(column => column.name).join(',')
  yield* sorted.map(csvLine(columns, flags))
}

export function csvLine<Row>(columns: readonly ListingColumn<Row>[], flags: ListFlagValues): (row: Row) => string {
  const chosen = chooseColumns(columns, flags.columns)
  return row => chosen.map(column => csvField(rawOf(column, row))).join(',')
}

function chooseColumns<Row>(
  columns: readonly ListingColumn<Row>[],
  wanted: string | undefined,
): readonly ListingColumn<Row>[] {
  if (wanted === undefined) return columns.filter(({isExtra}) => !isExtra)
  return wanted.split(',').map(name => findColumn(columns, name.trim(), '--columns'))
}

function sortRows<Row>(
  rows: readonly Row[],
  columns: readonly ListingColumn<Row>[],
  by: string | undefined,
): readonly Row[] {
  if (by === undefined) return rows
  const isDescending = by.startsWith('-')
  const column = findColumn(columns, isDescending ? by.slice(1) : by, '--sort')
  return rows.toSorted((a, b) => compare(rawOf(column, a), rawOf(column, b), isDescending ? -1 : 1))
}

function findColumn<Row>(columns: readonly ListingColumn<Row>[], name: string, flag: string): ListingColumn<Row> {
  const found = columns.find(column => column.name === name)
  if (found) return found
  const names = columns.map(column => column.name)
  const suggestion = didYouMean(nearestNames(name, names))
  const columnList = `Use ${names.join(', ')}.`
  throw new InvalidInput('list.column', `${flag}: column "${name}" does not exist`, {
    hint: suggestion ? `${suggestion} ${columnList}` : columnList,
    details: {column: name, columns: names},
  })
}

function rawOf<Row>({value, raw = value}: ListingColumn<Row>, row: Row): Cell {
  return raw(row)
}

/** Missing values come last in either direction. */
function compare(a: Cell, b: Cell, direction: 1 | -1): number {
  const isMissing = (cell: Cell) => cell === null || cell === undefined
  if (isMissing(a) || isMissing(b)) return Number(isMissing(a)) - Number(isMissing(b))
  if (typeof a === 'number' && typeof b === 'number') return direction * (a - b)
  return direction * (String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0)
}

/** Text that spreadsheets treat as a formula, including full-width signs; signed numbers are safe. */
const isFormula = /^[=@＝＋－＠]|^[+-](?!\d+(?:\.\d+)?$)/

/** A leading quote makes spreadsheets show a formula instead of computing it. */
function csvField(cell: Cell): string {
  if (cell === null || cell === undefined) return ''
  const text = shownText(String(cell))
  const inert = typeof cell === 'string' && isFormula.test(text) ? `'${text}` : text
  return /[",]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert
}
