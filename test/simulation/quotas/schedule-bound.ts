import type {Verdicts} from '../oracles/verdicts.js'
import type {Scenario} from '../scenario.js'
import {consumedBy, type TableWrite} from '../world/table-writes.js'
import type {Slack} from './ledger.js'
import {configuredRate, type ScheduledLimit, scheduledLimits} from './scheduled-limits.js'

/** An ideal bucket with the largest capacity and rate that any clock can see. */
interface Ideal {
  /** Millitokens over the refill period. */
  numerator: bigint
  atMs: number
  /** Millitokens charged regardless of the balance. */
  forced: bigint
}

/**
 * S1 of scheduled rates: in every interval, the admitted cost is at most what the capacities and rates in force allow.
 * Around the start and end of a schedule window the larger rate counts, for the span of clock differences and message
 * delays.
 */
export class ScheduleBound {
  readonly #limits: ReadonlyMap<string, ScheduledLimit>
  readonly #verdicts: Verdicts
  readonly #slack: Slack
  readonly #ideals = new Map<string, Ideal>()
  readonly #broken = new Set<string>()

  constructor(scenario: Scenario, verdicts: Verdicts, slack: Slack) {
    this.#limits = scheduledLimits(scenario)
    this.#verdicts = verdicts
    this.#slack = slack
  }

  noteForced(bucket: string, name: string, milli: bigint): void {
    const ideal = this.#ideals.get(`${bucket} ${name}`)
    if (ideal) ideal.forced += milli
  }

  observe({shards, atMs, writer}: TableWrite): void {
    if (this.#limits.size === 0 || writer.kind === 'setup') return
    const net = new Map<string, {name: string; milli: bigint}>()
    for (const change of shards) {
      if (writer.kind === 'python') this.#broken.add(change.bucket)
      // Full again.
      if (writer.event === 'reset' || (writer.kind === 'operator' && !change.after))
        for (const name of this.#limits.keys()) this.#ideals.delete(`${change.bucket} ${name}`)
      for (const [name, milli] of consumedBy(change)) {
        const key = `${change.bucket} ${name}`
        net.set(key, {name, milli: milli + (net.get(key)?.milli ?? 0n)})
      }
    }
    for (const [key, {name, milli}] of net) {
      const limit = this.#limits.get(name)
      if (limit) this.#take(key, limit, milli, atMs)
    }
  }

  #take(key: string, limit: ScheduledLimit, milli: bigint, atMs: number): void {
    const {aheadMs, behindMs, lagMs} = this.#slack
    const [ahead, behind] = [aheadMs(), behindMs() + lagMs()]
    const ideal = this.#ideals.get(key)
    const first = configuredRate(limit, atMs, ahead, behind)
    const period = BigInt(first.refillPeriodMs)
    if (!ideal) {
      const numerator = first.capacityMilli * period + first.refillAmountMilli * BigInt(ahead + behind)
      this.#ideals.set(key, {numerator: numerator - milli * period, atMs, forced: 0n})
      return
    }
    for (let fromMs = ideal.atMs; fromMs < atMs; ) {
      const {untilMs, ...rate} = configuredRate(limit, fromMs, ahead, behind)
      const endMs = Math.min(untilMs, atMs)
      const most = rate.capacityMilli * period + rate.refillAmountMilli * BigInt(ahead + behind)
      ideal.numerator += rate.refillAmountMilli * BigInt(endMs - fromMs)
      if (ideal.numerator > most) ideal.numerator = most
      fromMs = endMs
    }
    ideal.atMs = atMs
    ideal.numerator -= milli * period
    const bucket = key.slice(0, key.lastIndexOf(' '))
    if (milli <= 0n || ideal.numerator >= -ideal.forced * period || this.#broken.has(bucket)) return
    this.#broken.add(bucket)
    const over = Number(-ideal.numerator / period - ideal.forced) / 1000
    this.#verdicts.report('S1-schedule', key, `${over} tokens above what the schedule allows were admitted`)
  }
}
