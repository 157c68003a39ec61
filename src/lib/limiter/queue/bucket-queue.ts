import {type Amounts, negateAmounts} from '../../core/buckets/bucket.js'
import {isUnavailability} from '../../dynamo/errors.js'
import {LONGEST_PAUSE_MS, pause} from '../../dynamo/retry.js'
import {mayHaveBeenApplied} from '../../repository/buckets/marked-write.js'
import type {BucketAddress} from '../../repository/buckets/writes.js'
import type {HeldSlots, SlotAccount} from '../holders/slot-account.js'
import type {ChargedItem} from '../request/grant.js'
import type {Demand, PendingRequest, Refused} from '../request/pending-request.js'
import {BucketItem, isOpen} from './bucket-item.js'
import type {KnownBucket} from './known-bucket.js'
import {stepWithSettlements, type WriteStep} from './next-step.js'
import type {QueueServices} from './queue-services.js'
import {lacksQuota, lacksSlots} from './refuse.js'
import {
  BATCH_MS,
  batchSettlements,
  dueInDoubt,
  type FailedWrite,
  PendingSettlements,
  type Settlement,
} from './settlements.js'
import {writeSettlements} from './write-settlements.js'

interface Deferred {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** Yield once, so that resumed callers join the next batch. */
const afterMicrotasks = (): Promise<void> => new Promise(resolve => process.nextTick(resolve))

/** Serialises this process's writes to a bucket item: one in flight, the rest batched into the next, in order. */
export class BucketQueue {
  readonly bucket: KnownBucket
  readonly #item: BucketItem
  readonly #requests: PendingRequest[] = []
  /** Created with the first settlement. */
  #settlements: PendingSettlements | undefined
  #isSettling = false
  #isInvalidated = false
  #refusalWriters: Deferred[] = []
  #slotFailures = 0
  #isPausing = false
  #running: Promise<void> | undefined

  constructor(services: QueueServices, address: BucketAddress) {
    this.#item = new BucketItem(services, address)
    this.bucket = this.#item.bucket
  }

  get running(): Promise<void> | undefined {
    return this.#running
  }

  get isIdle(): boolean {
    return !this.#running && !this.#hasSettlements && (this.#item.slots?.isEmpty ?? true)
  }

  get #hasSettlements(): boolean {
    return this.#settlements !== undefined && !this.#settlements.isEmpty
  }

  knownRefusal(demand: Demand): Refused | undefined {
    // Pending settlements may refund tokens.
    const isSettled = !this.#hasSettlements && !this.#isSettling && !this.#item.slots?.isPending
    const nowMs = this.#item.table.clock()
    const isCurrent = isSettled && !this.#isInvalidated && this.bucket.isFresh(nowMs)
    const refused = isCurrent ? this.bucket.refusal(demand, nowMs) : undefined
    const {reaper} = this.#item.services
    if (refused && lacksSlots(refused)) reaper.look(refused.record)
    if (refused && lacksQuota(refused.record, demand.amounts)) reaper.lookAround()
    return refused
  }

  ask(request: PendingRequest): void {
    this.bucket.narrow(request, this.#item.table.clock())
    this.bucket.noteRequest(request.amounts)
    this.#requests.push(request)
    this.#start()
  }

  /** Charges, or refunds if negative, whatever the balance; resolves when written. Retried in an outage. */
  settle(deltas: Amounts, requests: number, charged: ChargedItem, onRetry?: () => void): Promise<void> {
    return this.#pendingSettlements().add(deltas, requests, charged, onRetry)
  }

  /** Like `settle`, but batched with others for a moment. */
  settleSoon(deltas: Amounts, charged: ChargedItem, onRetry?: () => void): Promise<void> {
    return this.#pendingSettlements().addSoon(deltas, charged, onRetry)
  }

  #pendingSettlements(): PendingSettlements {
    this.#settlements ??= new PendingSettlements(() => this.#start(), this.#item.table.backoff)
    return this.#settlements
  }

  hurry(): void {
    this.#settlements?.hurry()
    this.#item.slots?.hurry()
    if (this.#item.slots?.isDue) this.#start()
  }

  /** Returned with the next write of the bucket, or alone: now, or after a moment. Resolves when written. */
  returnSlots(slots: HeldSlots, isSoon: boolean): Promise<void> {
    const returned = this.#item.slots?.giveBack(slots) ?? Promise.resolve()
    // Not unref'd, as for settlements: a process that ends normally returns its slots.
    if (isSoon) setTimeout(() => this.hurry(), BATCH_MS)
    else this.hurry()
    return returned
  }

  /** If it holds slots: without the bucket, nobody could count them. */
  keepAlive(): Promise<void> | undefined {
    return this.#item.slots?.holdingId === undefined ? undefined : this.#item.keepAlive()
  }

  refund(amounts: Amounts, requests: number, charged: ChargedItem): Promise<void> {
    // Planted fault: the first limit of an abandoned request stays charged
    return this.settle(negateAmounts(amounts), -requests, charged)
  }

  writeRefusals(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#refusalWriters.push({resolve, reject})
      this.#start()
    })
  }

  invalidate(): void {
    this.bucket.invalidate()
    // Calls under way may answer with an older state or configuration.
    this.#isInvalidated = this.#running !== undefined
  }

  async #writeRefusals(writers: readonly Deferred[]): Promise<void> {
    try {
      await this.#item.writeRefusals()
      for (const {resolve} of writers) resolve()
    } catch (error) {
      for (const {reject} of writers) reject(error)
    }
  }

  #start(): void {
    this.#running ??= this.#run()
  }

  async #run(): Promise<void> {
    let isDue: boolean
    do {
      const settlements = this.#settlements
      if (settlements?.unsure) await this.#makeSure(settlements, settlements.unsure)
      const isDecided = settlements?.isEmpty === false && (await this.#writePending(settlements))
      // Another write would replace the mark of an unsure one.
      if (!settlements?.unsure) {
        if (!isDecided) await this.#decide()
        if (this.#item.slots && this.#areSlotsDue) await this.#returnSlots(this.#item.slots)
        if (this.#refusalWriters.length > 0) await this.#writeRefusals(this.#refusalWriters.splice(0))
      }
      await afterMicrotasks()
      if (this.#isInvalidated) this.bucket.invalidate()
      this.#isInvalidated = false
      isDue = this.#requests.length > 0 || this.#refusalWriters.length > 0
      isDue ||= this.#areSlotsDue || (this.#settlements?.isDue ?? false)
    } while (isDue)
    this.#running = undefined
  }

  get #areSlotsDue(): boolean {
    return this.#item.slots?.isDue === true && !this.#isPausing
  }

  /** Repeated until it succeeds or the process is lost as a holder. Callers wait for the first attempt. */
  async #returnSlots(slots: SlotAccount): Promise<void> {
    try {
      await this.#item.returnSlots(slots)
      this.#slotFailures = 0
    } catch (error) {
      const {backoff} = this.#item.table
      this.#slotFailures++
      this.#isPausing = true
      slots.giveUp(error)
      void pause(this.#slotFailures, {...backoff, maxMs: LONGEST_PAUSE_MS}).then(() => {
        this.#isPausing = false
        if (slots.isDue) this.#start()
      })
    }
  }

  /** Finds out whether an unanswered write of settlements was applied. If that fails, so does everything pending. */
  async #makeSure(pending: PendingSettlements, unsure: FailedWrite): Promise<void> {
    try {
      const outcome = await this.#item.findOutcome()
      const due = outcome.applied ? [] : unsure.settlements
      pending.resolveUnsure(!outcome.applied && outcome.isInDoubt ? dueInDoubt(due) : due)
      if (outcome.applied) unsure.onApplied?.()
    } catch (error) {
      pending.resolveUnsure([])
      pending.retry({settlements: pending.take({all: true}), error})
      pending.retry(unsure)
      const requests = this.#requests.splice(0)
      for (const request of requests) if (!request.isSettled) request.fail(error)
      this.#finish(requests)
      for (const {reject} of this.#refusalWriters.splice(0)) reject(error)
    }
  }

  async #decide(): Promise<void> {
    const requests = this.#requests.splice(0)
    try {
      await this.#item.decide(requests)
    } catch (error) {
      for (const request of requests) if (!request.isSettled) request.fail(error)
    }
    this.#finish(requests)
  }

  /** Writes settlements, batched with the requests if possible; false: requests are pending. */
  async #writePending(pending: PendingSettlements): Promise<boolean> {
    if (pending.unsure) return false
    const step = this.#stepWithSettlements(pending.all)
    if (step && (await this.#writeTogether(step, pending))) return true
    const requests = this.#requests
    // Requests that might be refused need a balance that includes all accepted settlements.
    const mayRefuse = requests.length > 0 && !this.bucket.wouldAdmitAll(requests, this.#item.table.clock())
    const settlements = pending.take({all: mayRefuse})
    if (settlements.length > 0) await this.#writeAlone(settlements, pending)
    return false
  }

  /** Batches requests and settlements. If not applied, settles alone; false: requests are pending. */
  async #writeTogether(step: WriteStep, pending: PendingSettlements): Promise<boolean> {
    const [requests, settlements] = [this.#requests.splice(0), pending.take({all: true})]
    this.#isSettling = true
    try {
      const seen = await this.#item.write(step)
      const {outcome} = seen
      if (outcome.applied) {
        // Planted fault: settlements batched with a request are written again
        for (const {resolve} of settlements) resolve()
        // Leases book them first: the answers show balances that include them (L6).
        await afterMicrotasks()
        this.#item.answer(step, seen)
      } else await this.#writeAlone(outcome.isInDoubt ? dueInDoubt(settlements) : settlements, pending)
    } catch (error) {
      // The table rejected the combined write: its parts may be accepted alone.
      if (!mayHaveBeenApplied(error) && !isUnavailability(error)) await this.#writeAlone(settlements, pending)
      else {
        const onApplied = () => {
          for (const {resolve} of settlements) resolve()
        }
        pending.retry({settlements, error, ...(mayHaveBeenApplied(error) && {onApplied})})
        for (const request of requests) if (!request.isSettled) request.fail(error)
      }
    }
    this.#isSettling = false
    const open = requests.filter(isOpen)
    this.#requests.unshift(...open)
    this.#finish(requests.filter(request => !isOpen(request)))
    return open.length === 0
  }

  #stepWithSettlements(settlements: readonly Settlement[]): WriteStep | undefined {
    const {bucket} = this
    if (settlements.length === 0 || !bucket.state?.exists || !bucket.hasCheckedLimits) return undefined
    // Without the slot, a lost first try of a refund looks like an applied one.
    if (!bucket.isSlotKnown) return undefined
    // Requests take slots one decision at a time.
    if (bucket.state.seen.record.slots) return undefined
    const clockMs = this.#item.table.clock()
    const requests = this.#requests.filter(isOpen)
    if (requests.length === 0 || bucket.isCheckDue(clockMs)) return undefined
    const batched = batchSettlements(settlements, bucket.state.seen.record, bucket.slotMark, clockMs)
    if (!batched) return undefined
    for (const request of requests) bucket.narrow(request, clockMs)
    return stepWithSettlements(this.#item.stepInput(requests, clockMs, {isCertain: true, isContended: false}), batched)
  }

  async #writeAlone(settlements: readonly Settlement[], pending: PendingSettlements): Promise<void> {
    this.#isSettling = true
    for (const failed of await writeSettlements(this.#item, settlements)) pending.retry(failed)
    this.#isSettling = false
  }

  #finish(requests: readonly PendingRequest[]): void {
    for (const request of requests) {
      const {charged} = request
      request.charged = undefined
      if (charged) request.cleanUp(this.#item.services.refund(charged))
      request.finish()
    }
    if (requests.length > 0) this.bucket.noteDecided()
  }
}
