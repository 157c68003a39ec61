import {RESOURCE} from '../scenario.js'
import type {TableWrite} from '../world/table-writes.js'
import type {World} from '../world/world.js'
import {Answers} from './answers.js'
import {Books} from './books.js'
import {CACHE_PERIOD_MS, LimitsTimeline} from './limits-timeline.js'
import {RateBound} from './rate-bound.js'
import {Refills} from './refills.js'
import {UsageTruth} from './usage.js'
import {Verdicts} from './verdicts.js'

/** A write that consumed from a bucket, and who made it. */
interface Consumption {
  readonly atMs: number
  readonly process: number
}

/** Everything that judges a run. */
export class Oracles {
  readonly verdicts: Verdicts
  readonly timeline = new LimitsTimeline(RESOURCE)
  readonly books: Books
  readonly rates: RateBound
  readonly answers: Answers
  readonly usage: UsageTruth
  /** When each bucket was last consumed from, or changed by anyone but a limiter. */
  readonly activity = new Map<string, Consumption[]>()
  /** How often each bucket was reset. */
  readonly resets = new Map<string, number>()
  /** Buckets that were deleted together with their usage. */
  readonly removed = new Set<string>()
  readonly #refills: Refills
  readonly #world: World

  constructor(world: World) {
    this.#world = world
    this.verdicts = new Verdicts(() => world.time.elapsedMs)
    const {timeline, verdicts} = this
    this.books = new Books(verdicts)
    this.rates = new RateBound(timeline, verdicts, () => world.spreadMs + world.lagMs)
    this.answers = new Answers(timeline, verdicts)
    this.usage = new UsageTruth(verdicts)
    this.#refills = new Refills(timeline, verdicts, world.scenario.sharedSlots)
  }

  observe(write: TableWrite): void {
    const {atMs, writer, shards} = write
    if (this.timeline.observe(write)) {
      this.rates.tick(atMs)
      this.#world.time.after(CACHE_PERIOD_MS + 1, () => this.rates.tick(this.#world.time.nowMs))
    }
    if (writer.kind === 'setup') return
    for (const {bucket, before, after} of shards) {
      const isConsumption = [...(after?.limits ?? [])].some(
        ([name, limit]) => limit.consumed > (before?.limits.get(name)?.consumed ?? 0n),
      )
      if (!isConsumption && (writer.kind === 'limiter' || writer.kind === 'aggregator')) continue
      const known = this.activity.get(bucket)
      if (known) known.push({atMs, process: writer.process})
      else this.activity.set(bucket, [{atMs, process: writer.process}])
    }
    this.rates.observe(write)
    this.#refills.observe(write)
    this.books.observe(write)
    this.usage.observe(write)
    if (writer.kind === 'operator') this.#afterOperator(write)
  }

  #afterOperator({writer, shards}: TableWrite): void {
    const isGone = writer.deed === 'delete-entity' || writer.deed === 'purge'
    for (const {bucket} of shards) {
      if (isGone) this.removed.add(bucket)
      if (isGone || writer.deed === 'reset') this.rates.refillWhole(bucket)
      if (writer.deed === 'reset') this.resets.set(bucket, (this.resets.get(bucket) ?? 0) + 1)
    }
  }
}
