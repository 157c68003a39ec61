import {type Amounts, negateAmounts, periodsOf} from '../../core/buckets/bucket.js'
import {isRetryable, isUnavailability, Throttled} from '../../dynamo/errors.js'
import {type Backoff, pause, retrying} from '../../dynamo/retry.js'
import {mayHaveBeenApplied} from '../../repository/buckets/marked-write.js'
import {sessionsOpenedAt, spreadSessions} from '../../repository/buckets/session-spread.js'
import type {BucketAddress, WriteMark} from '../../repository/buckets/writes.js'
import {requireSupported} from '../../repository/table/unsupported-feature.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {keys, wireKey} from '../../schema/keys.js'
import {writeRefusals} from '../refusal/tally.js'
import type {ChargedItem} from '../request/grant.js'
import type {LimitsInForce} from '../request/limit-source.js'
import {type Demand, leaveOutMissing, type PendingRequest, type Refused, ShardGone} from '../request/pending-request.js'
import {isInLine, type LimitStepInput, planWithLimits} from './apply-limits.js'
import {BucketWrites, type SeenOutcome} from './bucket-writes.js'
import {writeCorrections} from './corrections.js'
import {KnownBucket, type KnownState} from './known-bucket.js'
import {LimitChecks} from './limits-freshness.js'
import {
  nextStep,
  type QueueStep,
  type RefuseStep,
  refuseMisfits,
  type StepInput,
  stepWithRiders,
  type WriteStep,
} from './next-step.js'
import type {QueueServices} from './queue-services.js'
import {refuseDisabled} from './refuse.js'
import {type Correction, owedInDoubt, ridersOf, WaitingCorrections} from './riders.js'

/** Steps before the requests of a contended batch are refused that do not fit; twice as many before those that would. */
const MOST_ROUNDS = 12

/** From this round on, others write the bucket as well, and requests are refused that did not fit at their last refill. */
const FIRST_CONTENDED_ROUND = 2

/** So long the next batches count as contended from their first round on. */
const CONTENDED_MS = 1000

/** Bounds of the time a write is supposed to take. */
const [SHORTEST_TRIP_MS, LONGEST_TRIP_MS] = [4, 250]

/** Longest wait before a contended write, if tokens are scarce: what is earned meanwhile needs fewer writes. */
const SCARCE_WAIT_MS = 10

/** From this round on, short random waits keep competing clients from colliding in step. */
const FIRST_WAITING_ROUND = 3

/** In ms: of the first wait, which doubles, and of all. */
const [FIRST_WAIT_MS, LONGEST_WAIT_MS] = [2, 16]

interface Deferred {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

const isOpen = ({isSettled, isAbandoned}: PendingRequest): boolean => !isSettled && !isAbandoned

/** Yield once, so that resumed callers join the next batch. */
const afterMicrotasks = (): Promise<void> => new Promise(resolve => process.nextTick(resolve))

/** Serialises this process's writes to a bucket item: one in flight, the rest batched into the next, in order. */
export class BucketQueue {
  readonly #services: QueueServices
  readonly #address: BucketAddress
  readonly #bucket: KnownBucket
  readonly #limits: LimitChecks
  readonly #writes: BucketWrites
  #requests: PendingRequest[] = []
  readonly #corrections = new WaitingCorrections(() => this.#start())
  #isCorrecting = false
  #isInvalidated = false
  #contendedUntilMs = 0
  #roundTripMs = SHORTEST_TRIP_MS
  #refusalWriters: Deferred[] = []
  #running: Promise<void> | undefined

  constructor(services: QueueServices, address: BucketAddress) {
    this.#services = services
    this.#address = address
    this.#bucket = new KnownBucket(services.settings)
    this.#limits = new LimitChecks(services, address, this.#bucket)
    this.#writes = new BucketWrites(services, address, this.#bucket)
  }

  get running(): Promise<void> | undefined {
    return this.#running
  }

  /** Nothing is written or waits to be. */
  get isIdle(): boolean {
    return !this.#running && this.#corrections.isEmpty
  }

  get recentState(): KnownState | undefined {
    return this.#bucket.isFresh(this.#now()) ? this.#bucket.state : undefined
  }

  get decisionMs(): number {
    return this.#bucket.timeAt(this.#now())
  }

  knownRefusal(demand: Demand): Refused | undefined {
    const nowMs = this.#now()
    return this.#isCurrent(nowMs) ? this.#bucket.refusal(demand, nowMs) : undefined
  }

  ask(request: PendingRequest): void {
    const nowMs = this.#now()
    if (this.#isCurrent(nowMs)) this.#bucket.narrow(request, nowMs)
    this.#bucket.noteRequest(request.amounts)
    this.#requests.push(request)
    this.#start()
  }

  /** Charges, or refunds if negative, whatever the balance; resolves when written. */
  correct(deltas: Amounts, requests: number, charged: ChargedItem): Promise<void> {
    return this.#corrections.add(deltas, requests, charged)
  }

  /** Like `correct`, but batched with others for a moment, and retried if it certainly failed. */
  correctSoon(deltas: Amounts, charged: ChargedItem): Promise<void> {
    let written: Promise<void> | undefined = this.#corrections.addSoon(deltas, charged)
    const attempt = () => {
      const first = written
      written = undefined
      return first ?? this.correct(deltas, 0, charged)
    }
    return insist(attempt, this.#services.table.backoff)
  }

  hurry(): void {
    this.#corrections.hurry()
  }

  /** Refunds a charge; never rejects. */
  async giveBack(amounts: Amounts, requests: number, charged: ChargedItem): Promise<void> {
    // Planted fault: of what an abandoned request was charged the first limit stays charged
    const attempt = () => this.correct(negateAmounts(amounts), -requests, charged)
    await insist(attempt, this.#services.table.backoff).catch(() => {})
  }

  writeRefusals(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#refusalWriters.push({resolve, reject})
      this.#start()
    })
  }

  learnRecord(record: BucketRecord, sinceMs: number): void {
    this.#bucket.learnRecord(record, sinceMs, this.#now())
  }

  noteDoubt(): void {
    this.#bucket.noteDoubt()
  }

  forget(mark?: WriteMark, written?: BucketRecord): void {
    this.#bucket.forget(mark, written)
  }

  get isTrusted(): boolean {
    return this.#bucket.isTrusted
  }

  invalidate(): void {
    this.#bucket.invalidate()
    // Calls under way may answer with an older state or configuration.
    this.#isInvalidated = this.#running !== undefined
  }

  /** Whether the state may refuse without a call. Pending settlements may refund tokens. */
  #isCurrent(nowMs: number): boolean {
    const isSettled = this.#corrections.isEmpty && !this.#isCorrecting
    return isSettled && !this.#isInvalidated && this.#bucket.isFresh(nowMs)
  }

  async #writeRefusals(writers: readonly Deferred[]): Promise<void> {
    try {
      await writeRefusals({...this.#writes.item, bucket: this.#bucket}, this.#services.refusals)
      for (const {resolve} of writers) resolve()
    } catch (error) {
      for (const {reject} of writers) reject(error)
    }
  }

  #now(): number {
    return this.#services.table.clock()
  }

  /** Requests that might be refused need a balance that includes all accepted settlements. */
  #mayRefuse(): boolean {
    const requests = this.#requests
    if (!this.#corrections.hasSoon || requests.length === 0) return false
    return !this.#bucket.wouldAdmitAll(requests, this.#now())
  }

  #start(): void {
    if (this.#running) return
    this.#running = this.#run()
  }

  async #run(): Promise<void> {
    do {
      const step = this.#stepWithRiders()
      const isWritten = step !== undefined && (await this.#writeTogether(step))
      if (!isWritten) await this.#writeApart()
      const refusalWriters = this.#refusalWriters
      this.#refusalWriters = []
      if (refusalWriters.length > 0) await this.#writeRefusals(refusalWriters)
      await afterMicrotasks()
      if (this.#isInvalidated) this.#bucket.invalidate()
      this.#isInvalidated = false
    } while (this.#corrections.isDue || this.#requests.length > 0 || this.#refusalWriters.length > 0)
    this.#running = undefined
  }

  async #writeApart(): Promise<void> {
    const corrections = this.#corrections.take({all: this.#mayRefuse()})
    if (corrections.length > 0) await this.#correct(corrections)
    const requests = this.#takeRequests()
    try {
      await this.#decide(requests)
    } catch (error) {
      for (const request of requests) if (!request.isSettled) request.fail(error)
    }
    this.#finish(requests)
  }

  /** Batches requests and settlements (decision 40). If not applied, settles alone; false: requests are pending. */
  async #writeTogether(step: WriteStep): Promise<boolean> {
    const [requests, corrections] = [this.#takeRequests(), this.#corrections.take({all: true})]
    this.#isCorrecting = true
    try {
      const seen = await this.#writes.send(step)
      const {outcome} = seen
      if (outcome.applied) {
        // Planted fault: corrections that were written with a request are written again
        for (const {resolve} of corrections) resolve()
        // Leases book them first: the answers show balances that include them (L6).
        await afterMicrotasks()
        this.#settle(step, seen)
      } else await this.#correct(outcome.isInDoubt ? owedInDoubt(corrections) : corrections)
    } catch (error) {
      // The table rejected the combined write: its parts may be accepted alone.
      if (!mayHaveBeenApplied(error) && !isUnavailability(error)) await this.#correct(corrections)
      else {
        for (const {reject} of corrections) reject(error)
        for (const request of requests) if (!request.isSettled) request.fail(error)
      }
    }
    this.#isCorrecting = false
    const open = requests.filter(isOpen)
    this.#requests.unshift(...open)
    this.#finish(requests.filter(request => !isOpen(request)))
    return open.length === 0
  }

  #stepWithRiders(): WriteStep | undefined {
    const bucket = this.#bucket
    if (this.#corrections.isEmpty || !bucket.state?.exists || !bucket.hasCheckedLimits) return undefined
    // Without the slot, a refund lost on its first try could not be told from an applied one.
    if (!bucket.isSlotKnown) return undefined
    const clockMs = this.#now()
    const requests = this.#requests.filter(isOpen)
    if (requests.length === 0 || bucket.isCheckDue(clockMs)) return undefined
    const riders = ridersOf(this.#corrections.all, bucket.state.seen.record, bucket.slotMark, clockMs)
    if (!riders) return undefined
    for (const request of requests) bucket.narrow(request, clockMs)
    return stepWithRiders(this.#stepInput(requests, clockMs, {isCertain: true, isContended: false}), riders)
  }

  async #correct(corrections: readonly Correction[]): Promise<void> {
    this.#isCorrecting = true
    const {giveBack, settings} = this.#services
    const item = {...this.#writes.item, bucket: this.#bucket, maxShards: settings.maxShards, giveBack}
    await writeCorrections(item, corrections)
    this.#isCorrecting = false
  }

  #takeRequests(): readonly PendingRequest[] {
    const requests = this.#requests
    this.#requests = []
    return requests
  }

  #finish(requests: readonly PendingRequest[]): void {
    for (const request of requests) request.finish()
    if (requests.length > 0) this.#bucket.noteDecided()
  }

  async #decide(requests: readonly PendingRequest[]): Promise<void> {
    const {table, firstVisits} = this.#services
    const [address, bucket] = [this.#address, this.#bucket]
    const startedMs = this.#now()
    for (let round = 0; ; round++) {
      const open = requests.filter(isOpen)
      if (open.length === 0) return
      const {state} = bucket
      const mayRefuse = state?.exists && !state.seen.record.unsupported && state.seen.record.bypassUntilMs === undefined
      if (round >= MOST_ROUNDS && mayRefuse) {
        const {record} = state.seen
        if (round >= 2 * MOST_ROUNDS)
          return this.#refuse({kind: 'refuse', requests: open, record, nowMs: bucket.timeAt(this.#now())})
        this.#refuse(refuseMisfits(open, record, bucket.timeAt(this.#now())))
      } else if (round >= FIRST_CONTENDED_ROUND && mayRefuse && this.#isOutrunSince(startedMs)) {
        // What others left decides: they are faster at what was earned since.
        const {record} = state.seen
        this.#refuse(refuseMisfits(open, record, record.state.refilledAtMs))
        if (!open.some(isOpen)) return
      } else if (round >= 2 * MOST_ROUNDS)
        throw new Throttled('acquire', new Error('the bucket changes faster than it can be read'))
      if (round >= FIRST_CONTENDED_ROUND) this.#contendedUntilMs = this.#now() + CONTENDED_MS
      const isContended = this.#now() < this.#contendedUntilMs
      if (isContended && !bucket.wouldAdmitAll(open, this.#now()))
        await pause(0, {...table.backoff, baseMs: SCARCE_WAIT_MS})
      else if (round >= FIRST_WAITING_ROUND)
        await pause(round - FIRST_WAITING_ROUND, {...table.backoff, baseMs: FIRST_WAIT_MS, maxMs: LONGEST_WAIT_MS})
      const isFirstVisit = round === 0 && !state && !bucket.lastRecord
      const isRead = isFirstVisit && (await this.#readFirst())
      const isCertain = round > 0 || bucket.isFresh(this.#now())
      // Never compared with the configuration: a process that decides once would miss a change.
      if ((round > 0 || isRead) && !bucket.hasCheckedLimits && bucket.wouldAdmitAny(open, this.#now()))
        bucket.noteDoubt()
      const inForce = bucket.isCheckDue(this.#now()) ? await this.#limits.check() : this.#limits.compareAtHand()
      const clockMs = this.#now()
      for (const request of open) bucket.narrow(request, clockMs)
      const rules = {isCertain, isContended}
      const step = nextStep(this.#stepInput(open, clockMs, rules, inForce))
      if (step.kind === 'unsupported') return requireSupported(step.record)
      if (step.kind !== 'apply-limits') await this.#perform(step, open)
      else await this.#applyLimits(step.state, open, {isCertain, isExact: round < MOST_ROUNDS / 2})
      if (isFirstVisit) firstVisits.note(address.resource, isRead ? step.kind !== 'consume' : this.#hasOnlyShown(open))
    }
  }

  /** Others have refilled the bucket since, by limits that need no comparison. */
  #isOutrunSince(startedMs: number): boolean {
    const {state, hasCheckedLimits} = this.#bucket
    if (!state?.exists || !hasCheckedLimits || this.#bucket.isCheckDue(this.#now())) return false
    return state.seen.record.state.refilledAtMs > startedMs
  }

  /** One literal: with every spread, an admitted request takes a quarter more CPU time. */
  #stepInput(
    requests: readonly PendingRequest[],
    clockMs: number,
    {isCertain, isContended}: Pick<StepInput, 'isCertain' | 'isContended'>,
    inForce?: LimitsInForce,
  ): StepInput {
    const {table, settings, entities, limits} = this.#services
    const [address, bucket, roundTripMs] = [this.#address, this.#bucket, this.#roundTripMs]
    const nowMs = bucket.timeAt(clockMs)
    const supposed = () => entities.suppose(address, bucket.lastRecord, inForce?.applied ?? limits.atHand(address))
    return {table, settings, address, bucket, requests, clockMs, nowMs, supposed, isCertain, isContended, roundTripMs}
  }

  /** Reads an unseen bucket if a write would probably be wasted; the write that follows requires the state read. */
  async #readFirst(): Promise<boolean> {
    const {table, settings, firstVisits, nextMark} = this.#services
    const {entity, resource, shard} = this.#address
    if (!firstVisits.readFirst(resource)) return false
    try {
      const Key = wireKey(keys.bucket(table.namespace, entity, resource, shard))
      const request = {TableName: table.name, Key, ConsistentRead: false}
      const {Item} = await table.transport.send('GetItem', request, {timeoutMs: settings.writeTimeoutMs})
      this.#bucket.learnGlance(Item, nextMark(), this.#now())
      return true
    } catch {
      // A write shows the bucket too, and reports the error.
      return false
    }
  }

  /** Whether the write admitted none, and a read would have shown that another write is needed. */
  #hasOnlyShown(requests: readonly PendingRequest[]): boolean {
    if (requests.some(request => request.isSettled)) return false
    return !this.#bucket.state?.exists || this.#bucket.wouldAdmitAny(requests, this.#now())
  }

  async #perform(step: QueueStep, open: readonly PendingRequest[]): Promise<void> {
    const {shards} = this.#services
    switch (step.kind) {
      case 'refuse':
        return this.#refuse(step)
      case 'forget':
        return this.#bucket.forget()
      case 'repair-shard-count':
        await shards.repairCount(this.#address)
        return this.#bucket.forget()
      case 'fill-shard': {
        const isThere = await shards.fill(this.#address)
        if (!isThere) for (const request of open) request.fail(new ShardGone())
        return this.#bucket.forget()
      }
      default: {
        if (step.refused) this.#refuse(step.refused)
        const sentMs = this.#now()
        const seen = await this.#writes.send(step)
        this.#noteTrip(this.#now() - sentMs)
        this.#settle(step, seen)
      }
    }
  }

  /** One slow write counts less with each that follows. */
  #noteTrip(tookMs: number): void {
    const tripMs = Math.max(tookMs, this.#roundTripMs * 0.75, SHORTEST_TRIP_MS)
    this.#roundTripMs = Math.min(Math.ceil(tripMs), LONGEST_TRIP_MS)
  }

  async #applyLimits(
    state: KnownState,
    requests: readonly PendingRequest[],
    rules: Pick<LimitStepInput, 'isCertain' | 'isExact'>,
  ): Promise<void> {
    const {table, settings} = this.#services
    const [address, bucket] = [this.#address, this.#bucket]
    const {inForce, bypassUntilMs, clockMs} = await this.#limits.read(state)
    const nowMs = state.exists ? bucket.timeAt(clockMs) : bucket.createdAtMs(clockMs)
    if (await refuseDisabled({...this.#writes.item, state}, requests, inForce.applied)) return
    // In doubt until a write updates it: this one may be lost or overtaken by another client's.
    if (state.exists && !isInLine(state.seen, inForce)) bucket.noteDoubt()
    const names = new Set(inForce.applied.limits.map(limit => limit.name))
    for (const request of requests) leaveOutMissing(request, names)
    const input = {state, table, address, requests, inForce, bypassUntilMs, settings, nowMs, ...rules}
    const {step, impossible} = planWithLimits(input)
    for (const [request, reason] of impossible) request.fail(reason)
    if (step) await this.#perform(step, requests)
    const after = bucket.state
    if (after?.exists && isInLine(after.seen, inForce)) bucket.noteLimitsChecked(inForce.applied, clockMs)
  }

  #settle(step: WriteStep, {outcome, record}: SeenOutcome): void {
    if (!outcome.applied) return
    if (!record) {
      // Charged and gone: the charge is void, and the next step decides again.
      this.#bucket.forget()
      return
    }
    this.#admit(step, record, outcome.isFound ? step.nowMs : undefined)
    this.#noteOpened(record, step)
    if (step.leftOver) this.#refuse(refuseMisfits(step.leftOver, record, step.nowMs))
  }

  #noteOpened(record: BucketRecord, {kind, nowMs}: WriteStep): void {
    if (record.shardCount === 1 || kind === 'consume' || kind === 'bypass') return
    const opened = sessionsOpenedAt(record, nowMs)
    const {table, background} = this.#services
    if (opened.size > 0) void background.run(spreadSessions(table, record, opened, nowMs))
  }

  #admit({admits, isBypassed = false}: WriteStep, record: BucketRecord, chargedAtMs: number | undefined): void {
    const {incarnation, state} = record
    const address = this.#address
    for (const request of admits) {
      const {amounts, requests} = request
      if (request.isAbandoned) {
        const periods = periodsOf(state, chargedAtMs)
        // Planted fault: what an abandoned request was charged stays
        request.cleanUp(this.giveBack(amounts, requests, {isBypassed, incarnation, periods}))
      } else request.settle({admitted: true, address, amounts, requests, isBypassed, record, chargedAtMs})
    }
  }

  #refuse({requests, record, nowMs}: RefuseStep): void {
    const toldMs = Math.min(nowMs, this.#now())
    for (const request of requests) request.settle(this.#bucket.refused(request.amounts, record, toldMs))
  }
}

const ATTEMPTS = 10

/** Retries a settlement that certainly was not applied; throws the last error. */
function insist(attempt: () => Promise<void>, backoff: Backoff): Promise<void> {
  const retryable = (error: unknown) => isRetryable(error) && !mayHaveBeenApplied(error)
  return retrying(attempt, {...backoff, attempts: ATTEMPTS, retryable})
}
