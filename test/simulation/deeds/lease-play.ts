import {InvalidInput} from '../../../src/lib/core/errors.js'
import {RateLimitExceeded, RequestTooLarge} from '../../../src/lib/limiter/errors.js'
import type {Lease} from '../../../src/lib/limiter/lease.js'
import {Claim} from '../oracles/books.js'
import {type Deed, type LeaseAction, RESOURCE, type Tokens} from '../scenario.js'
import {DECISION_TIMEOUT_MS, type SimulatedProcess} from '../world/process.js'
import {bucketId} from '../world/table-writes.js'
import type {Stage} from './stage.js'

/** A lapse of time in which a return or compensation ends if nothing disturbs it, in ms. */
const COMPENSATION_MS = 15_000

/** How much later than its deadline a decision may come: one read of the policy, and the way of a message. */
const GRACE_MS = 1000

/** Longest time of a correction, whose queue may be waiting for earlier writes. */
const LONGEST_ACTION_MS = 60_000

type Acquire = Extract<Deed, {kind: 'acquire'}>

/** What one caller holds at one bucket. */
interface Held {
  readonly claim: Claim
  readonly life: number
  /** How often the bucket had been reset. */
  readonly resets: number
}

/** Plays one request with everything that its caller does afterwards, and keeps the books. */
export class LeasePlay {
  readonly #stage: Stage
  readonly #process: SimulatedProcess
  readonly #deed: Acquire
  readonly #generation: number
  readonly #kills: number
  #held: Held[] = []

  constructor(stage: Stage, process: SimulatedProcess, deed: Acquire) {
    this.#stage = stage
    this.#process = process
    this.#deed = deed
    this.#generation = process.generation
    this.#kills = process.kills
  }

  async play(): Promise<void> {
    const {world} = this.#stage
    const lease = await this.#acquire()
    if (!lease) return
    for (const action of this.#deed.actions) {
      await world.time.sleep(action.afterMs)
      if (this.#isDead) return
      await this.#act(lease, action)
    }
  }

  get #isDead(): boolean {
    return !this.#process.isAlive || this.#process.kills !== this.#kills
  }

  async #acquire(): Promise<Lease | undefined> {
    const {entity, consume, abortAfterMs} = this.#deed
    const {world, oracles} = this.#stage
    const controller = new AbortController()
    if (abortAfterMs !== undefined) world.time.after(abortAfterMs, () => controller.abort(new Error('given up')))
    const request = {
      entity,
      resource: RESOURCE,
      consume,
      ...(abortAfterMs === undefined ? {} : {signal: controller.signal}),
    }
    const startedMs = world.time.elapsedMs
    const parent = world.scenario.children[entity]
    const pending = [...this.#claims(entity, consume, false), ...this.#claims(parent, consume, true)]
    const end = this.#begin(`acquire ${entity}`, DECISION_TIMEOUT_MS + GRACE_MS)
    try {
      const lease = await this.#process.limiter.acquire(request)
      end()
      world.note(`p${this.#process.number} admitted ${entity} ${JSON.stringify(consume)}`)
      if (!lease.isMetered) return undefined
      this.#adopt(lease, pending, startedMs)
      return lease
    } catch (error) {
      end()
      world.note(`p${this.#process.number} ${(error as Error).name} ${entity} ${JSON.stringify(consume)}`)
      this.#afterFailure(error, pending, startedMs)
      oracles.answers.failed(`acquire ${entity}`, error)
      return undefined
    }
  }

  /** The claims become exact; what was asked of a parent that has no part in it is returned. */
  #adopt(lease: Lease, pending: readonly Held[], startedMs: number): void {
    const charged = [lease.entity, lease.parent ?? ''].map(entity => this.#bucket(entity))
    this.#held = pending.filter(({claim}) => charged.includes(claim.bucket))
    for (const {claim} of this.#held) claim.low = claim.high
    this.#returnWhenClean(
      pending.filter(held => !this.#held.includes(held)),
      startedMs,
    )
  }

  /** Nothing of these stays charged, unless calls were disturbed, which is known at the end. */
  #returnWhenClean(claims: readonly Held[], startedMs: number): void {
    const {world, atEnd} = this.#stage
    const endedMs = world.time.elapsedMs
    atEnd.push(() => {
      if (this.#isClean(startedMs, endedMs)) for (const {claim} of claims) claim.high = 0n
    })
  }

  #afterFailure(error: unknown, pending: readonly Held[], startedMs: number): void {
    const {oracles, world} = this.#stage
    if (error instanceof RateLimitExceeded || error instanceof RequestTooLarge) {
      const buckets = this.#bucketsOf(this.#deed.entity)
      oracles.answers.refused(buckets, this.#deed.consume, error, world.time.nowMs)
    }
    // Refused, failed or given up.
    this.#returnWhenClean(pending, startedMs)
  }

  async #act(lease: Lease, action: LeaseAction): Promise<void> {
    const {world, oracles} = this.#stage
    const startedMs = world.time.elapsedMs
    const before = this.#held.map(held => ({held, life: oracles.books.life(held.claim.bucket, held.claim.limit)}))
    const end = this.#begin(`${action.kind} ${this.#deed.entity}`, LONGEST_ACTION_MS)
    const deltas = deltasOf(action)
    for (const [name, tokens] of Object.entries(deltas)) {
      if (tokens <= 0 || action.kind !== 'adjust') continue
      for (const {claim} of this.#held)
        oracles.rates.noteForced(claim.bucket, name, BigInt(tokens) * 1000n, world.time.nowMs)
    }
    for (const {claim, resets} of this.#held) {
      const tokens = action.kind === 'rollback' ? -Number(claim.high) / 1000 : (deltas[claim.limit] ?? 0)
      if (tokens < 0 && (oracles.resets.get(claim.bucket) ?? 0) !== resets)
        oracles.rates.noteVoidReturn(claim.bucket, claim.limit, BigInt(-tokens) * 1000n, world.time.nowMs)
    }
    // Until it is known what became of it.
    const takeBack = this.#expect(action.kind, deltas)
    try {
      await perform(lease, action)
      end()
      world.note(`p${this.#process.number} ${action.kind} ${this.#deed.entity} done`)
      takeBack()
      if (action.kind === 'rollback') this.#rolledBack(before, startedMs)
      else if (action.kind !== 'commit') this.#applied(before, deltas, action.kind === 'consume')
    } catch (error) {
      end()
      world.note(`p${this.#process.number} ${action.kind} ${this.#deed.entity} ${(error as Error).name}`)
      // A mistake of the caller, or a refusal: nothing has happened, unless a compensation was disturbed.
      const isRefused = error instanceof RateLimitExceeded || error instanceof RequestTooLarge
      if (error instanceof InvalidInput || (isRefused && this.#isClean(startedMs, startedMs))) takeBack()
      oracles.answers.failed(`${action.kind} ${this.#deed.entity}`, error)
    }
  }

  /** Widens the claims for an action under way; the answer takes it back. */
  #expect(kind: LeaseAction['kind'], deltas: Tokens): () => void {
    const saved = this.#held.map(({claim}) => ({claim, low: claim.low, high: claim.high}))
    for (const {claim} of this.#held) {
      if (kind === 'rollback') claim.returnAll(false)
      const tokens = deltas[claim.limit]
      if (tokens !== undefined) claim.mayAdd(BigInt(tokens) * 1000n)
    }
    return () => {
      for (const {claim, low, high} of saved) Object.assign(claim, {low, high})
    }
  }

  #applied(before: readonly {held: Held; life: number}[], deltas: Tokens, isConsume: boolean): void {
    const {books} = this.#stage.oracles
    for (const {held, life} of before) {
      const tokens = deltas[held.claim.limit]
      if (tokens === undefined) continue
      const milli = BigInt(tokens) * 1000n
      const isSameLife = books.life(held.claim.bucket, held.claim.limit) === held.life
      const wasGone = life !== held.life
      if (isSameLife || isConsume) held.claim.add(milli)
      else if (wasGone && milli < 0n) continue
      else held.claim.mayAdd(milli)
    }
  }

  #rolledBack(before: readonly {held: Held; life: number}[], startedMs: number): void {
    const {oracles, atEnd, world} = this.#stage
    const endedMs = world.time.elapsedMs
    for (const {held, life} of before) {
      const {claim} = held
      const {low, high} = claim
      claim.returnAll(false)
      // The bucket that was charged is gone: there is nothing to return to.
      if (life !== held.life) Object.assign(claim, {low, high})
      else if (oracles.books.life(claim.bucket, claim.limit) === held.life) {
        atEnd.push(() => {
          if (this.#isClean(startedMs, endedMs)) claim.high = 0n
        })
      }
    }
    this.#held = []
  }

  #isClean(fromMs: number, untilMs: number): boolean {
    return !this.#process.disturbedAtMs.some(
      atMs => atMs >= fromMs - COMPENSATION_MS && atMs <= untilMs + COMPENSATION_MS,
    )
  }

  /** Claims at an entity and, before it is known, at its parent: between nothing and everything. */
  #claims(entity: string | undefined, consume: Tokens, isParent: boolean): Held[] {
    if (entity === undefined) return []
    const {oracles} = this.#stage
    const bucket = this.#bucket(entity)
    const known = oracles.timeline.now(bucket)
    return Object.entries(consume).flatMap(([limit, tokens]) => {
      if (isParent && !known.has(limit)) return []
      const claim = oracles.books.open(new Claim(bucket, limit, 0n, BigInt(tokens) * 1000n))
      return [{claim, life: oracles.books.life(bucket, limit), resets: oracles.resets.get(bucket) ?? 0}]
    })
  }

  #bucket(entity: string): string {
    return bucketId(this.#stage.world.namespace, entity, RESOURCE)
  }

  #bucketsOf(entity: string): string[] {
    const parent = this.#stage.world.scenario.children[entity]
    return [entity, ...(parent === undefined ? [] : [parent])].map(each => this.#bucket(each))
  }

  #begin(what: string, boundMs: number): () => void {
    const operation = this.#stage.begin(this.#process.number, what)
    const generation = this.#generation
    return () => {
      this.#stage.end(operation)
      const tookMs = (operation.endedAtMs ?? 0) - operation.startedAtMs
      if (tookMs > boundMs && this.#process.generation === generation)
        this.#stage.oracles.answers.late(what, tookMs, boundMs)
    }
  }
}

function deltasOf(action: LeaseAction): Tokens {
  if (action.kind === 'adjust') return action.deltas
  if (action.kind === 'consume') return action.amounts
  if (action.kind !== 'release') return {}
  return Object.fromEntries(Object.entries(action.amounts).map(([name, tokens]) => [name, -tokens]))
}

async function perform(lease: Lease, action: LeaseAction): Promise<void> {
  switch (action.kind) {
    case 'adjust':
      return lease.adjust(action.deltas)
    case 'release':
      return lease.release(action.amounts)
    case 'consume':
      return lease.consume(action.amounts)
    case 'commit':
      return lease.commit()
    case 'rollback':
      return lease.rollback()
  }
}
