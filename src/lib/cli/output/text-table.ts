import {stripVTControlCharacters} from 'node:util'
import {colorize} from '@oclif/core/ux'
import {formatNumber, formatPercent} from '../../core/text.js'

/** One cell of a table as people see it; `null` and `undefined` are shown as a dash. */
export type Cell = string | number | boolean | null | undefined

/** A share of one as a cell. */
export function percentCell(share: number | null | undefined): Cell {
  return share === null || share === undefined ? undefined : formatPercent(share)
}

export interface TextColumn {
  readonly header: string
  /** Numbers are aligned to the right anyway. */
  readonly align?: 'left' | 'right'
  /** Where there is no room: `whole` is not shortened, because a part of it says nothing; `spare` is left out. */
  readonly fit?: 'whole' | 'spare'
}

export interface TextTableOptions {
  readonly header: boolean
  /** Characters per line; `undefined`: as wide as it gets, as in a pipe. */
  readonly width: number | undefined
}

const GAP = '  '
/** Text that is shortened further says little; spare columns go first. */
const READABLE = 14
const NARROWEST = 6
const COLOUR_OR_CONTROL = new RegExp(`${'\u001b'}\\[[0-9;]*m|\\p{Cc}`, 'gu')

/** Stored text may hold anything; a line break or a movement of the cursor would spoil the screen. Colours stay. */
export function printableText(text: string): string {
  return text.replace(COLOUR_OR_CONTROL, found => (found.length > 1 ? found : ' '))
}

/**
 * Borderless columns. Where there is a width, the widest columns of text give way, then columns that can be spared; what is
 * too long even so is cut off.
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

/** Takes from the widest column of text, one character at a time, while the line is too long. */
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
  const table = ' '.repeat(width - length)
  return isRight ? table + cell : cell + table
}

function lengthOf(text: string): number {
  return [...stripVTControlCharacters(text)].length
}
