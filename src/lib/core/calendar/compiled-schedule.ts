import type {Rate} from '../token-math.js'
import {toMilli} from '../token-math.js'
import {type Cron, parseCron} from './cron.js'
import {lastStart, matchesAt, nextStart, nextWhere} from './cron-search.js'
import type {LimitSchedule, LimitWindow} from './schedule.js'
import {MINUTE_MS, type TimeZone, timeZone} from './time-zone.js'

interface Stretch<T> {
  readonly fromMs: number
  readonly untilMs: number
  readonly answer: T
}

export class CompiledSchedule {
  readonly #openAt: (ms: number) => Stretch<LimitWindow | undefined>
  /** From the last reset to the next one. */
  readonly #betweenResets: (ms: number) => Stretch<undefined>

  constructor(schedule: LimitSchedule) {
    const zone = timeZone(schedule.zone)
    const windows = schedule.windows.map(window => ({window, cron: parseCron(window.cron)}))
    const resets = schedule.resets.map(parseCron)
    this.#openAt = remembered(ms => findOpen(windows, zone, ms))
    this.#betweenResets = remembered(ms => ({
      fromMs: Math.max(...resets.map(cron => lastStart(cron, zone, ms) ?? -Infinity)),
      untilMs: Math.min(...resets.map(cron => nextStart(cron, zone, ms) ?? Infinity)),
      answer: undefined,
    }))
  }

  /** Shards divide the result, not the configured rate. */
  rateAt(configured: Rate, ms: number): Rate {
    const window = this.windowAt(ms)
    return window === undefined ? configured : rateInWindow(configured, window)
  }

  windowAt(ms: number): LimitWindow | undefined {
    return this.#openAt(ms).answer
  }

  /** `Infinity` if the windows never change. */
  nextWindowChange(ms: number): number {
    return this.#openAt(ms).untilMs
  }

  lastReset(ms: number): number | undefined {
    return finite(this.#betweenResets(ms).fromMs)
  }

  nextReset(ms: number): number | undefined {
    return finite(this.#betweenResets(ms).untilMs)
  }
}

const finite = (ms: number): number | undefined => (Number.isFinite(ms) ? ms : undefined)

function findOpen(
  windows: readonly {readonly window: LimitWindow; readonly cron: Cron}[],
  zone: TimeZone,
  ms: number,
): Stretch<LimitWindow | undefined> {
  const next = (Math.floor(ms / MINUTE_MS) + 1) * MINUTE_MS
  let untilMs = Infinity
  for (const {window, cron} of windows) {
    const isOpen = matchesAt(cron, zone, ms)
    untilMs = Math.min(untilMs, nextWhere(cron, zone, !isOpen, next) ?? Infinity)
    // Windows after an open one do not matter until it closes.
    if (isOpen) return {fromMs: ms, untilMs, answer: window}
  }
  return {fromMs: ms, untilMs, answer: undefined}
}

/** Drops fractions of a millitoken, but leaves at least one. Multiplies doubles to match the Python client. */
function rateInWindow(configured: Rate, window: LimitWindow): Rate {
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

const MOST_STRETCHES = 32

/** Searching the calendar takes far longer than this lookup. */
function remembered<T>(search: (atMs: number) => Stretch<T>): (atMs: number) => Stretch<T> {
  const known: Stretch<T>[] = []
  return atMs => {
    const at = known.findIndex(({fromMs, untilMs}) => atMs >= fromMs && atMs < untilMs)
    if (at >= 0) return known[at] as Stretch<T>
    const found = search(atMs)
    // Two stretches that end at the same time are the same one, found from different instants.
    const same = known.findIndex(({untilMs}) => untilMs === found.untilMs && untilMs !== Infinity)
    const [before] = same >= 0 ? known.splice(same, 1) : []
    const stretch = {...found, fromMs: Math.min(found.fromMs, before?.fromMs ?? found.fromMs)}
    known.unshift(stretch)
    if (known.length > MOST_STRETCHES) known.pop()
    return stretch
  }
}
