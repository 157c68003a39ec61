import type {NamespaceRepository} from '../repository/repository.js'
import type {Table} from '../repository/table.js'
import {loadDetail} from './detail.js'
import type {HealthSource, Knowledge, Watch, WatchScope} from './model.js'
import {PollRecord} from './poll-record.js'
import {Poller} from './poller.js'

/** Ways to wait; those of Node unless a test has its own. */
export interface Timers {
  setTimeout(callback: () => void, ms: number): unknown
  clearTimeout(timer: unknown): void
}

export interface WatchOptions {
  readonly space: NamespaceRepository
  readonly table: Table
  readonly scope: WatchScope
  /** Ms between the end of a poll and the next one. */
  readonly intervalMs: number
  /** Absent: there is nothing to tell besides how the polls go. */
  readonly health?: HealthSource | undefined
  readonly timers?: Timers
}

/** Health is asked of half a dozen services, some of which are billed by the question. */
const HEALTH_INTERVAL_MS = 15_000

const NODE_TIMERS: Timers = {
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: timer => clearTimeout(timer as NodeJS.Timeout),
}

/** A watch over the buckets of a scope; nothing is read before `start`, and nothing is ever written. */
export function openWatch(options: WatchOptions): Watch {
  return new RunningWatch(options)
}

class RunningWatch implements Watch {
  readonly #options: WatchOptions
  readonly #timers: Timers
  readonly #poller: Poller
  readonly #record = new PollRecord()
  readonly #listeners = new Set<() => void>()
  readonly #end = new AbortController()
  readonly #underway = new Set<Promise<void>>()
  #knowledge: Knowledge
  #focus: ReadonlySet<string> = new Set()
  #isPolling = false
  #pollTimer: unknown
  #healthTimer: unknown
  #isHealthWatched = false
  /** Stops the detail that is being loaded. */
  #looking: AbortController | undefined

  constructor(options: WatchOptions) {
    const {table, space, scope, intervalMs, timers = NODE_TIMERS} = options
    this.#options = options
    this.#timers = timers
    this.#poller = new Poller({...table, namespace: space.id}, scope)
    this.#knowledge = {
      scope,
      readings: new Map(),
      known: {count: 0, isComplete: false},
      lastPoll: undefined,
      problem: undefined,
      health: undefined,
      detail: undefined,
      intervalMs,
      isPaused: false,
    }
  }

  knowledge(): Knowledge {
    return this.#knowledge
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  now(): number {
    return this.#options.table.clock()
  }

  async start(): Promise<void> {
    await this.#poll()
    this.#schedule(this.#knowledge.intervalMs)
  }

  async stop(): Promise<void> {
    this.#end.abort()
    this.#timers.clearTimeout(this.#pollTimer)
    this.#timers.clearTimeout(this.#healthTimer)
    this.#looking?.abort()
    await Promise.all(this.#underway)
  }

  pollNow(): void {
    if (this.#isPolling || this.#hasEnded) return
    this.#timers.clearTimeout(this.#pollTimer)
    this.#run(() => this.#pollAgain())
  }

  setIntervalMs(intervalMs: number): void {
    this.#change({intervalMs})
    // Throttling decides how long to wait while it lasts.
    if (!this.#isPolling && !this.#knowledge.problem?.isThrottled) this.#schedule(intervalMs)
  }

  setPaused(isPaused: boolean): void {
    if (isPaused === this.#knowledge.isPaused) return
    this.#change({isPaused})
    if (isPaused) this.#timers.clearTimeout(this.#pollTimer)
    else this.pollNow()
  }

  focus(ids: readonly string[]): void {
    this.#focus = new Set(ids)
  }

  look(id: string | undefined): void {
    this.#looking?.abort()
    this.#looking = undefined
    if (id !== this.#knowledge.detail?.id) this.#change({detail: undefined})
    const reading = id === undefined ? undefined : this.#knowledge.readings.get(id)
    if (!reading || this.#hasEnded) return
    const looking = new AbortController()
    this.#looking = looking
    const known = (other: string) => this.#knowledge.readings.get(other)
    this.#run(async () => {
      const detail = await loadDetail({...this.#options, known}, reading, looking.signal)
      if (!looking.signal.aborted) this.#change({detail})
    })
  }

  watchHealth(isWatched: boolean): void {
    if (isWatched === this.#isHealthWatched) return
    this.#isHealthWatched = isWatched
    this.#timers.clearTimeout(this.#healthTimer)
    if (isWatched) this.#run(() => this.#askHealth())
  }

  get #hasEnded(): boolean {
    return this.#end.signal.aborted
  }

  async #poll(): Promise<void> {
    this.#isPolling = true
    try {
      const result = await this.#poller.poll(this.#focus, this.#end.signal)
      this.#record.succeeded()
      this.#change({...result, problem: undefined})
    } finally {
      this.#isPolling = false
    }
  }

  async #pollAgain(): Promise<void> {
    try {
      await this.#poll()
      this.#schedule(this.#knowledge.intervalMs)
    } catch (error) {
      if (this.#hasEnded) return
      const nowMs = this.now()
      const problem = this.#record.failed(error, nowMs, this.#knowledge.intervalMs)
      this.#change({problem})
      this.#schedule(problem.nextTryAtMs - nowMs)
    }
  }

  #schedule(delayMs: number): void {
    this.#timers.clearTimeout(this.#pollTimer)
    if (this.#hasEnded || this.#knowledge.isPaused) return
    this.#pollTimer = this.#timers.setTimeout(() => this.pollNow(), delayMs)
  }

  async #askHealth(): Promise<void> {
    const lines = (await this.#options.health?.(this.#end.signal).catch(unknownHealth)) ?? []
    if (!this.#isHealthWatched || this.#hasEnded) return
    this.#change({health: [...lines, this.#record.line(this.#poller.units)]})
    this.#healthTimer = this.#timers.setTimeout(() => this.#run(() => this.#askHealth()), HEALTH_INTERVAL_MS)
  }

  /** Work that nobody waits for but `stop`. What it cannot do is told in what is known, or was given up by `stop`. */
  #run(work: () => Promise<void>): void {
    const running: Promise<void> = work()
      .catch(error => {
        if (!(this.#hasEnded || isAbort(error))) throw error
      })
      .finally(() => this.#underway.delete(running))
    this.#underway.add(running)
  }

  #change(change: Partial<Knowledge>): void {
    if (this.#hasEnded) return
    this.#knowledge = {...this.#knowledge, ...change}
    for (const listener of [...this.#listeners]) listener()
  }
}

const unknownHealth = (error: unknown) => [
  {name: 'health', state: 'unknown' as const, text: error instanceof Error ? error.message : String(error)},
]

const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError'
