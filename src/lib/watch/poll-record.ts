import {formatNumber} from '../core/text.js'
import {Throttled} from '../dynamo/errors.js'
import type {HealthLine, PollProblem} from './model.js'

/** The longest pause that throttling leads to. */
const LONGEST_PAUSE_MS = 60_000

/** How the polls of a watch went. */
export class PollRecord {
  #polls = 0
  #failed = 0
  #throttled = 0
  #throttledInARow = 0
  #failingSinceMs: number | undefined

  /** Notes a poll that went well. */
  succeeded(): void {
    this.#polls++
    this.#throttledInARow = 0
    this.#failingSinceMs = undefined
  }

  /** Notes a poll that failed, and says how long to wait: throttling doubles the pause each time. */
  failed(error: unknown, nowMs: number, intervalMs: number): Omit<PollProblem, 'nextTryAtMs'> & {pauseMs: number} {
    this.#polls++
    this.#failed++
    this.#failingSinceMs ??= nowMs
    const isThrottled = error instanceof Throttled
    if (isThrottled) this.#throttled++
    this.#throttledInARow = isThrottled ? this.#throttledInARow + 1 : 0
    const pauseMs = Math.max(intervalMs, Math.min(LONGEST_PAUSE_MS, intervalMs * 2 ** this.#throttledInARow))
    return {
      message: error instanceof Error ? error.message : String(error),
      isThrottled,
      sinceMs: this.#failingSinceMs,
      pauseMs,
    }
  }

  /** The same for the health panel, and what the polls have met. */
  lines(readUnits: number, unreadable: number): HealthLine[] {
    const count = (value: number) => formatNumber(value, 'nearest', 1)
    const parts = [`${count(this.#polls)} done`, `${count(this.#failed)} failed`, `${count(this.#throttled)} throttled`]
    const isFailing = this.#failingSinceMs !== undefined
    const polls: HealthLine = {
      name: 'polls',
      state: isFailing ? 'bad' : this.#failed > 0 ? 'warn' : 'ok',
      text: `${parts.join(', ')}, ${count(readUnits)} read units`,
    }
    if (unreadable === 0) return [polls]
    return [polls, {name: 'buckets', state: 'warn', text: `${count(unreadable)} unreadable: their items hold no state`}]
  }
}
