import {stripVTControlCharacters} from 'node:util'
import {colorize} from '@oclif/core/ux'

/** One cell of a table as people see it; `null` and `undefined` are shown as a dash. */
export type Cell = string | number | boolean | null | undefined

export interface TextColumn {
  readonly header: string
  /** Numbers are aligned to the right anyway. */
  readonly align?: 'left' | 'right'
}

export interface TextTableOptions {
  readonly header: boolean
  /** Characters per line; `undefined`: as wide as it gets, as in a pipe. */
  readonly width: number | undefined
}

const GAP = '  '
const NARROWEST = 6
const COLOUR_OR_CONTROL = new RegExp(`${'\u001b'}\\[[0-9;]*m|\\p{Cc}`, 'gu')

/** Stored text may hold anything; a line break or a movement of the cursor would spoil the screen. Colours stay. */
export function printable(text: string): string {
  return text.replace(COLOUR_OR_CONTROL, found => (found.length > 1 ? found : ' '))
}

/** Borderless columns. Where there is a width, the widest columns of text give way until every line fits. */
export function textTable(
  columns: readonly TextColumn[],
  rows: readonly (readonly Cell[])[],
  {header, width}: TextTableOptions,
): string[] {
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
  const widths = width === undefined ? wanted : narrowed(wanted, isRight, width)
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => pad(cell, widths[column] ?? 0, isRight[column] === true))
      .join(GAP)
      .trimEnd()
  return [...(header ? [colorize('dim', line(headers))] : []), ...texts.map(line)]
}

function textOf(cell: Cell): string {
  if (cell === null || cell === undefined || cell === '') return '-'
  if (typeof cell === 'number') return cell.toLocaleString('en', {maximumFractionDigits: 2})
  return printable(String(cell))
}

/** Takes from the widest column of text, one character at a time, while the line is too long. */
function narrowed(wanted: readonly number[], isRight: readonly boolean[], width: number): number[] {
  const widths = [...wanted]
  const total = () => widths.reduce((sum, each) => sum + each, 0) + GAP.length * (widths.length - 1)
  while (total() > width) {
    const candidates = widths.map((each, column) => (isRight[column] ? 0 : each))
    const widest = Math.max(...candidates)
    if (widest <= NARROWEST) break
    widths[candidates.indexOf(widest)] = widest - 1
  }
  return widths
}

function pad(cell: string, width: number, isRight: boolean): string {
  const length = lengthOf(cell)
  if (length > width) return `${[...stripVTControlCharacters(cell)].slice(0, Math.max(0, width - 1)).join('')}…`
  const space = ' '.repeat(width - length)
  return isRight ? space + cell : cell + space
}

function lengthOf(text: string): number {
  return [...stripVTControlCharacters(text)].length
}
