import {styleText} from 'node:util'

type Style = Parameters<typeof styleText>[0]

const isTerminal = process.stdout.isTTY === true
const hasColours = isTerminal && !process.env.NO_COLOR && process.env.TERM !== 'dumb'

/** Whether the live view can be shown; its keys need a terminal as stdin. */
export const canView = isTerminal && process.stdin.isTTY === true && process.env.TERM !== 'dumb'

export const paint = (style: Style, text: string): string => (hasColours ? styleText(style, text) : text)

export const say = (text = ''): void => {
  process.stdout.write(`${text}\n`)
}

let chapters = 0

export function chapter(title: string): void {
  say()
  say(paint('bold', `${++chapters}. ${title}`))
}

export const count = (value: number): string => value.toLocaleString('en')

/** Prints rows as a table; the first row is the header. Numeric columns are right-aligned. */
export function table(rows: readonly (readonly string[])[]): void {
  const [header = [], ...body] = rows
  const widths = header.map((_, column) => Math.max(...rows.map(row => row[column]?.length ?? 0)))
  const isNumeric = header.map((_, column) => body.every(row => /^[\d,.]+$/.test(row[column] ?? '')))
  const pad = (cell: string, column: number) =>
    isNumeric[column] ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0)
  const line = (row: readonly string[]) => row.map(pad).join('  ').trimEnd()
  say(`   ${paint('dim', line(header))}`)
  for (const row of body) say(`   ${line(row)}`)
}

/** The ratio of `value` to `most` as a bar of 20 characters. */
export function bar(value: number, most: number): string {
  const filled = most > 0 ? Math.round((20 * Math.min(value, most)) / most) : 0
  return '█'.repeat(filled) + '░'.repeat(20 - filled)
}

/** Shows progress while `work` runs: an updating line on a terminal, nothing elsewhere. */
export async function watching<T>(line: () => string, work: Promise<T>): Promise<T> {
  if (!isTerminal) return work
  const draw = () => process.stdout.write(`\r\u001B[K   ${line()}`)
  const timer = setInterval(draw, 100)
  try {
    return await work
  } finally {
    clearInterval(timer)
    process.stdout.write('\r\u001B[K')
  }
}
