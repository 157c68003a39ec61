import type {Amounts} from '../core/bucket.js'
import type {FullnessBounds} from '../core/fullness.js'
import {Throttled} from '../dynamo/errors.js'
import {pause} from '../dynamo/retry.js'
import {fullBucketUpdate} from '../repository/buckets/full-bucket-write.js'
import {sendMarked, type WriteOutcome} from '../repository/buckets/marked-write.js'
import {planBucket, plannedTokens} from '../repository/buckets/plan.js'
import {PressureGauge} from '../repository/buckets/pressure-gauge.js'
import type {BucketUpdate, WriteMark} from '../repository/buckets/writes.js'
import {type BucketAddress, consumeUpdate, markIn, plannedUpdate} from '../repository/buckets/writes.js'
import type {Item} from '../schema/attribute-value.js'
import type {BucketRecord} from '../schema/bucket-record.js'
import type {BucketWriter, Correction} from './bucket-writer.js'
import type {AppliedLimits, LimiterContext} from './context.js'
import {sendCorrections} from './corrections.js'
import {renewedExpiry} from './expiry.js'
import {chooseFitting, requestsOf, total} from './fit.js'
import {
  decideLocally,
  fullnessFor,
  hasFilledUp,
  hasOverflown,
  isBucketExpired,
  isOverfull,
  isTooLarge,
  type KnownBucket,
  knownFrom,
  missingNames,
  storedTokens,
} from './known-bucket.js'
import type {PendingRequest, Verdict} from './pending-request.js'
import {createBucket, type RewriteRules, refillAndConsume, unchangedLimits} from './slow-path.js'

/** Rounds of look, compute and write before a contended batch is refused. */
const MOST_ROUNDS = 12

/** About two round trips: whoever waits longer finds the tokens gone and a longer queue. */
const LONGEST_WAIT_MS = 8

/** From this round on a short random wait keeps competitors from colliding in step. */
const FIRST_WAITING_ROUND = 3

/**
 * All conversation of this process with one bucket item. At most one write is in flight; whoever comes meanwhile shares
 * the next one, in order. A lone request goes out at once.
 */
export class BucketQueue implements BucketWriter {
  readonly #gauge = new PressureGauge()
  #tickets: PendingRequest[] = []
  #corrections: Correction[] = []
  #serving: Promise<void> | undefined
  #known: KnownBucket | undefined
  #slotMark: string | undefined
  #largest = new Map<string, bigint>()
  #limitsCheckedAtMs: number | undefined
  #hasDecided = false
  #source: AppliedLimits['source'] | undefined

  constructor(
    readonly office: LimiterContext,
    readonly address: BucketAddress,
  ) {}

  /** The conversation under way; it may go on after the last answer, to put right what the answers did not wait for. */
  get serving(): Promise<void> | undefined {
    return this.#serving
  }

  /** The last state an answer has shown, for whoever wants to avoid a call. */
  get known(): KnownBucket | undefined {
    return this.#known
  }

  /** What this process's slot for marks showed last. A value from long ago proves less, but never too much. */
  get slotMark(): string | undefined {
    return this.#slotMark
  }

  /** Asks for admission; the ticket's answer comes when it is this request's turn. */
  ask(ticket: PendingRequest): void {
    this.#tickets.push(ticket)
    for (const [name, milli] of ticket.amounts) {
      if (milli > (this.#largest.get(name) ?? 0n)) this.#largest.set(name, milli)
    }
    this.#serve()
  }

  /** Charges (or returns, when negative) without asking; resolves when it is written. */
  correct(deltas: Amounts, requests = 0): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#corrections.push({amounts: deltas, requests, resolve, reject})
      this.#serve()
    })
  }

  /**
   * A refusal that needs no call: even the largest balance consistent with what is known is too small. Tokens that
   * others return are not known, so this holds for a limited time only.
   */
  denial(ticket: PendingRequest): Verdict | undefined {
    const nowMs = this.office.table.clock()
    const known = this.#known
    if (!known?.exists || !this.#isFresh(known, nowMs) || this.#corrections.length > 0) return undefined
    const {record} = known.seen
    this.#leaveOutMissing([ticket], record, nowMs)
    const {amounts} = ticket
    // The usual case first: what is stored is enough.
    if ([...amounts].every(([name, milli]) => (record.state.limits.get(name)?.tokensMilli ?? 0n) >= milli))
      return undefined
    if (missingNames(record, amounts).length > 0 || isTooLarge(record, amounts)) return undefined
    if (this.#isCheckDue(nowMs) || isBucketExpired(record, nowMs)) return undefined
    return decideLocally(record, amounts, nowMs).admitted ? undefined : this.#refusal(amounts, nowMs)
  }

  #serve(): void {
    this.#serving ??= this.#serveAll()
  }

  async #serveAll(): Promise<void> {
    while (this.#corrections.length > 0 || this.#tickets.length > 0) {
      const corrections = this.#corrections
      this.#corrections = []
      if (corrections.length > 0) await sendCorrections(this, corrections)
      const tickets = this.#tickets
      this.#tickets = []
      try {
        await this.#decide(tickets)
      } catch (error) {
        for (const ticket of tickets) if (!ticket.isSettled) ticket.fail(error)
      }
      for (const ticket of tickets) ticket.finish()
      this.#hasDecided ||= tickets.length > 0
    }
    this.#serving = undefined
  }

  async #decide(tickets: readonly PendingRequest[]): Promise<void> {
    for (let round = 0; ; round++) {
      const open = tickets.filter(ticket => !ticket.isSettled && !ticket.isAbandoned)
      if (open.length === 0) return
      if (round >= MOST_ROUNDS && this.#known?.exists) return this.#refuse(open)
      if (round >= 2 * MOST_ROUNDS)
        throw new Throttled('acquire', new Error('the bucket changes faster than it can be read'))
      if (round >= FIRST_WAITING_ROUND)
        await pause(round - FIRST_WAITING_ROUND, {...this.office.table.backoff, baseMs: 2, maxMs: LONGEST_WAIT_MS})
      const known = this.#known
      if (!known) await this.#consume(open)
      else if (!known.exists) await createBucket(this, open, known)
      else {
        const isCertain = round > 0 || this.#isFresh(known, this.office.table.clock())
        await this.#decideByState(open, known, {isCertain, isContended: round >= 2, isExact: round < MOST_ROUNDS / 2})
      }
    }
  }

  /** One step towards a decision for a bucket of which a state is known; only a certain state may refuse. */
  async #decideByState(
    open: PendingRequest[],
    known: KnownBucket & {exists: true},
    rules: RewriteRules,
  ): Promise<void> {
    if (this.#isCheckDue(this.office.table.clock())) {
      const applied = await unchangedLimits(this, known)
      if (applied) this.noteLimitsChecked(applied)
    }
    const nowMs = this.office.table.clock()
    const {record} = known.seen
    if (record.shardCount > this.office.settings.maxShards) {
      await this.office.healShardCount(this.address)
      return this.forget()
    }
    this.#leaveOutMissing(open, record, nowMs)
    const needsLimits =
      this.#isCheckDue(nowMs) ||
      open.some(ticket => missingNames(record, ticket.amounts).length > 0 || isTooLarge(record, ticket.amounts))
    if (!needsLimits && !isBucketExpired(record, nowMs) && !isOverfull(record)) {
      // Under contention a crowd that waits for all of its tokens loses to every smaller one: it takes what is stored.
      const stored = chooseFitting(open, storedTokens(record))
      const isWorthTaking = stored.others.length === 0 || (rules.isContended && stored.fitting.length > 0)
      const mayOverflow = hasFilledUp(record, total(open).keys(), nowMs)
      if (isWorthTaking && (!mayOverflow || rules.isContended)) return this.#consume(stored.fitting, mayOverflow)
      const bounds = mayOverflow ? fullnessFor(known.seen, total(open), nowMs) : []
      if (bounds.length > 0) return this.#consumeFromFull(open, record, bounds, nowMs)
      const {fitting} = chooseFitting(open, plannedTokens(planBucket(known.seen, nowMs)))
      if (fitting.length === 0) {
        if (rules.isCertain) return this.#refuse(open)
        return this.#consume(open)
      }
    }
    await refillAndConsume(this, open, known, rules)
  }

  /** Parents are charged for the limits they have; which these are is known once the configuration was looked at. */
  #leaveOutMissing(tickets: readonly PendingRequest[], record: BucketRecord, nowMs: number): void {
    if (this.#source === undefined || this.#isCheckDue(nowMs)) return
    for (const ticket of tickets) if (ticket.isLenient) ticket.keepOnly(name => record.state.limits.has(name))
  }

  /**
   * The one call without a look: consumes for all of them, or learns why that is impossible. What has overflowed before is
   * taken off afterwards: under contention a full bucket would otherwise refuse those who lose every round.
   */
  async #consume(open: PendingRequest[], mayOverflow = !this.#known?.exists): Promise<void> {
    const {table} = this.office
    const mark = this.office.nextMark()
    const nowMs = table.clock()
    const repairPressure = this.#gauge.needsRepair
    const update = consumeUpdate(table, this.address, total(open), mark, {
      nowMs,
      requests: requestsOf(open),
      repairPressure,
    })
    const outcome = await this.write(update, mark)
    if (!outcome.applied) return
    this.admit(open)
    if (mayOverflow) await this.settleOverflow(total(open))
  }

  /** The one call for a bucket that has filled up, whoever else has used it since it was seen. */
  async #consumeFromFull(
    open: PendingRequest[],
    record: BucketRecord,
    bounds: readonly FullnessBounds[],
    nowMs: number,
  ): Promise<void> {
    const {table, settings} = this.office
    const mark = this.office.nextMark()
    const write = {
      amounts: total(open),
      requests: requestsOf(open),
      nowMs,
      ttlSeconds: renewedExpiry(record, settings.bucketTtlMultiplier, nowMs),
    }
    const outcome = await this.write(fullBucketUpdate(table, record, bounds, write, mark), mark)
    if (outcome.applied) this.admit(open)
  }

  async settleOverflow(taken: Amounts): Promise<void> {
    const known = this.#known
    const {table} = this.office
    const nowMs = table.clock()
    if (!known?.exists || !hasOverflown(known.seen.record, taken, nowMs)) return
    const plan = planBucket(known.seen, nowMs, undefined, taken)
    const mark = this.office.nextMark()
    // Lost to somebody who refills at the same time, or to an outage: the request itself is long decided.
    await this.write(plannedUpdate(table, plan, {amounts: new Map()}, mark), mark).catch(() => {})
  }

  async write(update: BucketUpdate, mark: WriteMark, repetition?: BucketUpdate): Promise<WriteOutcome> {
    const {table, settings} = this.office
    const timeoutMs = settings.writeTimeoutMs
    try {
      const outcome = await sendMarked(table, update, mark, {timeoutMs, ...(repetition ? {repetition} : {})})
      this.#slotMark = markIn(outcome.item, mark.slot)
      this.learn(outcome.item)
      return outcome
    } catch (error) {
      // What was known may no longer hold: the write may have been applied.
      this.#known = undefined
      throw error
    }
  }

  /** Remembers a state that an answer has shown. */
  learn(item: Item | undefined): void {
    const known = knownFrom(item, this.office.table.clock())
    this.#known = known
    if (!known.exists) return
    const {record} = known.seen
    const unitsPerSecond = this.#gauge.observe(record, known.atMs)
    this.office.noticed(this.address, record, {unitsPerSecond, largestRequestMilli: this.#largest})
    if (unitsPerSecond !== undefined) this.#largest = new Map()
  }

  /** Takes over a state that somebody else has read, unless an answer has shown a later one since. */
  learnRecord(record: BucketRecord, sinceMs: number): void {
    if (this.#known && this.#known.atMs > sinceMs) return
    this.#known = {exists: true, atMs: this.office.table.clock(), seen: {record, incomplete: new Map()}}
  }

  forget(mark?: WriteMark): void {
    this.#known = undefined
    if (mark) this.#slotMark = mark.nonce
  }

  noteLimitsChecked(applied: AppliedLimits): void {
    this.#limitsCheckedAtMs = this.office.table.clock()
    this.#source = applied.source
  }

  /** Settles those whose charge has been written; gives back for those who no longer wait. */
  admit(tickets: readonly PendingRequest[]): void {
    const known = this.#known
    if (!known?.exists) throw new Error('a bucket that was charged is not there')
    for (const ticket of tickets) {
      const {amounts, requests} = ticket
      if (ticket.isAbandoned) this.office.refund([{address: this.address, heldMilli: new Map(amounts), requests}])
      else ticket.settle({admitted: true, address: this.address, amounts, requests, record: known.seen.record})
    }
  }

  refuse(tickets: readonly PendingRequest[], nowMs: number, record: BucketRecord): void {
    const source = this.#source
    for (const ticket of tickets) ticket.settle({admitted: false, amounts: ticket.amounts, record, nowMs, source})
  }

  #refuse(tickets: readonly PendingRequest[], nowMs = this.office.table.clock()): void {
    for (const ticket of tickets) ticket.settle(this.#refusal(ticket.amounts, nowMs))
  }

  /**
   * Tokens that came while the decision was on its way belong to whoever asks next: kept for those it left out, a crowd
   * would wait round after round for a share of every trickle.
   */
  refuseMisfits(tickets: readonly PendingRequest[], decidedAtMs: number): void {
    const known = this.#known
    if (!known?.exists) return
    const misfits = tickets.filter(ticket => !decideLocally(known.seen.record, ticket.amounts, decidedAtMs).admitted)
    this.#refuse(misfits, decidedAtMs)
  }

  #refusal(amounts: Amounts, nowMs: number): Verdict {
    const known = this.#known
    if (!known?.exists) throw new Error('a bucket that refused is not there')
    return {admitted: false, amounts, record: known.seen.record, nowMs, source: this.#source}
  }

  #isFresh(known: KnownBucket, nowMs: number): boolean {
    const {denyCacheMs} = this.office.settings
    const ageMs = nowMs - known.atMs
    // A clock that was set back must not keep a refusal alive for longer than its time.
    return denyCacheMs > 0 && ageMs >= 0 && ageMs <= denyCacheMs
  }

  /** A bucket may be new to this process and its limits old: the first decision takes them as they are, the second not. */
  #isCheckDue(nowMs: number): boolean {
    if (this.#limitsCheckedAtMs === undefined) return this.#hasDecided
    const ageMs = nowMs - this.#limitsCheckedAtMs
    return ageMs < 0 || ageMs >= this.office.settings.configCheckMs
  }
}
