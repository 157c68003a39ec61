import {decodeUsage} from '../../../src/lib/schema/usage-record.js'
import {kindedNames, QuotaOracle} from '../quotas/quota-oracle.js'
import {RESOURCE} from '../scenario.js'
import {bucketId, type ShardChange, type StoredShard, type TableWrite, withoutCounted} from '../world/table-writes.js'
import type {World} from '../world/world.js'
import {Answers} from './answers.js'
import {Books} from './books.js'
import {Costs} from './costs.js'
import {Families} from './families.js'
import {Feedback} from './feedback.js'
import {CACHE_PERIOD_MS, LimitsTimeline} from './limits-timeline.js'
import {RateBound} from './rate-bound.js'
import {RateTopUps} from './rate-top-ups.js'
import {Refills} from './refills.js'
import {Refusals} from './refusals.js'
import {ReservedTokens} from './reserved.js'
import {Slots} from './slots.js'
import {SoftLimits} from './soft-limits.js'
import {UsageTruth} from './usage.js'
import {Verdicts} from './verdicts.js'

/** A write that consumed from a bucket, and its writer. */
export interface Consumption {
  readonly atMs: number
  readonly process: number
}

/** All oracles of a run. */
export class Oracles {
  readonly verdicts: Verdicts
  readonly timeline = new LimitsTimeline(RESOURCE)
  readonly books: Books
  readonly rates: RateBound
  readonly answers: Answers
  readonly usage: UsageTruth
  readonly quotas: QuotaOracle
  readonly costs: Costs
  readonly refills: Refills
  readonly refusals: Refusals
  readonly families: Families
  readonly soft: SoftLimits
  readonly topUps: RateTopUps
  readonly feedback: Feedback
  readonly slots: Slots
  readonly reserved: ReservedTokens
  /** When each bucket was last consumed from, or changed by anyone but a limiter. */
  readonly activity = new Map<string, Consumption[]>()
  /** Buckets deleted together with their usage. */
  readonly removed = new Set<string>()
  /** Buckets that were ever bypassed. */
  readonly #bypassed = new Set<string>()
  /** For limits that are always rates. */
  readonly #rateTimeline: LimitsTimeline
  readonly #kinded: ReadonlySet<string>
  /** Only rates and no switches: nothing for the quota oracle to judge. */
  readonly #hasOnlyRates: boolean
  readonly #world: World

  constructor(world: World) {
    this.#world = world
    this.verdicts = new Verdicts(() => world.time.elapsedMs)
    const {timeline, verdicts} = this
    this.#kinded = kindedNames(world.scenario)
    const hasSwitches = world.scenario.steps.some(
      ({event}) => event.kind === 'set-access' || event.kind === 'peer-access',
    )
    this.#hasOnlyRates = this.#kinded.size === 0 && !hasSwitches
    const isRate = (name: string) => !this.#kinded.has(name)
    const rates = new LimitsTimeline(RESOURCE, isRate)
    this.#rateTimeline = rates
    const isSettled = (bucket: string, sinceMs: number) => timeline.since(bucket) <= sinceMs - 2 * CACHE_PERIOD_MS
    this.quotas = new QuotaOracle(world, verdicts, isSettled, (bucket, name) => timeline.configured(bucket, name))
    this.books = new Books(verdicts)
    this.rates = new RateBound(rates, verdicts, () => world.spreadMs + world.lagMs)
    this.answers = new Answers(rates, verdicts, (bucket, name, nowMs) => this.rates.storedCapacity(bucket, name, nowMs))
    this.usage = new UsageTruth(verdicts)
    this.costs = new Costs(verdicts, world.isAllCached)
    this.refusals = new Refusals(verdicts)
    this.families = new Families(world.scenario, verdicts)
    this.soft = new SoftLimits(world.scenario, verdicts)
    this.topUps = new RateTopUps(verdicts)
    this.feedback = new Feedback(verdicts)
    this.slots = new Slots(world, verdicts)
    this.reserved = new ReservedTokens(world, verdicts)
    const generationOf = (process: number) => world.processes[process]?.generation ?? 0
    this.refills = new Refills(rates, verdicts, {
      aheadMs: () => world.aheadMs,
      generationOf,
      isAllCached: world.isAllCached,
    })
  }

  observe(whole: TableWrite): void {
    // Other resources have only in-flight limits.
    const isOther = whole.shards.some(({resource}) => resource !== RESOURCE)
    const write = isOther ? {...whole, shards: whole.shards.filter(({resource}) => resource === RESOURCE)} : whole
    const {atMs, writer, shards} = write
    this.#rateTimeline.observe(write)
    if (this.timeline.observe(write)) {
      this.rates.tick(atMs)
      this.#world.time.after(CACHE_PERIOD_MS + 1, () => this.rates.tick(this.#world.time.nowMs))
    }
    if (!this.#hasOnlyRates) this.quotas.observe(write)
    if (writer.kind === 'setup') return
    this.slots.observe(write)
    this.reserved.observe(write)
    if (writer.kind === 'reader') this.verdicts.report('L8-wrote', 'a reader', 'something that only looks has written')
    const lowered = this.feedback.observe(write)
    for (const {bucket, before, after} of shards) {
      const isConsumption = [...(after?.limits ?? [])].some(
        ([name, limit]) => limit.consumed > (before?.limits.get(name)?.consumed ?? 0n),
      )
      if (!isConsumption && !lowered.includes(bucket) && (writer.kind === 'limiter' || writer.kind === 'aggregator'))
        continue
      const known = this.activity.get(bucket)
      if (known) known.push({atMs, process: writer.process})
      else this.activity.set(bucket, [{atMs, process: writer.process}])
    }
    for (const {bucket, before, after} of shards)
      if (before?.bypass !== undefined || after?.bypass !== undefined) this.#bypassed.add(bucket)
    const taken = shards.map(change => withoutCounted(change, this.#bypassed.has(change.bucket)))
    const rates = {...write, shards: this.#kinded.size === 0 ? taken : taken.map(change => this.#ratesOf(change))}
    const toppedUp = this.topUps.observe(write)
    for (const {bucket, name, milli} of toppedUp) this.rates.credit(bucket, name, milli, atMs)
    const first = shards.filter(change => this.refills.isFirst(change, writer)).map(({bucket}) => bucket)
    this.rates.observe(rates, new Set(first))
    this.refills.observe(rates, new Set(toppedUp.map(({name}) => name)))
    this.books.observe(write)
    this.families.observe(write)
    this.soft.observe(write)
    this.costs.observe(write, this.#world.time.nowMs - this.#world.time.elapsedMs)
    this.usage.observe(write)
    this.refusals.observe(whole)
    if (writer.kind === 'operator') this.#afterOperator(write)
  }

  /** A change reduced to limits that are plain rates. */
  #ratesOf(change: ShardChange): ShardChange {
    const only = (shard: StoredShard | undefined) =>
      shard && {...shard, limits: new Map([...shard.limits].filter(([name]) => !this.#kinded.has(name)))}
    return {...change, before: only(change.before), after: only(change.after)}
  }

  #afterOperator({writer, shards, changes}: TableWrite): void {
    const isGone = writer.event === 'delete-entity' || writer.event === 'purge'
    // The bucket itself may have expired before.
    for (const {before, after} of isGone ? changes : []) {
      const usage = before && !after && decodeUsage(before)
      if (usage) this.removed.add(bucketId(usage.namespace, usage.entity, usage.resource))
    }
    for (const {bucket} of shards) {
      if (isGone) this.removed.add(bucket)
      if (isGone || writer.event === 'reset') this.rates.refillWhole(bucket)
    }
  }
}
