import type {Rate} from '../token-math.js'
import {toMilli} from '../token-math.js'
import {type Cron, parseCron} from './cron.js'
import {lastStart, matchesAt, nextStart, nextWhere} from './cron-search.js'
import type {LimitSchedule, LimitWindow} from './schedule.js'
import {MINUTE_MS, type TimeZone, timeZone} from './time-zone.js'

interface CompiledWindow {
  readonly window: LimitWindow
  readonly cron: Cron
}

/** Which window is open, and the time in which that is known to be so; nothing known about the end is `Infinity`. */
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

/**
 * Evaluates a schedule. It answers by a rule of its own for each minute, read from the wall clock of the zone, and is asked
 * with every write: the last answer is kept with the time in which it stays true.
 */
export class CompiledSchedule {
  readonly #zone: TimeZone
  readonly #windows: readonly CompiledWindow[]
  readonly #resets: readonly Cron[]
  /** After this time an answer is given anew even if nothing is expected to change, since zones change their rules. */
  readonly #reachMs: number
  #open: OpenWindow | undefined
  #around: ResetsAround | undefined

  constructor(schedule: LimitSchedule) {
    this.#zone = timeZone(schedule.zone)
    this.#windows = schedule.windows.map(window => ({window, cron: parseCron(window.cron)}))
    this.#resets = schedule.resets.map(parseCron)
    this.#reachMs = Math.min(
      ...this.#windows.map(({cron}) => cron.windowReachMs),
      ...this.#resets.map(cron => Math.max(cron.windowReachMs, cron.cycleMs)),
    )
  }

  get hasResets(): boolean {
    return this.#resets.length > 0
  }

  /** The limit at an instant, given the one that is configured. Shards divide what this returns, not what it is given. */
  rateAt(configured: Rate, ms: number): Rate {
    const {window} = this.#openAt(ms)
    return window === undefined ? configured : rateInWindow(configured, window)
  }

  windowAt(ms: number): LimitWindow | undefined {
    return this.#openAt(ms).window
  }

  /**
   * Until when an answer given now may be used without asking again, exclusive: the next window or reset, or earlier when
   * that is far away. Writes that do not evaluate the schedule depend on it. `Infinity` for an empty schedule.
   */
  validUntil(ms: number): number {
    return Math.min(this.nextWindowChange(ms), this.nextReset(ms) ?? Infinity, ms + this.#reachMs)
  }

  /** When the next window opens or closes; `Infinity` when that is not known to happen. */
  nextWindowChange(ms: number): number {
    return this.#openAt(ms).untilMs
  }

  /** The last reset up to and with an instant. */
  lastReset(ms: number): number | undefined {
    return this.#aroundAt(ms).lastMs
  }

  /** The first reset after an instant. */
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
      // What comes after an open window does not matter until it closes.
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

/**
 * What a limit is in a window. Scaling cuts off fractions of a millitoken, so that no window permits more than was asked for,
 * and leaves at least one; a limit that does not refill does not start to. It multiplies doubles as the Python client does,
 * because both must come to the same number.
 */
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
