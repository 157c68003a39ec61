import {declareDead, readHolder, reapSlots} from '../../repository/buckets/holders.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {HOLDER_MARGIN_MS, HOLDER_PERIOD_MS} from '../../schema/holder-record.js'

/** Holders that are compared at the same time. More are compared after the next refusals. */
const MOST_WATCHED = 200

type BucketOf = Pick<BucketRecord, 'entity' | 'resource'>

interface ReaperOptions {
  readonly table: NamespaceTable
  /** Whether this process is the holder. */
  readonly isOwn: (id: string) => boolean
  /** A bucket has more free slots than it was last seen with. */
  readonly onReturned: (bucket: BucketOf) => void
}

/** Returns the slots of dead holders. Looks only at buckets that have refused a request for lack of slots. */
export class Reaper {
  readonly #options: ReaperOptions
  readonly #stop = new AbortController()
  /** By holder: its buckets. */
  readonly #watched = new Map<string, Map<string, BucketOf>>()

  constructor(options: ReaperOptions) {
    this.#options = options
  }

  /** Compares the beats of the holders in a bucket now and once more after the period; never rejects. */
  look({entity, resource, slots}: BucketRecord): void {
    for (const [holder, {held}] of slots?.accounts ?? []) {
      if (held.size === 0 || this.#options.isOwn(holder) || this.#stop.signal.aborted) continue
      const buckets = this.#watched.get(holder)
      if (buckets) buckets.set(`${entity}#${resource}`, {entity, resource})
      else if (this.#watched.size < MOST_WATCHED) {
        this.#watched.set(holder, new Map([[`${entity}#${resource}`, {entity, resource}]]))
        void this.#watch(holder)
          .catch(() => {})
          .finally(() => this.#watched.delete(holder))
      }
    }
  }

  close(): void {
    this.#stop.abort()
  }

  async #watch(holder: string): Promise<void> {
    const {table} = this.#options
    const seen = await readHolder(table, holder)
    if (!seen?.isDead) {
      // On this process's own clock: those of others may be wrong.
      // Planted fault: a holder is dead after half of its period
      if (!(await this.#passes(HOLDER_PERIOD_MS + HOLDER_MARGIN_MS))) return
      const now = await readHolder(table, holder)
      // Planted fault: a holder is dead although it has beaten
      if (!now?.isDead && now?.beat !== seen?.beat) return
      if (!now?.isDead && !(await declareDead(table, holder, now))) return
    }
    for (const bucket of this.#watched.get(holder)?.values() ?? []) {
      const returned = await reapSlots(table, bucket, holder)
      if (returned.size > 0) this.#options.onReturned(bucket)
    }
  }

  /** False if the limiter is closed first. */
  #passes(ms: number): Promise<boolean> {
    const {signal} = this.#stop
    return new Promise(resolve => {
      const end = (hasPassed: boolean) => {
        clearTimeout(timer)
        signal.removeEventListener('abort', stop)
        resolve(hasPassed)
      }
      const stop = () => end(false)
      const timer = setTimeout(() => end(true), ms)
      // A process that has nothing else to do may end.
      timer.unref?.()
      signal.addEventListener('abort', stop)
    })
  }
}
