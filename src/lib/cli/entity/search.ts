import {formatCount} from '../../core/text/text.js'
import type {EntityFilter, SearchOptions, SearchProgress} from '../../repository/entities/search.js'
import {ProgressLine, type ProgressStream} from '../output/progress.js'

/** Entities from which on it is said how many a search has read. */
const MANY = 1000

export class SearchReport {
  readonly #line: ProgressLine
  #progress: SearchProgress = {read: 0, found: 0}

  constructor(stream: ProgressStream = process.stderr) {
    this.#line = new ProgressLine(stream)
  }

  readonly options: SearchOptions = {
    onProgress: progress => {
      this.#progress = progress
      const {read, found} = progress
      this.#line.draw(() => `Searching  ${formatCount(read)} entities read, ${formatCount(found)} found`)
    },
  }

  /** The same entities; the line is away whenever one of them may be printed. */
  async *cleared<T>(found: AsyncIterable<T>): AsyncGenerator<T, void> {
    try {
      for await (const each of found) {
        this.#line.clear()
        yield each
      }
    } finally {
      this.#line.clear()
    }
  }

  lines({prefix, text, parent}: EntityFilter): string[] {
    this.#line.clear()
    const {read} = this.#progress
    if (read < MANY || text === undefined || prefix !== undefined || parent !== undefined) return []
    const cost = `${formatCount(read)} entities were read, at half a read unit each.`
    return [`${cost} To read only ids that begin with a text, use --prefix.`]
  }
}
