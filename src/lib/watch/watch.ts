import type {NamespaceRepository} from '../repository/repository.js'
import type {Table} from '../repository/table/table.js'
import {loadDetail} from './detail.js'
import type {Detail, HealthLine, HealthSource, Knowledge, Reading, Watch, WatchScope} from './model.js'
import {PollRecord} from './poll-record.js'
import {BucketPoller} from './poller.js'
import {NODE_TIMERS, type Timers} from './timers.js'
import {Visit} from './visit.js'

export interface WatchOptions {
  readonly repository: NamespaceRepository
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

/** Tries of one request: a poll that fails comes again soon anyway. */
const POLL_ATTEMPTS = 2

/** A detail costs a few read units, and little of it changes from one poll to the next. */
const DETAIL_INTERVAL_MS = 20_000

/** A watch over the buckets of a scope; nothing is read before `start`, and nothing is ever written. */
export function openWatch(options: WatchOptions): Watch {
  return new RunningWatch(options)
}

class RunningWatch implements Watch {
  readonly #options: WatchOptions
  readonly #timers: Timers
  readonly #poller: BucketPoller
  readonly #record = new PollRecord()
  readonly #listeners = new Set<() => void>()
  readonly #end = new AbortController()
  #knowledge: Knowledge
  #focus: ReadonlySet<string> = new Set()
  #isPolling = false
  /** The poll in flight that nobody else waits for. */
  #underway: Promise<void> | undefined
  #pollTimer: unknown
  #healthVisit: Visit<readonly HealthLine[]> | undefined
  #detailVisit: Visit<Detail> | undefined

  constructor(options: WatchOptions) {
    const {table, repository, scope, intervalMs, timers = NODE_TIMERS} = options
    this.#options = options
    this.#timers = timers
    const backoff = {...table.backoff, attempts: POLL_ATTEMPTS}
    this.#poller = new BucketPoller({...table, namespace: repository.id, backoff}, scope)
    this.#knowledge = {
      scope,
      readings: new Map(),
      known: {count: 0, isComplete: false, unreadable: 0},
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
    this.#healthVisit?.leave()
    this.#detailVisit?.leave()
    await this.#underway
  }

  pollNow(): void {
    if (this.#isPolling || this.#hasEnded) return
    this.#timers.clearTimeout(this.#pollTimer)
    this.#underway = this.#pollAgain()
  }

  setIntervalMs(intervalMs: number): void {
    this.#change({intervalMs})
    // Throttling decides how long to wait while it lasts.
    if (!this.#isPolling && !this.#knowledge.problem?.isThrottled) this.#schedule(intervalMs)
  }

  setPaused(isPaused: boolean): void {
    if (isPaused === this.#knowledge.isPaused) return
    this.#change({isPaused})
    if (isPaused) this.#schedule(undefined)
    else this.pollNow()
  }

  focus(ids: readonly string[]): void {
    this.#focus = new Set(ids)
  }

  look(id: string | undefined): void {
    this.#detailVisit?.leave()
    this.#detailVisit = undefined
    if (id !== this.#knowledge.detail?.id) this.#change({detail: undefined})
    const reading = id === undefined ? undefined : this.#known(id)
    if (!reading || this.#hasEnded) return
    const {repository, table} = this.#options
    const source = {table: {...table, namespace: repository.id}, known: (other: string) => this.#known(other)}
    this.#detailVisit = this.#visit(
      DETAIL_INTERVAL_MS,
      signal => loadDetail(source, this.#known(reading.id) ?? reading, signal),
      detail => this.#change({detail}),
    )
  }

  watchHealth(isWatched: boolean): void {
    if (isWatched === (this.#healthVisit !== undefined) || this.#hasEnded) return
    this.#healthVisit?.leave()
    this.#healthVisit = undefined
    if (!isWatched) return
    this.#healthVisit = this.#visit(
      HEALTH_INTERVAL_MS,
      async signal => (await this.#options.health?.(signal).catch(unknownHealth)) ?? [],
      lines => {
        const own = this.#record.lines(this.#poller.units, this.#knowledge.known.unreadable)
        this.#change({health: [...lines, ...own]})
      },
    )
  }

  #visit<T>(everyMs: number, load: (signal: AbortSignal) => Promise<T>, show: (found: T) => void): Visit<T> {
    const isPaused = () => this.#knowledge.isPaused
    return new Visit({timers: this.#timers, everyMs, load, show, isPaused})
  }

  #known(id: string): Reading | undefined {
    return this.#knowledge.readings.get(id)
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
      const {pauseMs, ...problem} = this.#record.failed(error, nowMs, this.#knowledge.intervalMs)
      const nextTryAtMs = this.#knowledge.isPaused ? undefined : nowMs + pauseMs
      this.#change({problem: {...problem, nextTryAtMs}})
      this.#schedule(pauseMs)
    }
  }

  /** When the next poll comes, and nowhere else: what is told about it follows. `undefined`: none comes by itself. */
  #schedule(delayMs: number | undefined): void {
    this.#timers.clearTimeout(this.#pollTimer)
    const isComing = delayMs !== undefined && !this.#hasEnded && !this.#knowledge.isPaused
    if (isComing) this.#pollTimer = this.#timers.setTimeout(() => this.pollNow(), delayMs)
    const {problem} = this.#knowledge
    const nextTryAtMs = isComing ? this.now() + delayMs : undefined
    if (problem && problem.nextTryAtMs !== nextTryAtMs) this.#change({problem: {...problem, nextTryAtMs}})
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
