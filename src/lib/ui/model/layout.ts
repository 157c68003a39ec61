/** Below this nothing useful can be drawn. */
export const SMALLEST = {columns: 40, rows: 8} as const

/** Where the lines of the screen go. */
export interface Heights {
  /** Lines of the list in the middle. */
  readonly body: number
  /** Lines of a text in its place, which has no titles of columns. */
  readonly text: number
  readonly hasColumnTitles: boolean
  readonly hasFilterLine: boolean
}

/** Two lines of header, totals and status are always there. */
const FRAME_LINES = 4

/** Shares out the lines of a screen. */
export function heightsOf(rows: number, hasColumnTitles: boolean, hasFilterLine: boolean): Heights {
  const text = Math.max(0, rows - FRAME_LINES - (hasFilterLine ? 1 : 0))
  return {body: Math.max(0, text - (hasColumnTitles ? 1 : 0)), text, hasColumnTitles, hasFilterLine}
}

/** Whether anything can be drawn. */
export function isTooSmall({columns, rows}: {readonly columns: number; readonly rows: number}): boolean {
  return columns < SMALLEST.columns || rows < SMALLEST.rows
}
