import {stripVTControlCharacters} from 'node:util'
import {colorize} from '@oclif/core/ux'
import {printableText} from '../../core/printable.js'
import {formatNumber, formatPercent} from '../../core/text.js'

/** One cell of a table; `null`, `undefined` and empty strings are shown as a dash. */
export type Cell = string | number | boolean | null | undefined

/** A share of one as a cell. */
export function percentCell(share: number | null | undefined): Cell {
  return share === null || share === undefined ? undefined : formatPercent(share)
}

export interface TextColumn {
  readonly header: string
  /** Numbers are right-aligned by default. */
  readonly align?: 'left' | 'right'
  /** In narrow tables: `whole` is never shortened; `spare` is left out. */
  readonly fit?: 'whole' | 'spare'
}

export interface TextTableOptions {
  readonly header: boolean
  /** Characters per line; `undefined`: unlimited, as in a pipe. */
  readonly width: number | undefined
}

const GAP = '  '
/** Columns are not shortened below this while there are spare columns to leave out. */
const READABLE = 14
const NARROWEST = 6

/**
 * Borderless columns. To fit a width, the widest text columns are shortened first, then spare columns are left out; lines
 * that are still too long are cut.
 */
export function textTable(
  columns: readonly TextColumn[],
  rows: readonly (readonly Cell[])[],
  options: TextTableOptions,
): string[] {
  const {header, width} = options
  const texts = rows.map(row => row.map(textOf))
  const isRight = columns.map(
    ({align}, column) =>
      align === 'right' || (align === undefined && rows.some(row => typeof row[column] === 'number')),
  )
  const headers = columns.map(column => column.header)
  const wanted = columns.map((_, column) =>
    texts.reduce(
      (widest, row) => Math.max(widest, lengthOf(row[column] ?? '')),
      header ? lengthOf(headers[column] ?? '') : 0,
    ),
  )
  const isFirm = columns.map(({fit}, column) => isRight[column] === true || fit === 'whole')
  const spare = columns.findLastIndex(({fit}) => fit === 'spare')
  const widths =
    width === undefined ? wanted : narrowed(wanted, isFirm, {width, narrowest: spare < 0 ? NARROWEST : READABLE})
  if (width !== undefined && spare >= 0 && totalOf(widths) > width) {
    const rest = <T>(list: readonly T[]) => list.toSpliced(spare, 1)
    return textTable(rest(columns), rows.map(rest), options)
  }
  const line = (cells: readonly string[]) => {
    const text = cells.map((cell, column) => pad(cell, widths[column] ?? 0, isRight[column] === true)).join(GAP)
    return width === undefined ? text.trimEnd() : cut(text.trimEnd(), width)
  }
  return [...(header ? [colorize('dim', line(headers))] : []), ...texts.map(line)]
}

function textOf(cell: Cell): string {
  if (cell === null || cell === undefined || cell === '') return '-'
  if (typeof cell === 'number') return formatNumber(cell)
  return printableText(String(cell))
}

/** Shortens the widest text column by one character at a time until the line fits. */
function narrowed(
  wanted: readonly number[],
  isFirm: readonly boolean[],
  {width, narrowest}: {readonly width: number; readonly narrowest: number},
): number[] {
  const widths = [...wanted]
  while (totalOf(widths) > width) {
    const candidates = widths.map((each, column) => (isFirm[column] ? 0 : each))
    const widest = Math.max(...candidates)
    if (widest <= narrowest) break
    widths[candidates.indexOf(widest)] = widest - 1
  }
  return widths
}

const totalOf = (widths: readonly number[]): number =>
  widths.reduce((sum, each) => sum + each, 0) + GAP.length * (widths.length - 1)

function cut(text: string, width: number): string {
  if (lengthOf(text) <= width) return text
  return `${[...stripVTControlCharacters(text)].slice(0, Math.max(0, width - 1)).join('')}…`
}

function pad(cell: string, width: number, isRight: boolean): string {
  const length = lengthOf(cell)
  if (length > width) return cut(cell, width)
  const padding = ' '.repeat(width - length)
  return isRight ? padding + cell : cell + padding
}

function lengthOf(text: string): number {
  return [...stripVTControlCharacters(text)].length
}
