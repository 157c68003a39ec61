import type {NamespaceRepository} from '../../repository/repository.js'
import type {Table} from '../../repository/table/table.js'
import type {HealthSource, Reading, Watch, WatchData, WatchScope, WhySource} from '../model/model.js'
import {loadDetail} from './detail.js'
import {PollStats} from './poll-plan.js'
import {BucketPoller} from './poller.js'

type LoadedPart = 'health' | 'detail' | 'why'

export interface WatchOptions {
  readonly repository: NamespaceRepository
  readonly table: Table
  readonly scope: WatchScope
  readonly intervalMs: number
  readonly health?: HealthSource | undefined
  readonly why?: WhySource | undefined
  readonly timers?: Timers
}

/** Health comes from six services, and some bill each request. */
const HEALTH_INTERVAL_MS = 15_000

/** Per request: a failed poll is repeated soon anyway. */
const POLL_ATTEMPTS = 2

/** A detail costs a few read units, and changes little between polls. */
const DETAIL_INTERVAL_MS = 20_000

const WHY_INTERVAL_MS = 5000

export function openWatch(options: WatchOptions): Watch {
  return new RunningWatch(options)
}

class RunningWatch implements Watch {
  readonly #options: WatchOptions
  readonly #timers: Timers
  readonly #poller: BucketPoller
  readonly #stats = new PollStats()
  readonly #listeners = new Set<() => void>()
  readonly #stopped = new AbortController()
  #data: WatchData
  #focus: ReadonlySet<string> = new Set()
  #isPolling = false
  #pending: Promise<void> | undefined
  #pollTimer: unknown
  readonly #loads = new Map<LoadedPart, AbortController>()

  constructor(options: WatchOptions) {
    const {table, repository, scope, intervalMs, timers = NODE_TIMERS} = options
    this.#options = options
    this.#timers = timers
    const backoff = {...table.backoff, attempts: POLL_ATTEMPTS}
    this.#poller = new BucketPoller({...table, namespace: repository.id, backoff}, scope)
    this.#data = {
      scope,
      readings: new Map(),
      known: {count: 0, isComplete: false, unreadable: 0},
      names: new Map(),
      units: new Map(),
      lastPoll: undefined,
      problem: undefined,
      health: undefined,
      detail: undefined,
      why: undefined,
      intervalMs,
      isPaused: false,
    }
  }

  data(): WatchData {
    return this.#data
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
    this.#schedule(this.#data.intervalMs)
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    this.#timers.clearTimeout(this.#pollTimer)
    for (const load of this.#loads.values()) load.abort()
    await this.#pending
  }

  pollNow(): void {
    if (this.#isPolling || this.#isStopped) return
    this.#timers.clearTimeout(this.#pollTimer)
    this.#pending = this.#pollAndSchedule()
  }

  setIntervalMs(intervalMs: number): void {
    this.#change({intervalMs})
    // While throttled, the throttling determines the pause.
    if (!this.#isPolling && !this.#data.problem?.isThrottled) this.#schedule(intervalMs)
  }

  setPaused(isPaused: boolean): void {
    if (isPaused === this.#data.isPaused) return
    this.#change({isPaused})
    if (isPaused) this.#schedule(undefined)
    else this.pollNow()
  }

  focus(ids: readonly string[]): void {
    this.#focus = new Set(ids)
  }

  setDetail(id: string | undefined): void {
    const reading = this.#opened('detail', id)
    if (!reading) return
    const {repository, table} = this.#options
    const source = {table: {...table, namespace: repository.id}, known: (other: string) => this.#reading(other)}
    this.#loadPeriodically('detail', DETAIL_INTERVAL_MS, signal =>
      loadDetail(source, this.#reading(reading.id) ?? reading, signal),
    )
  }

  setWhy(id: string | undefined): void {
    const reading = this.#opened('why', id)
    if (!reading) return
    const {entity, resource} = reading.bucket
    this.#loadPeriodically('why', WHY_INTERVAL_MS, async signal => {
      const lines = (await this.#options.why?.({entity, resource}, signal).catch(problemLines)) ?? []
      return {id: reading.id, loadedAtMs: this.now(), lines}
    })
  }

  watchHealth(isWatched: boolean): void {
    if (isWatched === this.#loads.has('health') || this.#isStopped) return
    this.#stopLoad('health')
    if (!isWatched) return
    this.#loadPeriodically('health', HEALTH_INTERVAL_MS, async signal => {
      const lines = (await this.#options.health?.(signal).catch(unknownHealth)) ?? []
      return [...lines, ...this.#stats.healthLines(this.#poller.cost.read, this.#data.known.unreadable)]
    })
  }

  #opened(part: 'detail' | 'why', id: string | undefined): Reading | undefined {
    this.#stopLoad(part)
    if (id !== this.#data[part]?.id) this.#change({[part]: undefined})
    return id === undefined || this.#isStopped ? undefined : this.#reading(id)
  }

  #stopLoad(part: LoadedPart): void {
    this.#loads.get(part)?.abort()
    this.#loads.delete(part)
  }

  /** Each load has its own signal: late responses to a stopped one are ignored, and nothing waits for them. */
  #loadPeriodically<Part extends LoadedPart>(
    part: Part,
    intervalMs: number,
    load: (signal: AbortSignal) => Promise<WatchData[Part]>,
  ): void {
    const stopped = new AbortController()
    const {signal} = stopped
    let timer: unknown
    this.#loads.set(part, stopped)
    signal.addEventListener('abort', () => this.#timers.clearTimeout(timer))
    const run = async (): Promise<void> => {
      try {
        const loaded = await load(signal)
        if (signal.aborted) return
        this.#change({[part]: loaded})
      } catch (error) {
        // An aborted request may end with any error.
        if (signal.aborted) return
        throw error
      }
      wait()
    }
    const wait = (): void => {
      timer = this.#timers.setTimeout(() => (this.#data.isPaused ? wait() : void run()), intervalMs)
    }
    void run()
  }

  #reading(id: string): Reading | undefined {
    return this.#data.readings.get(id)
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted
  }

  async #poll(): Promise<void> {
    this.#isPolling = true
    try {
      const result = await this.#poller.poll(this.#focus, this.#stopped.signal)
      this.#stats.recordSuccess()
      // Levels matter more than currencies, so a failure is ignored.
      await this.#poller.loadFacts(this.#stopped.signal).catch(() => {})
      this.#change({...result, units: this.#poller.currencies, problem: undefined})
    } finally {
      this.#isPolling = false
    }
  }

  async #pollAndSchedule(): Promise<void> {
    try {
      await this.#poll()
      this.#schedule(this.#data.intervalMs)
    } catch (error) {
      if (this.#isStopped) return
      const nowMs = this.now()
      const {pauseMs, ...problem} = this.#stats.recordFailure(error, nowMs, this.#data.intervalMs)
      const nextTryAtMs = this.#data.isPaused ? undefined : nowMs + pauseMs
      this.#change({problem: {...problem, nextTryAtMs}})
      this.#schedule(pauseMs)
    }
  }

  /** The only place that schedules polls. Keeps `problem.nextTryAtMs` in step. `undefined`: no automatic poll. */
  #schedule(delayMs: number | undefined): void {
    this.#timers.clearTimeout(this.#pollTimer)
    const isScheduled = delayMs !== undefined && !this.#isStopped && !this.#data.isPaused
    if (isScheduled) this.#pollTimer = this.#timers.setTimeout(() => this.pollNow(), delayMs)
    const {problem} = this.#data
    const nextTryAtMs = isScheduled ? this.now() + delayMs : undefined
    if (problem && problem.nextTryAtMs !== nextTryAtMs) this.#change({problem: {...problem, nextTryAtMs}})
  }

  #change(change: Partial<WatchData>): void {
    if (this.#isStopped) return
    this.#data = {...this.#data, ...change}
    for (const listener of [...this.#listeners]) listener()
  }
}

const problemLines = (error: unknown) => [
  `Cannot explain the bucket now: ${error instanceof Error ? error.message : String(error)}`,
]

const unknownHealth = (error: unknown) => [
  {name: 'health', state: 'unknown' as const, text: error instanceof Error ? error.message : String(error)},
]

export interface Timers {
  setTimeout(callback: () => void, ms: number): unknown
  clearTimeout(timer: unknown): void
}

const NODE_TIMERS: Timers = {
  setTimeout: (callback, ms) => setTimeout(callback, ms),
  clearTimeout: timer => clearTimeout(timer as NodeJS.Timeout),
}
