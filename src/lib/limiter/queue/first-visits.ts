import {Lru} from '../../repository/table/lru.js'

const MOST_RESOURCES = 1000

/** First visits in vain, less the others, from which on buckets are read first; and the most that count. */
const [ENOUGH_IN_VAIN, MOST_IN_VAIN] = [4, 8]

/**
 * Whether a bucket that this process has never seen is read before it is written. A write that only shows that the bucket
 * is missing, or has to be refilled, costs as much as ten eventually consistent reads (decision 37).
 */
export class FirstVisits {
  readonly #inVain: Lru<number>

  constructor(clock: () => number) {
    this.#inVain = new Lru({clock, ttlMs: Number.POSITIVE_INFINITY, maxEntries: MOST_RESOURCES})
  }

  /** Whether the first writes of most buckets of the resource were in vain of late. */
  readFirst(resource: string): boolean {
    return (this.#inVain.get(resource) ?? 0) >= ENOUGH_IN_VAIN
  }

  note(resource: string, isInVain: boolean): void {
    const count = (this.#inVain.get(resource) ?? 0) + (isInVain ? 1 : -1)
    this.#inVain.set(resource, Math.min(Math.max(0, count), MOST_IN_VAIN))
  }
}
