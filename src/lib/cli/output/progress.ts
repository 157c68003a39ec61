import type {ZaelError} from '../../core/errors.js'
import {shownText} from '../../core/text/printable.js'
import {formatCount} from '../../core/text/text.js'
import {cutText, textWidth} from '../../core/text/text-width.js'
import {interruptible} from './interrupt.js'

export type ProgressStream = NodeJS.WritableStream & {readonly isTTY?: boolean; readonly columns?: number}

const ERASE_LINE = '\r\u001b[2K'
const WIDEST_BAR = 30
const NARROWEST_BAR = 5

/** Draws on terminals only. */
export class ProgressLine {
  readonly #stream: ProgressStream

  constructor(stream: ProgressStream) {
    this.#stream = stream
  }

  count(title: string, done: number): void {
    this.draw(() => `${title}  ${formatCount(done)}`)
  }

  bar(title: string, done: number, total: number): void {
    this.draw(columns => barText(title, done, total, columns))
  }

  draw(textFor: (columns: number) => string): void {
    if (!this.#stream.isTTY) return
    const columns = this.#stream.columns ?? 80
    // The last column stays free: a full line would wrap.
    this.#stream.write(ERASE_LINE + cutText(shownText(textFor(columns)), columns - 1))
  }

  clear(): void {
    if (this.#stream.isTTY) this.#stream.write(ERASE_LINE)
  }
}

export async function withProgress<T>(
  work: (line: ProgressLine, signal: AbortSignal) => Promise<T>,
  interrupted: () => ZaelError,
  stream: ProgressStream = process.stderr,
): Promise<T> {
  const line = new ProgressLine(stream)
  try {
    return await interruptible(signal => work(line, signal), interrupted)
  } finally {
    line.clear()
  }
}

/** Stays full when `done` exceeds an estimated total. */
export function barText(title: string, done: number, total: number, columns: number): string {
  const share = total > 0 ? Math.min(1, done / total) : 1
  const figures = `${Math.floor(share * 100)}%  ${formatCount(done)} of ${formatCount(Math.max(done, total))}`
  // Two gaps of two columns, two brackets, and a free last column against wrapping.
  const room = columns - textWidth(title) - figures.length - 7
  if (room < NARROWEST_BAR) return cutText(`${title}  ${figures}`, Math.max(0, columns - 1))
  const length = Math.min(WIDEST_BAR, room)
  const filled = Math.floor(share * length)
  return `${title}  [${'#'.repeat(filled)}${'-'.repeat(length - filled)}]  ${figures}`
}
