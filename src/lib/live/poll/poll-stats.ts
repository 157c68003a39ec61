import {formatNumber} from '../../core/text/text.js'
import {Throttled} from '../../dynamo/errors.js'
import type {HealthLine, PollProblem} from '../model/model.js'

const MAX_PAUSE_MS = 60_000

export class PollStats {
  #polls = 0
  #failed = 0
  #throttled = 0
  #consecutiveThrottles = 0
  #failingSinceMs: number | undefined

  recordSuccess(): void {
    this.#polls++
    this.#consecutiveThrottles = 0
    this.#failingSinceMs = undefined
  }

  /** Returns the problem, and the pause before the next poll: throttling doubles it each time. */
  recordFailure(
    error: unknown,
    nowMs: number,
    intervalMs: number,
  ): Omit<PollProblem, 'nextTryAtMs'> & {pauseMs: number} {
    this.#polls++
    this.#failed++
    this.#failingSinceMs ??= nowMs
    const isThrottled = error instanceof Throttled
    if (isThrottled) this.#throttled++
    this.#consecutiveThrottles = isThrottled ? this.#consecutiveThrottles + 1 : 0
    const pauseMs = Math.max(intervalMs, Math.min(MAX_PAUSE_MS, intervalMs * 2 ** this.#consecutiveThrottles))
    return {
      message: error instanceof Error ? error.message : String(error),
      isThrottled,
      sinceMs: this.#failingSinceMs,
      pauseMs,
    }
  }

  healthLines(readUnits: number, unreadable: number): HealthLine[] {
    const count = (value: number) => formatNumber(value, 'nearest', 1)
    const parts = [`${count(this.#polls)} done`, `${count(this.#failed)} failed`, `${count(this.#throttled)} throttled`]
    const isFailing = this.#failingSinceMs !== undefined
    const polls: HealthLine = {
      name: 'polls',
      state: isFailing ? 'bad' : this.#failed > 0 ? 'warn' : 'ok',
      text: `${parts.join(', ')}, ${count(readUnits)} read units`,
    }
    if (unreadable === 0) return [polls]
    return [polls, {name: 'buckets', state: 'warn', text: `${count(unreadable)} unreadable: their items have no state`}]
  }
}
