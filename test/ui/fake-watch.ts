import type {Knowledge, Reading, Watch} from '../../src/lib/watch/model.js'
import {READ_AT_MS} from '../watch/support.js'

/** What a watch knows after one poll of some buckets. */
export function knowledgeOf(readings: readonly Reading[], rest: Partial<Knowledge> = {}): Knowledge {
  // The catalogue forgets a bucket that is gone; only its last reading stays.
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
    intervalMs: 2000,
    isPaused: false,
    ...rest,
  }
}

/**
 * A fake: it reads nothing. Tests of behaviour tell it what a poll has found and see what the view asks of it; the watch
 * that polls a real table has tests of its own.
 */
export class FakeWatch implements Watch {
  /** Everything that the view asked for, in order. */
  readonly asked: string[] = []
  /** What is to be read with every poll. */
  focused: readonly string[] = []
  readonly #listeners = new Set<() => void>()
  #knowledge: Knowledge
  readonly #clock: () => number

  constructor(readings: readonly Reading[], clock: () => number) {
    this.#knowledge = knowledgeOf(readings)
    this.#clock = clock
  }

  get listeners(): number {
    return this.#listeners.size
  }

  tell(change: Partial<Knowledge>): void {
    this.#knowledge = {...this.#knowledge, ...change}
    for (const listener of [...this.#listeners]) listener()
  }

  /** Another poll has ended now. */
  poll(readings: readonly Reading[], readUnits = 12.5): void {
    const {lastPoll, ...rest} = knowledgeOf(readings)
    const number = (this.#knowledge.lastPoll?.number ?? 0) + 1
    const facts = lastPoll && {...lastPoll, number, atMs: this.now(), readUnits}
    this.tell({readings: rest.readings, known: rest.known, lastPoll: facts, problem: undefined})
  }

  knowledge = (): Knowledge => this.#knowledge
  now = (): number => this.#clock()
  start = async (): Promise<void> => {}
  stop = async (): Promise<void> => {}
  pollNow = (): void => void this.asked.push('poll')
  look = (id: string | undefined): void => void this.asked.push(`look ${id}`)
  watchHealth = (isWatched: boolean): void => void this.asked.push(`health ${isWatched}`)

  focus(ids: readonly string[]): void {
    this.asked.push(`focus ${ids.length}`)
    this.focused = ids
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  setIntervalMs(intervalMs: number): void {
    this.asked.push(`interval ${intervalMs}`)
    this.tell({intervalMs})
  }

  setPaused(isPaused: boolean): void {
    this.asked.push(`paused ${isPaused}`)
    this.tell({isPaused})
  }
}
