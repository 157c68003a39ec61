import type {Rate} from '../token-math.js'
import {toMilli} from '../token-math.js'
import {type Cron, parseCron} from './cron.js'
import {lastStart, matchesAt, nextStart, nextWhere} from './cron-search.js'
import type {LimitSchedule, LimitWindow} from './schedule.js'
import {MINUTE_MS, type TimeZone, timeZone} from './time-zone.js'

interface OpenWindow {
  readonly window: LimitWindow | undefined
  readonly fromMs: number
  readonly untilMs: number
}

interface ResetsAround {
  readonly lastMs: number | undefined
  readonly nextMs: number | undefined
  readonly fromMs: number
  readonly untilMs: number
}

/** Every write evaluates the schedule, so the last answer is cached with the time in which it holds. */
export class CompiledSchedule {
  readonly #zone: TimeZone
  readonly #windows: readonly {readonly window: LimitWindow; readonly cron: Cron}[]
  readonly #resets: readonly Cron[]
  /** Zones change their rules, so the answer expires after this time. */
  readonly #horizonMs: number
  #open: OpenWindow | undefined
  #around: ResetsAround | undefined

  constructor(schedule: LimitSchedule) {
    this.#zone = timeZone(schedule.zone)
    this.#windows = schedule.windows.map(window => ({window, cron: parseCron(window.cron)}))
    this.#resets = schedule.resets.map(parseCron)
    this.#horizonMs = Math.min(
      ...this.#windows.map(({cron}) => cron.windowHorizonMs),
      ...this.#resets.map(cron => Math.max(cron.windowHorizonMs, cron.cycleMs)),
    )
  }

  /** Shards divide the result, not the configured rate. */
  rateAt(configured: Rate, ms: number): Rate {
    const {window} = this.#openAt(ms)
    return window === undefined ? configured : rateInWindow(configured, window)
  }

  windowAt(ms: number): LimitWindow | undefined {
    return this.#openAt(ms).window
  }

  /** Exclusive: the next window change or reset, or earlier if that is far away. `Infinity` for an empty schedule. */
  validUntil(ms: number): number {
    return Math.min(this.nextWindowChange(ms), this.nextReset(ms) ?? Infinity, ms + this.#horizonMs)
  }

  nextWindowChange(ms: number): number {
    return this.#openAt(ms).untilMs
  }

  lastReset(ms: number): number | undefined {
    return this.#aroundAt(ms).lastMs
  }

  nextReset(ms: number): number | undefined {
    return this.#aroundAt(ms).nextMs
  }

  #openAt(ms: number): OpenWindow {
    const known = this.#open
    if (known !== undefined && ms >= known.fromMs && ms < known.untilMs) return known
    this.#open = this.#findOpen(ms)
    return this.#open
  }

  #findOpen(ms: number): OpenWindow {
    const next = (Math.floor(ms / MINUTE_MS) + 1) * MINUTE_MS
    let untilMs = Infinity
    for (const {window, cron} of this.#windows) {
      const isOpen = matchesAt(cron, this.#zone, ms)
      untilMs = Math.min(untilMs, nextWhere(cron, this.#zone, !isOpen, next) ?? Infinity)
      // Windows after an open one do not matter until it closes.
      if (isOpen) return {window, fromMs: ms, untilMs}
    }
    return {window: undefined, fromMs: ms, untilMs}
  }

  #aroundAt(ms: number): ResetsAround {
    const known = this.#around
    if (known !== undefined && ms >= known.fromMs && ms < known.untilMs) return known
    const last = this.#resets.map(cron => lastStart(cron, this.#zone, ms) ?? -Infinity)
    const next = this.#resets.map(cron => nextStart(cron, this.#zone, ms) ?? Infinity)
    const fromMs = Math.max(...last)
    const untilMs = Math.min(...next)
    this.#around = {
      lastMs: fromMs === -Infinity ? undefined : fromMs,
      nextMs: untilMs === Infinity ? undefined : untilMs,
      fromMs,
      untilMs,
    }
    return this.#around
  }
}

/** Drops fractions of a millitoken, but leaves at least one. Multiplies doubles to match the Python client. */
export function rateInWindow(configured: Rate, window: LimitWindow): Rate {
  const {scalePerMille, capacity, refillAmount, refillPeriodSeconds} = window
  if (scalePerMille !== undefined) {
    const {capacityMilli, refillAmountMilli, refillPeriodMs} = configured
    return {
      capacityMilli: scaled(capacityMilli, scalePerMille),
      refillAmountMilli: refillAmountMilli === 0n ? 0n : scaled(refillAmountMilli, scalePerMille),
      refillPeriodMs,
    }
  }
  return {
    capacityMilli: capacity === undefined ? configured.capacityMilli : toMilli(capacity),
    refillAmountMilli: refillAmount === undefined ? configured.refillAmountMilli : toMilli(refillAmount),
    refillPeriodMs: refillPeriodSeconds === undefined ? configured.refillPeriodMs : refillPeriodSeconds * 1000,
  }
}

function scaled(milli: bigint, scalePerMille: number): bigint {
  const product = BigInt(Math.trunc(Number(milli) * (scalePerMille / 1000)))
  return product < 1n ? 1n : product
}
