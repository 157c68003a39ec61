import {decodeUsage} from '../../../src/lib/schema/usage-record.js'
import {RESOURCE} from '../scenario.js'
import {bucketId, type TableWrite, withoutCounted} from '../world/table-writes.js'
import type {World} from '../world/world.js'
import {Answers} from './answers.js'
import {Books} from './books.js'
import {Costs} from './costs.js'
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
  readonly costs: Costs
  /** When each bucket was last consumed from, or changed by anyone but a limiter. */
  readonly activity = new Map<string, Consumption[]>()
  /** Buckets that were deleted together with their usage. */
  readonly removed = new Set<string>()
  /** Buckets whose limits were bypassed at some time. */
  readonly #bypassed = new Set<string>()
  readonly #refills: Refills
  readonly #world: World

  constructor(world: World) {
    this.#world = world
    this.verdicts = new Verdicts(() => world.time.elapsedMs)
    const {timeline, verdicts} = this
    this.books = new Books(verdicts)
    this.rates = new RateBound(timeline, verdicts, () => world.spreadMs + world.lagMs)
    this.answers = new Answers(timeline, verdicts, (bucket, name) => this.rates.storedCapacity(bucket, name))
    this.usage = new UsageTruth(verdicts)
    this.costs = new Costs(verdicts)
    const generationOf = (process: number) => world.processes[process]?.generation ?? 0
    this.#refills = new Refills(timeline, verdicts, () => world.aheadMs, generationOf)
  }

  observe(write: TableWrite): void {
    const {atMs, writer, shards} = write
    if (this.timeline.observe(write)) {
      this.rates.tick(atMs)
      this.#world.time.after(CACHE_PERIOD_MS + 1, () => this.rates.tick(this.#world.time.nowMs))
    }
    if (writer.kind === 'setup') return
    if (writer.kind === 'reader') this.verdicts.report('L8-wrote', 'a reader', 'something that only looks has written')
    for (const {bucket, before, after} of shards) {
      const isConsumption = [...(after?.limits ?? [])].some(
        ([name, limit]) => limit.consumed > (before?.limits.get(name)?.consumed ?? 0n),
      )
      if (!isConsumption && (writer.kind === 'limiter' || writer.kind === 'aggregator')) continue
      const known = this.activity.get(bucket)
      if (known) known.push({atMs, process: writer.process})
      else this.activity.set(bucket, [{atMs, process: writer.process}])
    }
    for (const {bucket, before, after} of shards)
      if (before?.bypass !== undefined || after?.bypass !== undefined) this.#bypassed.add(bucket)
    const taken = shards.map(change => withoutCounted(change, this.#bypassed.has(change.bucket)))
    this.rates.observe({...write, shards: taken})
    this.#refills.observe({...write, shards: taken})
    this.books.observe(write)
    this.costs.observe(write, this.#world.time.nowMs - this.#world.time.elapsedMs)
    this.usage.observe(write)
    if (writer.kind === 'operator') this.#afterOperator(write)
  }

  #afterOperator({writer, shards, changes}: TableWrite): void {
    const isGone = writer.deed === 'delete-entity' || writer.deed === 'purge'
    // The bucket itself may have expired before.
    for (const {before, after} of isGone ? changes : []) {
      const usage = before && !after && decodeUsage(before)
      if (usage) this.removed.add(bucketId(usage.namespace, usage.entity, usage.resource))
    }
    for (const {bucket} of shards) {
      if (isGone) this.removed.add(bucket)
      if (isGone || writer.deed === 'reset') this.rates.refillWhole(bucket)
    }
  }
}
