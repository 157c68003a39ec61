import type {Watch, WatchData} from '../model/model.js'
import {countPoll, type ViewStats} from './frame.js'

const SECOND_MS = 1000
/** Ticks wait this long for a poll that is due about now: one frame instead of two. */
const POLL_GRACE_MS = 300

export interface Snapshot {
  readonly data: WatchData
  readonly nowMs: number
}

/** For `useSyncExternalStore`: a new snapshot on every change, and after each second without one. */
export class WatchFeed {
  readonly #watch: Watch
  readonly #listeners = new Set<() => void>()
  #snapshot: Snapshot
  #stats: ViewStats
  #timer: NodeJS.Timeout | undefined
  #unsubscribe = (): void => {}

  constructor(watch: Watch) {
    this.#watch = watch
    this.#snapshot = {data: watch.data(), nowMs: watch.now()}
    const none = {startedAtMs: watch.now(), polls: 0, readUnits: 0, lastPoll: 0}
    this.#stats = countPoll(none, this.#snapshot.data.lastPoll)
  }

  get stats(): ViewStats {
    return this.#stats
  }

  readonly current = (): Snapshot => this.#snapshot

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    if (this.#listeners.size === 1) {
      this.#unsubscribe = this.#watch.subscribe(() => this.#refresh())
      this.#refresh()
    }
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size > 0) return
      this.#unsubscribe()
      clearTimeout(this.#timer)
    }
  }

  #refresh(): void {
    this.#snapshot = {data: this.#watch.data(), nowMs: this.#watch.now()}
    this.#stats = countPoll(this.#stats, this.#snapshot.data.lastPoll)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#refresh(), untilTick(this.#snapshot))
    for (const listener of this.#listeners) listener()
  }
}

function untilTick({data, nowMs}: Snapshot): number {
  const {lastPoll, intervalMs, isPaused} = data
  const untilPoll = lastPoll && !isPaused ? lastPoll.atMs + intervalMs - nowMs : 0
  return Math.abs(untilPoll - SECOND_MS) < POLL_GRACE_MS ? untilPoll + POLL_GRACE_MS : SECOND_MS
}
