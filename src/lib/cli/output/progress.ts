import {formatCount} from './facts.js'

/** Where progress is drawn. */
export type ProgressStream = NodeJS.WritableStream & {readonly isTTY?: boolean; readonly columns?: number}

/** Shows how far long work has come. */
export interface Progress {
  update(done: number): void
  /** Takes the bar away; what remains to be said is said in words. */
  end(): void
}

const ERASE_LINE = '\u001b[2K'
const WIDEST_BAR = 30
const NARROWEST_BAR = 5

/** One line that is drawn over and over on a terminal; nothing at all without one. */
export function progressBar(what: string, total: number, stream: ProgressStream = process.stderr): Progress {
  if (!stream.isTTY) return {update: () => {}, end: () => {}}
  return {
    update: done => stream.write(`\r${ERASE_LINE}${barLine(what, done, total, stream.columns ?? 80)}`),
    end: () => stream.write(`\r${ERASE_LINE}`),
  }
}

/** The same for work of which nobody knows how much there is: a number that grows. */
export function progressCount(what: string, stream: ProgressStream = process.stderr): Progress {
  if (!stream.isTTY) return {update: () => {}, end: () => {}}
  return {
    update: done =>
      stream.write(`\r${ERASE_LINE}${`${what}  ${formatCount(done)}`.slice(0, (stream.columns ?? 80) - 1)}`),
    end: () => stream.write(`\r${ERASE_LINE}`),
  }
}

/** The bar as it is drawn in a line of that many characters. An estimated total may be passed; the bar is full then. */
export function barLine(what: string, done: number, total: number, columns: number): string {
  const share = total > 0 ? Math.min(1, done / total) : 1
  const figures = `${Math.floor(share * 100)}%  ${formatCount(done)} of ${formatCount(Math.max(done, total))}`
  // Two gaps, two brackets, and the last column stays free: a full line would wrap.
  const room = columns - what.length - figures.length - 7
  if (room < NARROWEST_BAR) return `${what}  ${figures}`.slice(0, Math.max(0, columns - 1))
  const length = Math.min(WIDEST_BAR, room)
  const filled = Math.floor(share * length)
  return `${what}  [${'#'.repeat(filled)}${'-'.repeat(length - filled)}]  ${figures}`
}
