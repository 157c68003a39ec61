import {shownText} from '../../core/text/printable.js'
import {formatCount, formatPercent} from '../../core/text/text.js'
import {cutText, padText, textWidth} from '../../core/text/text-width.js'
import {wrapped} from '../../core/text/wrap.js'
import {paint} from './lines.js'
import {
  type Cell,
  cellText,
  GAP,
  isEmpty,
  layOutTable,
  type PlacedColumn,
  type TableLayout,
  type TextColumn,
} from './table-layout.js'

/** `share`: 1 is 100 %. */
export function percentCell(share: number | null | undefined): Cell {
  return share === null || share === undefined ? undefined : formatPercent(share)
}

export interface TextTableOptions {
  readonly header: boolean
  /** Columns per line; `undefined`: unlimited, as in a pipe. */
  readonly width: number | undefined
  /** How to see dropped columns. Default: --output json. */
  readonly elsewhere?: string
  readonly isTerminal?: boolean
}

/** cli-table3's time grows faster than linearly: seconds for 5,000 rows. */
const MOST_DRAWN_ROWS = 1000

export async function textTable(
  columns: readonly TextColumn[],
  rows: readonly (readonly Cell[])[],
  options: TextTableOptions,
): Promise<Iterable<string>> {
  const {header, isTerminal = process.stdout.isTTY, width, elsewhere = '--output json'} = options
  const layout = layOutTable(columns, rows, options)
  if (!isTerminal) return plainLines(layout, rows, header)
  const footer = footerLines(layout, elsewhere, width)
  if (rows.length > MOST_DRAWN_ROWS || layout.stackedIn !== undefined)
    return chained(plainLines(layout, rows, header), footer)
  const {drawnLines} = await import('./terminal-table.js')
  return [...drawnLines(layout, rows, header), ...footer]
}

/** The first rows set the widths. Wider cells in later rows are cut if `width` is given, else they shift their line. */
export async function* longTable(
  columns: readonly TextColumn[],
  first: readonly (readonly Cell[])[],
  rest: AsyncIterable<readonly (readonly Cell[])[]>,
  options: TextTableOptions,
): AsyncGenerator<string, void> {
  const {header, isTerminal = process.stdout.isTTY, width, elsewhere = '--output json'} = options
  const layout = layOutTable(columns, first, options)
  yield* plainLines(layout, first, header)
  const later = width === undefined ? {...layout, columns: layout.columns.map(withoutCut)} : layout
  for await (const rows of rest) yield* plainLines(later, rows, false)
  if (isTerminal) yield* footerLines(layout, elsewhere, width)
}

const withoutCut = (column: PlacedColumn): PlacedColumn => ({...column, isCut: false})

export function plainTable(
  columns: readonly TextColumn[],
  rows: readonly (readonly Cell[])[],
  {header}: {readonly header: boolean},
): string[] {
  return [...plainLines(layOutTable(columns, rows, {header, width: undefined}), rows, header)]
}

/** Lazy, so that long tables are never in memory as a whole. */
function* plainLines(
  {columns, stackedIn}: TableLayout,
  rows: readonly (readonly Cell[])[],
  header: boolean,
): Generator<string, void> {
  if (stackedIn !== undefined) {
    for (const row of rows) yield* stackedLines(columns, row, stackedIn)
    return
  }
  const lineOf = (texts: readonly string[]) =>
    columns
      .map(({width, isRight, isCut = true}, position) => {
        const text = texts[position] ?? ''
        return padText(isCut ? cutText(text, width) : text, width, isRight ? 'right' : 'left')
      })
      .join(GAP)
      .trimEnd()
  if (header) yield paint('dim', lineOf(columns.map(column => column.header)))
  for (const row of rows) yield lineOf(columns.map(({at}) => cellText(row[at])))
}

/** The names of a row, then its figures with their headers: key figures first. */
function stackedLines(columns: readonly PlacedColumn[], row: readonly Cell[], width: number): string[] {
  const isName = ({fit, isRight}: PlacedColumn, position: number) => position === 0 || (fit === 'key' && !isRight)
  const others = columns.filter((column, position) => !isName(column, position) && column.header !== '')
  const isFirst = ({fit}: PlacedColumn) => fit === 'key' || fit === 'text'
  const figures = [...others.filter(isFirst), ...others.filter(column => !isFirst(column))]
  const names = columns.filter(isName).map(({at}) => cellText(row[at]))
  const inner = width - GAP.length
  const labelled = figures.flatMap(({header, at, fit}) => {
    const text = `${header} ${cellText(row[at])}`
    if (fit !== 'text') return [text]
    return isEmpty(row[at]) ? [] : wrapped(text, inner)
  })
  const [first = '', ...more] = packed(names, width)
  const below = [...more, ...packed(labelled, inner)]
  return [first, ...below.map(line => cutText(GAP + line, width))]
}

function packed(texts: readonly string[], width: number): string[] {
  const lines: string[] = []
  for (const text of texts.map(each => cutText(each, width))) {
    const longer = `${lines.at(-1)}${GAP}${text}`
    if (lines.length > 0 && textWidth(longer) <= width) lines.splice(-1, 1, longer)
    else lines.push(text)
  }
  return lines
}

function footerLines({dropped}: TableLayout, elsewhere: string, width: number | undefined): string[] {
  if (dropped.length === 0) return []
  const line = `Not shown (${elsewhere}): ${dropped.map(({name, header}) => name ?? header).join(', ')}`
  const lines = width === undefined ? [line] : wrapped(line, width).map(each => cutText(each, width))
  return lines.map(each => paint('dim', each))
}

function* chained<T>(...parts: readonly Iterable<T>[]): Generator<T, void> {
  for (const part of parts) yield* part
}

/** Facts with the value `undefined` are omitted. */
export type Facts = Readonly<Record<string, string | undefined>>

export function factLines(title: string, facts: Facts): string[] {
  const rows = Object.entries(facts).filter((row): row is [string, string] => row[1] !== undefined)
  const names = rows.map(([name]) => shownText(name))
  const width = Math.max(0, ...names.map(textWidth))
  const label = (name = '') => paint('dim', name) + ' '.repeat(width - textWidth(name))
  return [title, ...rows.map(([, value], at) => `  ${label(names[at])}  ${value}`)]
}

/** After a blank line; empty without findings. */
export function findingLines(
  title: string,
  findings: ReadonlyArray<{readonly message: string; readonly fix: string | null}>,
): string[] {
  if (findings.length === 0) return []
  const lines = findings.flatMap(({message, fix}) => [
    `  ${message}`,
    ...(fix === null ? [] : [`    ${paint('dim', 'Try:')} ${fix}`]),
  ])
  return ['', title, ...lines]
}

export function updatedText({updated, failed}: {readonly updated: number; readonly failed: number}): string {
  const missed = failed === 0 ? '' : `, ${formatCount(failed)} failed; run the command again`
  return `${formatCount(updated)} updated${missed}`
}

export type NextCommand = readonly [command: string, purpose: string]

export function nextLines(commands: readonly NextCommand[]): string[] {
  if (commands.length === 0) return []
  const width = Math.max(...commands.map(([command]) => textWidth(shownText(command))))
  return [
    '',
    'Next:',
    ...commands.map(([command, purpose]) => `  ${padText(shownText(command), width)}  ${paint('dim', purpose)}`),
  ]
}
