import {shownText} from '../../core/text/printable.js'
import {formatNumber} from '../../core/text/text.js'
import {textWidth} from '../../core/text/text-width.js'

/** `null`, `undefined` and empty strings are shown as a dash. */
export type Cell = string | number | boolean | null | undefined

export interface TextColumn {
  /** Name in `--columns`; for lists only. */
  readonly name?: string
  readonly header: string
  /** Numbers are right-aligned by default. */
  readonly align?: 'left' | 'right'
  /**
   * In narrow tables, none of these is shortened, except a `key` that is wider than a name. `spare` columns are dropped
   * first, `key` and `text` columns never: if they do not fit beside each other, rows are stacked, and texts wrap.
   */
  readonly fit?: 'whole' | 'spare' | 'key' | 'text'
}

export interface PlacedColumn extends TextColumn {
  readonly at: number
  /** In terminal columns. */
  readonly width: number
  readonly isRight: boolean
  /** Cuts longer texts. Default: true. */
  readonly isCut?: boolean
}

export interface TableLayout {
  readonly columns: readonly PlacedColumn[]
  readonly dropped: readonly TextColumn[]
  /** The width of lines when each row takes several, because its key columns do not fit into one. */
  readonly stackedIn?: number
}

export const GAP = '  '
/** Minimum width while spare columns can be dropped. */
const READABLE = 14
/** Minimum width while other columns can be dropped. */
const NARROWEST = 6
/** Minimum width of key columns. */
const NAME = 24

/** To fit `width`: shortens the widest text columns, then drops spare ones, then the rightmost. The first and keys stay. */
export function layOutTable(
  columns: readonly TextColumn[],
  rows: readonly (readonly Cell[])[],
  {header, width}: {readonly header: boolean; readonly width: number | undefined},
): TableLayout {
  const wanted = columns.map((column, at): PlacedColumn => {
    const isRight = column.align === 'right' || (column.align === undefined && isNumeric(rows, at))
    const widest = rows.reduce(
      (most, row) => Math.max(most, textWidth(cellText(row[at]))),
      header ? textWidth(column.header) : 0,
    )
    return {...column, at, isRight, width: widest}
  })
  return width === undefined ? {columns: wanted, dropped: []} : fitted(wanted, width)
}

export const isEmpty = (cell: Cell): boolean => cell === null || cell === undefined || cell === ''

export function cellText(cell: Cell): string {
  if (isEmpty(cell)) return '-'
  if (typeof cell === 'number') return formatNumber(cell)
  return shownText(String(cell))
}

const isNumeric = (rows: readonly (readonly Cell[])[], at: number): boolean =>
  rows.some(row => typeof row[at] === 'number')

function fitted(wanted: readonly PlacedColumn[], width: number): TableLayout {
  const dropped: PlacedColumn[] = []
  let kept = wanted
  for (;;) {
    const spare = kept.findLastIndex(({fit}, position) => fit === 'spare' && position > 0)
    const columns = narrowed(kept, width, spare < 0 ? NARROWEST : READABLE)
    if (totalOf(columns) <= width) return {columns, dropped: inOrder(dropped)}
    const [only] = columns
    if (columns.length === 1 && only) return {columns: [{...only, width}], dropped: inOrder(dropped)}
    const leaving = spare < 0 ? kept.findLastIndex(({fit}, at) => fit !== 'key' && fit !== 'text' && at > 0) : spare
    if (leaving < 0) return stacked(wanted, width)
    dropped.push(...kept.slice(leaving, leaving + 1))
    kept = kept.toSpliced(leaving, 1)
  }
}

function stacked(wanted: readonly PlacedColumn[], stackedIn: number): TableLayout {
  const [dropped, columns] = [true, false].map(isSpare => wanted.filter(({fit}) => (fit === 'spare') === isSpare))
  return {columns: columns ?? [], dropped: dropped ?? [], stackedIn}
}

const inOrder = (columns: readonly PlacedColumn[]): PlacedColumn[] => columns.toSorted((a, b) => a.at - b.at)

function narrowed(columns: readonly PlacedColumn[], width: number, narrowest: number): PlacedColumn[] {
  const widths = columns.map(column => column.width)
  let excess = totalOf(columns) - width
  while (excess > 0) {
    const candidates = columns.map(({isRight, fit}, index) => {
      const own = widths[index] ?? 0
      // The first column names the row: cut short, several rows look the same.
      const isName = index === 0 && columns.length > 1 && own <= READABLE
      const isWhole = fit === 'key' ? own <= NAME : fit !== undefined
      return isRight || isWhole || isName ? 0 : own
    })
    const widest = Math.max(...candidates)
    if (widest <= narrowest) break
    widths[candidates.indexOf(widest)] = widest - 1
    excess -= 1
  }
  return columns.map((column, index) => ({...column, width: widths[index] ?? 0}))
}

const totalOf = (columns: readonly PlacedColumn[]): number =>
  columns.reduce((sum, {width}) => sum + width, 0) + GAP.length * (columns.length - 1)
