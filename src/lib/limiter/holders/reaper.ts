import {setMaxListeners} from 'node:events'
import {declareDead, HolderRecords, readHolder, reapSlots} from '../../repository/buckets/holders.js'
import {openReservations, returnReservation} from '../../repository/buckets/reservations.js'
import type {BucketAddress} from '../../repository/buckets/writes.js'
import {endDueRuns} from '../../repository/runs/runs.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import {type SteadyTimers, SYSTEM_TIMERS} from '../../repository/table/timers.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {HOLDER_MARGIN_MS, HOLDER_PERIOD_MS, type HolderRecord} from '../../schema/holder-record.js'

/** Holders that are compared at the same time. Others wait for the end of these comparisons. */
const MOST_WATCHED = 200

/** Dead holders without anything left that are remembered. */
const MOST_EMPTIED = 10_000

/** A holder that has nothing is declared dead after this time, so that it is not compared any more, in ms. */
const IDLE_MS = 3_600_000

/** Without a new beat for this long, a holder is dead, in ms. */
const DEAD_AFTER_MS = HOLDER_PERIOD_MS + HOLDER_MARGIN_MS

/** While quotas refuse requests, all holders are compared at most this often, in ms: each is read twice. */
const LOOK_AROUND_MS = 60_000

/** While requests are refused, a beat is read again after this time, in ms: the holder may die after the first read. */
const REREAD_MS = 5000

type BucketOf = Pick<BucketRecord, 'entity' | 'resource'>

interface Watch {
  /** That have slots of the holder. */
  readonly buckets: Map<string, BucketOf>
  /** A request was refused since the last read. */
  isWanted: boolean
}

interface ReaperOptions {
  readonly table: NamespaceTable
  /** Whether this process is the holder. */
  readonly isOwn: (id: string) => boolean
  /** A shard has more tokens or free slots than it was last seen with. */
  readonly onReturned: (address: BucketAddress) => void
}

/**
 * Returns the slots and reserved tokens of dead holders. Looks at the holders of slots when a request is refused for lack
 * of slots, and at all holders when a quota refuses one, or when this process first reserves tokens.
 */
export class Reaper {
  readonly #options: ReaperOptions
  readonly #timers: SteadyTimers
  readonly #stop = new AbortController()
  /** By holder. */
  readonly #watched = new Map<string, Watch>()
  /** Dead holders that have nothing left. */
  readonly #emptied = new Set<string>()
  #lookedAroundMs = Number.NEGATIVE_INFINITY
  /** Holders to compare once others are done. */
  #waiting: string[] = []

  constructor(options: ReaperOptions) {
    this.#options = options
    this.#timers = options.table.timers ?? SYSTEM_TIMERS
    // Every comparison listens.
    setMaxListeners(0, this.#stop.signal)
  }

  /** Compares the beats of the holders in a bucket until one is dead or no request is refused; never rejects. */
  look({entity, resource, slots}: BucketRecord): void {
    for (const [holder, {held}] of slots?.accounts ?? []) if (held.size > 0) this.#start(holder, {entity, resource})
  }

  /** Compares the beats of all holders of the namespace once, and ends the runs whose time is over; never rejects. */
  lookAround(): void {
    const nowMs = this.#timers.now()
    if (nowMs - this.#lookedAroundMs < LOOK_AROUND_MS || this.#stop.signal.aborted) return
    this.#lookedAroundMs = nowMs
    void endDueRuns(this.#options.table).then(
      addresses => addresses.forEach(this.#options.onReturned),
      () => {},
    )
    if (this.#waiting.length > 0) return
    void new HolderRecords(this.#options.table).ids().then(
      ids => {
        this.#waiting = ids.filter(id => !this.#emptied.has(id))
        this.#startWaiting()
      },
      () => {},
    )
  }

  #startWaiting(): void {
    while (this.#watched.size < MOST_WATCHED) {
      const holder = this.#waiting.pop()
      if (holder === undefined) return
      this.#start(holder)
    }
  }

  #start(holder: string, bucket?: BucketOf): void {
    if (this.#options.isOwn(holder) || this.#stop.signal.aborted) return
    const known = this.#watched.get(holder)
    if (!known && this.#watched.size >= MOST_WATCHED) return
    const watch = known ?? {buckets: new Map(), isWanted: false}
    if (bucket) watch.buckets.set(`${bucket.entity}#${bucket.resource}`, bucket)
    if (known) known.isWanted ||= bucket !== undefined
    else {
      this.#watched.set(holder, watch)
      void this.#watch(holder, watch).catch(() => {})
    }
  }

  close(): void {
    this.#stop.abort()
  }

  async #watch(holder: string, watch: Watch): Promise<void> {
    try {
      if (await this.#isDead(holder, watch)) await this.#returnAll(holder, watch)
    } finally {
      this.#watched.delete(holder)
      this.#startWaiting()
    }
  }

  async #returnAll(holder: string, {buckets}: Watch): Promise<void> {
    const {table, onReturned} = this.#options
    const returnSlots = async (key: string, bucket: BucketOf) => {
      buckets.delete(key)
      const returned = await reapSlots(table, bucket, holder)
      if (returned.size > 0) onReturned({...bucket, shard: 0})
    }
    for (const [key, bucket] of buckets) await returnSlots(key, bucket)
    for (const reservation of await openReservations(table, holder)) {
      const returned = await returnReservation(table, reservation)
      for (const address of returned?.addresses ?? []) onReturned(address)
    }
    if (this.#emptied.size >= MOST_EMPTIED) this.#emptied.clear()
    this.#emptied.add(holder)
    // Of requests that were refused meanwhile.
    for (const [key, bucket] of buckets) await returnSlots(key, bucket)
  }

  /** False if it beats and nobody is refused, or if the limiter is closed first. */
  async #isDead(holder: string, watch: Watch): Promise<boolean> {
    const {table} = this.#options
    let seen = await readHolder(table, holder)
    // On this process's own clock, from the answer on: the clocks of others may be wrong.
    let seenAtMs = this.#timers.now()
    // Planted fault: a holder without a record is dead at once
    while (!seen?.isDead) {
      // Planted fault: a holder is dead after half of its period
      const deadAtMs = seenAtMs + DEAD_AFTER_MS
      const leftMs = deadAtMs - this.#timers.now()
      if (leftMs > 0 && !(await this.#passes(Math.min(leftMs, REREAD_MS)))) return false
      const isOver = this.#timers.now() >= deadAtMs
      const {isWanted} = watch
      if (!isOver && !isWanted) continue
      watch.isWanted = false
      const now: HolderRecord | undefined = await readHolder(table, holder)
      // Planted fault: a holder is dead although it has beaten
      const isSame = now?.beat === seen?.beat && !now?.isDead
      if (isSame && isOver) return (await this.#hasSomething(holder, watch, now)) && declareDead(table, holder, now)
      if (!isSame && !isWanted && !now?.isDead) return false
      // Planted fault: the time of an earlier answer counts for a later one
      if (!isSame) seenAtMs = this.#timers.now()
      seen = now
    }
    return true
  }

  /** A process that holds nothing need not beat. */
  async #hasSomething(holder: string, {buckets}: Watch, record: HolderRecord | undefined): Promise<boolean> {
    const {table} = this.#options
    const isIdleForLong = record?.beatAtMs !== undefined && table.clock() - record.beatAtMs >= IDLE_MS
    if (buckets.size > 0 || isIdleForLong) return true
    return (await openReservations(table, holder)).length > 0
  }

  /** False if the limiter is closed first. */
  #passes(ms: number): Promise<boolean> {
    const {signal} = this.#stop
    return new Promise(resolve => {
      const end = (hasPassed: boolean) => {
        cancel()
        signal.removeEventListener('abort', stop)
        resolve(hasPassed)
      }
      const stop = () => end(false)
      const cancel = this.#timers.after(ms, () => end(true))
      signal.addEventListener('abort', stop)
    })
  }
}
