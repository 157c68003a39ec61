import {InvalidInput} from '../../../src/lib/core/errors.js'
import type {Lease} from '../../../src/lib/limiter/lease.js'
import type {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {RateLimitExceeded, RequestTooLarge, ResourceDisabled} from '../../../src/lib/limiter/refusal/errors.js'
import {Claim} from '../oracles/books.js'
import type {Answer} from '../oracles/families.js'
import {type LeaseAction, RESOURCE, type ScenarioEvent, type Tokens} from '../scenario.js'
import {AFTERMATH_MS, DECISION_TIMEOUT_MS, type SimulatedProcess} from '../world/process.js'
import {bucketId} from '../world/table-writes.js'
import {deltasOf, perform} from './lease-action.js'
import type {Stage} from './stage.js'

/** Time after which a refund without faults is applied, in ms. */
const RETURN_MS = 2000

/** How much later than its deadline a decision may come: one policy read plus the travel time of a message. */
const GRACE_MS = 1000

/** Longest time of a settlement, in ms: its queue may first finish earlier writes. */
const LONGEST_ACTION_MS = 60_000

type Acquire = Extract<ScenarioEvent, {kind: 'acquire'}>

/** Tokens that one caller holds of one limit of one bucket. */
interface Held {
  readonly claim: Claim
  /** Incarnation that was charged, as numbered by `Books`; `undefined` if it changed during the charge. */
  readonly incarnation: number | undefined
  /** Quota window that was charged, as numbered by `QuotaLedger`; `undefined` if it changed during the charge. */
  readonly period: number | undefined
}

/** A holding, and the state of its bucket when an action begins. */
interface Before {
  readonly held: Held
  readonly incarnation: number
  readonly period: number
  readonly isThere: boolean
}

/** Plays one request and the caller's later actions, and records the charges. */
export class LeasePlay {
  readonly #stage: Stage
  readonly #process: SimulatedProcess
  readonly #event: Acquire
  readonly #generation: number
  readonly #kills: number
  readonly #limiter: RateLimiter
  /** Buckets that the process has not cached when the request starts. */
  #unknown: string[] = []
  #held: Held[] = []
  /** `consume` ran while the parent changed or differed from the lease's: several parents may be charged. */
  #hasSeveralParents = false
  #endsWork = () => {}
  /** A rollback is in progress, including pending writes. */
  #isEnding = false

  constructor(stage: Stage, process: SimulatedProcess, event: Acquire) {
    this.#stage = stage
    this.#process = process
    this.#event = event
    this.#generation = process.generation
    this.#kills = process.kills
    this.#limiter = process.limiter
  }

  async play(): Promise<void> {
    const {world} = this.#stage
    const lease = await this.#acquire()
    if (!lease) return
    for (const action of this.#event.actions) {
      await world.time.sleep(action.afterMs)
      if (this.#isDead) return
      await this.#act(lease, action)
    }
  }

  get #isDead(): boolean {
    return !this.#process.isAlive || this.#process.kills !== this.#kills
  }

  async #acquire(): Promise<Lease | undefined> {
    const {entity, consume, slots, resources, abortAfterMs} = this.#event
    const {world, oracles} = this.#stage
    const controller = new AbortController()
    if (abortAfterMs !== undefined) world.time.after(abortAfterMs, () => controller.abort(new Error('given up')))
    const request = {
      entity,
      resource: RESOURCE,
      consume: {...consume, ...slots},
      ...(resources && {resources}),
      ...(abortAfterMs === undefined ? {} : {signal: controller.signal}),
      ...(this.#event.reserve && {reserve: true}),
      ...(this.#event.isSoon ? ({settle: 'soon'} as const) : {}),
    }
    const startedMs = world.time.elapsedMs
    const pending = [...this.#claims(entity, consume, false), ...this.#parentClaims(consume)]
    const buckets = this.#bucketsOf(entity)
    this.#unknown = buckets.filter(bucket => !this.#stage.hasDecided(this.#process, bucket))
    const end = this.#begin(`acquire ${entity}`, DECISION_TIMEOUT_MS + GRACE_MS)
    try {
      const lease = await this.#limiter.acquire(request)
      end('admitted')
      world.note(`p${this.#process.number} admitted ${entity} ${JSON.stringify(consume)}`)
      if (!lease.isMetered) return undefined
      this.#endsWork = oracles.slots.admitted(this.#process, this.#event, lease, startedMs)
      const asked = this.#asked(startedMs)
      oracles.families.admitted(asked, lease.parents)
      const charged = [entity, ...lease.parents].map(each => this.#bucket(each))
      const soft = {process: this.#process.number, buckets: charged, startedMs: asked.startedMs}
      if (this.#isClean(startedMs, startedMs)) oracles.soft.admitted(soft, lease.overdrawn)
      for (const bucket of buckets) this.#noteDecided(bucket)
      this.#adopt(lease, pending, startedMs)
      return lease
    } catch (error) {
      end(error instanceof RateLimitExceeded ? 'refused' : undefined)
      oracles.slots.refused(this.#process, error, startedMs)
      if (error instanceof RateLimitExceeded) {
        oracles.refusals.noteReported(world.namespace, entity, error)
        oracles.families.refused(this.#asked(startedMs), error.statuses)
        oracles.soft.refused(entity, consume)
        if (error.contended && !this.#process.wasDisturbed(startedMs)) oracles.answers.contended(`acquire ${entity}`)
      }
      if (error instanceof ResourceDisabled && error.hasBucket)
        oracles.refusals.noteDisabled(world.namespace, entity, error)
      world.note(`p${this.#process.number} ${(error as Error).name} ${entity} ${JSON.stringify(consume)}`)
      this.#afterFailure(error, pending, startedMs)
      oracles.answers.failed(`acquire ${entity}`, error)
      return undefined
    }
  }

  /** Makes the claims exact. Claims on a parent that was not charged are refunded. */
  #adopt(lease: Lease, pending: readonly Held[], startedMs: number): void {
    const own = this.#bucket(lease.entity)
    const parents = lease.parents.map(entity => this.#bucket(entity))
    this.#stage.oracles.answers.unlimited(own, lease.unlimited, this.#stage.world.time.nowMs)
    const isCharged = ({claim: {bucket, limit}}: Held) =>
      bucket === own ? limit in lease.consumed : parents.includes(bucket)
    this.#held = pending.filter(isCharged).map(({claim, incarnation, period}) => {
      claim.low = claim.high
      // Deleted or restored meanwhile: charged before or after.
      return {
        claim,
        incarnation: this.#incarnationOf(claim) === incarnation ? incarnation : undefined,
        period: this.#chargedPeriod(claim, period, startedMs),
      }
    })
    const others = pending.filter(held => !isCharged(held))
    for (const {claim} of others) if (claim.bucket === own) claim.high = 0n
    this.#returnWhenClean(others, startedMs)
  }

  /** These claims end uncharged unless calls hit faults, which is known at the end. */
  #returnWhenClean(claims: readonly Held[], startedMs: number): void {
    const {world, atEnd} = this.#stage
    const endedMs = world.time.elapsedMs
    // Charges in an expired quota window are not refunded.
    const stable = new Set<Held>()
    world.time.after(RETURN_MS, () => {
      for (const held of claims) if (held.period === this.#periodOf(held.claim)) stable.add(held)
    })
    atEnd.push(() => {
      if (!this.#isClean(startedMs, endedMs)) return
      for (const held of claims) if (stable.has(held)) held.claim.high = 0n
    })
  }

  #afterFailure(error: unknown, pending: readonly Held[], startedMs: number): void {
    const {oracles, world} = this.#stage
    const isOfSlots = error instanceof RequestTooLarge && oracles.slots.isSlot(error.limit)
    if (error instanceof RateLimitExceeded || (error instanceof RequestTooLarge && !isOfSlots)) {
      const buckets = this.#bucketsOf(this.#event.entity)
      const isFirst = (bucket: string) => this.#unknown.includes(bucket)
      // While parents change, the oracle cannot know which parent refused, or whether it had to.
      if (!oracles.families.isChanging)
        oracles.answers.refused(
          buckets,
          this.#event.consume,
          error,
          world.time.nowMs,
          isFirst,
          this.#process.wasDisturbed(startedMs) || this.#stage.forgetsLevels,
        )
      this.#stage.noteRefused(this.#process.number, this.#generation, buckets)
    }
    oracles.quotas.refused(this.#process.number, this.#event.entity, error, startedMs)
    // Refused, failed or aborted.
    this.#returnWhenClean(pending, startedMs)
    if (error instanceof RateLimitExceeded && !world.scenario.sharedSlots) this.#returnRefused(pending)
  }

  /** No attempt of a refused request is charged (decision 26). Not judged: parents, deleted buckets. */
  #returnRefused(pending: readonly Held[]): void {
    const {books} = this.#stage.oracles
    if (pending.some(({claim}) => claim.bucket !== pending[0]?.claim.bucket)) return
    this.#stage.atEnd.push(() => {
      for (const {claim, incarnation, period} of pending) {
        const isSame = incarnation === this.#incarnationOf(claim) && period === this.#periodOf(claim)
        if (books.hasLimit(claim.bucket, claim.limit) && isSame) claim.high = 0n
      }
    })
  }

  async #act(lease: Lease, action: LeaseAction): Promise<void> {
    const {world, oracles} = this.#stage
    const startedMs = world.time.elapsedMs
    const before = this.#held.map(held => ({
      held,
      incarnation: this.#incarnationOf(held.claim),
      period: this.#periodOf(held.claim),
      isThere: oracles.books.isThere(held.claim.bucket, held.claim.limit),
    }))
    const end = this.#begin(`${action.kind} ${this.#event.entity}`, LONGEST_ACTION_MS)
    if (action.kind === 'commit' || action.kind === 'rollback') this.#endsWork()
    const deltas = deltasOf(action)
    for (const [name, tokens] of Object.entries(deltas)) {
      if (tokens <= 0 || action.kind !== 'adjust') continue
      for (const {claim} of this.#held) {
        oracles.rates.noteForced(claim.bucket, name, BigInt(tokens) * 1000n, world.time.nowMs)
        oracles.quotas.noteForced(claim.bucket, name, BigInt(tokens) * 1000n)
      }
    }
    const {families} = oracles
    const isOfParent = () =>
      !families.isChanging ||
      (families.isKnown && families.parentsOf(this.#event.entity).join() === lease.parents.join())
    const wasOfParent = isOfParent()
    // Until the outcome is known.
    if (action.kind === 'rollback') this.#isEnding = true
    const takeBack = this.#expect(action.kind, deltas)
    try {
      await perform(lease, action)
      end()
      // Timers of a killed process still run here. It writes nothing more, so the claims stay widened.
      if (this.#isDead) return
      world.note(`p${this.#process.number} ${action.kind} ${this.#event.entity} done`)
      // In an outage, a settlement is written later even without `settle: 'soon'`.
      if (action.kind === 'adjust' || action.kind === 'release') {
        this.#whenWritten(lease, deltas, () => {
          takeBack()
          this.#settled(before, deltas, startedMs)
        })
        return
      }
      takeBack()
      if (action.kind === 'rollback') this.#rolledBack(before, startedMs)
      else if (action.kind === 'consume') {
        if (!wasOfParent || !isOfParent()) this.#hasSeveralParents = true
        this.#consumed(before, deltas)
      } else if (action.kind !== 'commit') this.#settled(before, deltas, startedMs)
    } catch (error) {
      end()
      world.note(`p${this.#process.number} ${action.kind} ${this.#event.entity} ${(error as Error).name}`)
      // Invalid input or a refusal changes nothing, unless a compensating write hit a fault.
      if (error instanceof RateLimitExceeded) oracles.refusals.noteReported(world.namespace, this.#event.entity, error)
      const isRefused = error instanceof RateLimitExceeded || error instanceof RequestTooLarge
      if (error instanceof InvalidInput || (isRefused && this.#isClean(startedMs, startedMs))) takeBack()
      else {
        this.#leaveInDoubt(deltas)
        if (action.kind === 'consume' && oracles.families.isChanging) this.#parentClaims(deltas)
      }
      oracles.answers.failed(`${action.kind} ${this.#event.entity}`, error)
    }
  }

  /**
   * An accepted settlement counts as written when the lease reports it. Until then, or forever if the process dies, it
   * may or may not be written: that is the most a crash may lose.
   */
  #whenWritten(lease: Lease, deltas: Tokens, onWritten: () => void): void {
    // A separate operation: in a live process it must end.
    const operation = this.#stage.begin(this.#process.number, `write of what ${this.#event.entity} was settled`)
    const end = this.#stage.noteAccepted(this.#limiter)
    void lease
      .written()
      .then(
        () => {
          // A rollback judges all holdings at once.
          if (!this.#isEnding) onWritten()
        },
        () => this.#leaveInDoubt(deltas),
      )
      .then(() => {
        this.#stage.end(operation)
        end()
      })
  }

  /** A charge may be written and a refund not: the lease refunds neither later. */
  #leaveInDoubt(deltas: Tokens): void {
    for (const {claim} of this.#held) claim.leaveInDoubt(BigInt(Math.abs(deltas[claim.limit] ?? 0)) * 1000n)
  }

  /**
   * Widens the claims while an action is in progress. The returned function undoes exactly that, even if other actions
   * have widened them since.
   */
  #expect(kind: LeaseAction['kind'], deltas: Tokens): () => void {
    const saved = this.#held.map(({claim}) => ({claim, low: claim.low, high: claim.high}))
    for (const {claim} of this.#held) {
      if (kind === 'rollback') claim.returnAll(false)
      const tokens = deltas[claim.limit] ?? 0
      const isFirst = this.#held.find(other => isSameLimit(other.claim, claim))?.claim === claim
      if (tokens < 0 || isFirst) claim.mayAdd(BigInt(tokens) * 1000n)
    }
    const widened = saved.map(({claim, low, high}) => ({claim, low: low - claim.low, high: high - claim.high}))
    return () => {
      for (const {claim, low, high} of widened) {
        claim.low += low
        claim.high += high
      }
    }
  }

  /** Charges apply to any incarnation of the bucket; refunds only to the one that was charged. */
  #settled(before: readonly Before[], deltas: Tokens, startedMs: number): void {
    const isUndecidable = this.#mayBeUndecidable(startedMs)
    for (const {held, incarnation, period, isThere} of before) {
      const {claim} = held
      const milli = BigInt(deltas[claim.limit] ?? 0) * 1000n
      // It is unknown whether the refund reached its shard before the window ended.
      const isLate = milli < 0n && (held.period !== period || this.#periodOf(claim) !== period)
      if (isLate || (milli < 0n && isUndecidable) || this.#isOfSeveralParents(held)) {
        claim.mayAdd(milli)
        continue
      }
      const ofSame = before.filter(other => isSameLimit(other.held.claim, claim))
      if (milli === 0n || (milli > 0n && ofSame[0]?.held !== held)) continue
      const wasSame = incarnation === held.incarnation
      const isStable = this.#incarnationOf(claim) === incarnation
      const isSame = wasSame && isStable
      const {books} = this.#stage.oracles
      // Charged in several incarnations of the bucket: the lease chooses which one to refund.
      if (isSame && ofSame.length === 1) claim.add(milli)
      // A charge on another incarnation stays: nothing can refund it.
      else if (milli > 0n && isStable && isThere && held.incarnation !== undefined)
        books.open(new Claim(claim.bucket, claim.limit, milli))
      else if (milli > 0n || wasSame || this.#mayBeReturned(held)) claim.mayAdd(milli)
    }
  }

  /** The extra charge goes to the current incarnation, which may differ from the earlier one. */
  #consumed(before: readonly Before[], deltas: Tokens): void {
    const {books} = this.#stage.oracles
    if (this.#hasSeveralParents) this.#held.push(...this.#parentClaims(deltas))
    for (const {held, incarnation, period} of before) {
      const {bucket, limit} = held.claim
      if (this.#isOfSeveralParents(held)) continue
      const milli = BigInt(deltas[limit] ?? 0) * 1000n
      const last = before.findLast(other => isSameLimit(other.held.claim, held.claim))
      if (milli === 0n || last?.held !== held) continue
      const isStable = this.#incarnationOf(held.claim) === incarnation
      const isSame = held.period === this.#periodOf(held.claim)
      if (isStable && held.incarnation === incarnation && isSame) held.claim.add(milli)
      else
        this.#held.push({
          claim: books.open(new Claim(bucket, limit, milli)),
          incarnation: isStable ? incarnation : undefined,
          period: period === this.#periodOf(held.claim) ? period : undefined,
        })
    }
  }

  #rolledBack(before: readonly Before[], startedMs: number): void {
    const {atEnd, world} = this.#stage
    const endedMs = world.time.elapsedMs
    for (const {held, incarnation, period} of before) {
      const {claim} = held
      // The charged bucket was deleted or refilled: no refund is possible.
      if (held.incarnation !== incarnation && !this.#mayBeReturned(held)) continue
      claim.returnAll(false)
      if (held.incarnation !== incarnation || this.#incarnationOf(claim) !== incarnation) continue
      if (held.period !== period || this.#periodOf(claim) !== period) continue
      atEnd.push(() => {
        if (this.#isClean(startedMs, endedMs)) claim.returnAll(true)
      })
    }
    this.#held = []
  }

  #isOfSeveralParents({claim}: Held): boolean {
    return this.#hasSeveralParents && claim.bucket !== this.#bucket(this.#event.entity)
  }

  #noteDecided(bucket: string): void {
    this.#stage.noteDecided(this.#process.number, this.#generation, bucket)
  }

  #incarnationOf({bucket, limit}: Claim): number {
    return this.#stage.oracles.books.incarnation(bucket, limit)
  }

  /** Whether a refund may still reach the charged incarnation, or one of its shards. */
  #mayBeReturned({claim: {bucket, limit}, incarnation}: Held): boolean {
    return incarnation === undefined || this.#stage.oracles.books.mayBeReturned(bucket, limit, incarnation)
  }

  #periodOf({bucket, limit}: Claim): number {
    return this.#stage.oracles.quotas.ledger.period(bucket, limit)
  }

  /** The window that was charged; the request may have opened it. */
  #chargedPeriod(claim: Claim, period: number | undefined, startedMs: number): number | undefined {
    if (this.#periodOf(claim) === period) return period
    const {world, oracles} = this.#stage
    const sinceMs = world.time.nowMs - world.time.elapsedMs + startedMs
    return oracles.quotas.ledger.chargedIn(claim.bucket, claim.limit, this.#process.number, sinceMs)
  }

  /**
   * Whether a later call of the same process may have overwritten the mark of a faulted refund. Then the refund is not
   * repeated (decision 26).
   */
  #mayBeUndecidable(startedMs: number): boolean {
    const {unansweredAtMs, disturbedAtMs} = this.#process
    const given = unansweredAtMs.filter(atMs => atMs >= startedMs - AFTERMATH_MS)
    return given.some(unansweredMs => disturbedAtMs.some(atMs => atMs >= startedMs && atMs > unansweredMs))
  }

  #isClean(fromMs: number, untilMs: number): boolean {
    return !this.#process.wasDisturbed(fromMs, untilMs + AFTERMATH_MS)
  }

  /** Claims on an entity and its possible parents: from nothing to the full amount. */
  #claims(entity: string, consume: Tokens, isParent: boolean): Held[] {
    const {oracles} = this.#stage
    const bucket = this.#bucket(entity)
    const known = oracles.timeline.now(bucket)
    return Object.entries(consume).flatMap(([limit, tokens]) => {
      if (isParent && !known.has(limit)) return []
      const claim = oracles.books.open(new Claim(bucket, limit, 0n, BigInt(tokens) * 1000n))
      return [{claim, incarnation: this.#incarnationOf(claim), period: this.#periodOf(claim)}]
    })
  }

  /** Claims on every entity that may be charged together with this one. */
  #parentClaims(consume: Tokens): Held[] {
    const parents = this.#stage.oracles.families.possibleParents(this.#event.entity)
    return parents.flatMap(parent => this.#claims(parent, consume, true))
  }

  #bucket(entity: string): string {
    return bucketId(this.#stage.world.namespace, entity, RESOURCE)
  }

  #bucketsOf(entity: string): string[] {
    return [entity, ...this.#stage.oracles.families.possibleParents(entity)].map(each => this.#bucket(each))
  }

  #asked(startedMs: number): Answer {
    const {entity} = this.#event
    const {time} = this.#stage.world
    return {entity, startedMs: time.nowMs - time.elapsedMs + startedMs}
  }

  #begin(what: string, boundMs: number): (as?: 'admitted' | 'refused') => void {
    const operation = this.#stage.begin(this.#process.number, what)
    const generation = this.#generation
    return as => {
      this.#stage.end(operation)
      // The cost of discovering a changed parent is not judged.
      if (as && !this.#stage.oracles.families.isChanging)
        operation.decided = {as, buckets: this.#bucketsOf(this.#event.entity)}
      const tookMs = (operation.endedAtMs ?? 0) - operation.startedAtMs
      const wasPaused = this.#process.pauses.some(({untilMs}) => untilMs >= operation.startedAtMs)
      if (tookMs > boundMs && this.#process.generation === generation && !wasPaused)
        this.#stage.oracles.answers.late(what, tookMs, boundMs)
    }
  }
}

const isSameLimit = (a: Claim, b: Claim): boolean => a.bucket === b.bucket && a.limit === b.limit
