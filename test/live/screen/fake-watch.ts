import type {Reading, Watch, WatchData} from '../../../src/lib/live/model/model.js'
import {READ_AT_MS} from '../support.js'

/** The data of a watch after one poll of some buckets. */
export function watchDataOf(readings: readonly Reading[], rest: Partial<WatchData> = {}): WatchData {
  // The catalogue drops a deleted bucket; only its last reading stays.
  const count = readings.filter(({isGone}) => !isGone).length
  return {
    scope: {kind: 'namespace'},
    readings: new Map(readings.map(reading => [reading.id, reading])),
    known: {count, isComplete: true, unreadable: 0},
    lastPoll: {
      number: 1,
      atMs: READ_AT_MS,
      durationMs: 20,
      readUnits: 12.5,
      calls: 2,
      bucketsRead: count,
    },
    problem: undefined,
    health: undefined,
    detail: undefined,
    why: undefined,
    names: new Map(),
    units: new Map(),
    intervalMs: 2000,
    isPaused: false,
    ...rest,
  }
}

/**
 * A fake that reads nothing: tests set the result of a poll and check the calls of the view. The real watch has its own
 * tests.
 */
export class FakeWatch implements Watch {
  /** Calls of the view, in order. */
  readonly calls: string[] = []
  /** Ids to read with every poll. */
  focused: readonly string[] = []
  readonly #listeners = new Set<() => void>()
  #data: WatchData
  readonly #clock: () => number

  constructor(readings: readonly Reading[], clock: () => number) {
    this.#data = watchDataOf(readings)
    this.#clock = clock
  }

  get listeners(): number {
    return this.#listeners.size
  }

  update(change: Partial<WatchData>): void {
    this.#data = {...this.#data, ...change}
    for (const listener of [...this.#listeners]) listener()
  }

  /** Another poll has ended now. */
  poll(readings: readonly Reading[], readUnits = 12.5): void {
    const {lastPoll, ...rest} = watchDataOf(readings)
    const number = (this.#data.lastPoll?.number ?? 0) + 1
    const facts = lastPoll && {...lastPoll, number, atMs: this.now(), readUnits}
    this.update({readings: rest.readings, known: rest.known, lastPoll: facts, problem: undefined})
  }

  data = (): WatchData => this.#data
  now = (): number => this.#clock()
  start = async (): Promise<void> => {}
  stop = async (): Promise<void> => {}
  pollNow = (): void => void this.calls.push('poll')
  setDetail = (id: string | undefined): void => void this.calls.push(`detail ${id}`)
  setWhy = (id: string | undefined): void => void this.calls.push(`why ${id}`)
  watchHealth = (isWatched: boolean): void => void this.calls.push(`health ${isWatched}`)

  focus(ids: readonly string[]): void {
    this.calls.push(`focus ${ids.length}`)
    this.focused = ids
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  setIntervalMs(intervalMs: number): void {
    this.calls.push(`interval ${intervalMs}`)
    this.update({intervalMs})
  }

  setPaused(isPaused: boolean): void {
    this.calls.push(`paused ${isPaused}`)
    this.update({isPaused})
  }
}
