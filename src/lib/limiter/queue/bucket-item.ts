import {expiresAtSeconds, periodsOf} from '../../core/buckets/bucket.js'
import {ZaelError} from '../../core/errors.js'
import {STAMP_MS} from '../../core/limits/limit-kind.js'
import {isRetryable, Throttled, Unavailable} from '../../dynamo/errors.js'
import {pause, retrying} from '../../dynamo/retry.js'
import type {OperationOutput} from '../../dynamo/transport.js'
import {keepBucket} from '../../repository/buckets/holders.js'
import {
  type GuardedWrite,
  mayHaveBeenApplied,
  ruleOut,
  sendGuarded,
  type WriteBasis,
  type WriteOutcome,
} from '../../repository/buckets/marked-write.js'
import {sessionsOpenedAt, spreadSessions} from '../../repository/buckets/session-spread.js'
import {
  type BucketAddress,
  markIn,
  refusalUpdate,
  type SlotsWrite,
  slotsUpdate,
  stampUpdate,
  type WriteMark,
} from '../../repository/buckets/writes.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import {requireSupported} from '../../repository/table/unsupported-feature.js'
import type {Item} from '../../schema/attribute-value.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {chargedParent, isSameFamily} from '../../schema/family.js'
import {keys, wireKey} from '../../schema/keys.js'
import type {BucketSlots} from '../../schema/slot-attributes.js'
import type {Holder} from '../holders/holder.js'
import {exceedsCapacity, NO_SLOTS, SlotAccount, type Slots, slotsWanted, sumSlots} from '../holders/slot-account.js'
import {ResourceDisabled} from '../refusal/errors.js'
import type {Holding} from '../request/grant.js'
import type {AppliedLimits, LimitsInForce} from '../request/limit-source.js'
import {leaveOutMissing, type PendingRequest, ShardGone} from '../request/pending-request.js'
import {
  differsFrom,
  hasLimits,
  isExpiryFarOff,
  isInLine,
  isUpToDate,
  type LimitStepInput,
  planWithLimits,
} from './apply-limits.js'
import {startsOf} from './booking.js'
import {asCharged, KnownBucket, type KnownState, shareOfRecord} from './known-bucket.js'
import {
  basisOf,
  nextStep,
  type QueueStep,
  type RefuseStep,
  refuseMisfits,
  type StepInput,
  type WriteStep,
} from './next-step.js'
import type {QueueServices} from './queue-services.js'
import {lacksQuota} from './refuse.js'

/** Rounds of a contended batch before requests that do not fit are refused; all are after twice as many. */
const MOST_ROUNDS = 12

/** From this round on, a bucket counts as contended: requests that did not fit at its last refill are refused. */
const FIRST_CONTENDED_ROUND = 2

/** How long later batches count as contended from their first round on. */
const CONTENDED_MS = 1000

const NOT_BEATING = new Error('this process could not renew its slots')

/** Bounds of the expected duration of a write. */
const [SHORTEST_TRIP_MS, LONGEST_TRIP_MS] = [4, 250]

/** Longest wait before a contended write if tokens are scarce: more refill per write means fewer writes. */
const SCARCE_WAIT_MS = 10

/** From this round on, short random waits keep competing clients from colliding in step. */
const FIRST_WAITING_ROUND = 3

/** The first wait, which doubles, and the longest. */
const [FIRST_WAIT_MS, LONGEST_WAIT_MS] = [2, 16]

/** Failed writes before refusals stay pending until the next flush. */
const MOST_REFUSAL_TRIES = 5

/** Without a bucket, `record` is undefined. */
export interface SeenOutcome {
  readonly outcome: WriteOutcome
  readonly record: BucketRecord | undefined
  /** Took the slots of the requests; `undefined` if the write left the slots alone. */
  readonly holder?: Holder | undefined
}

interface SlotsOfWrite {
  readonly account: SlotAccount
  readonly write: SlotsWrite
  readonly taken: Slots
  readonly holder: Holder
}

interface LimitsRead {
  readonly inForce: LimitsInForce
  /** If bypassed: epoch ms until which the configuration need not be read again. */
  readonly bypassUntilMs: number | undefined
  readonly clockMs: number
}

/** A write that may have been applied. */
interface UnansweredWrite {
  readonly basis: WriteBasis
  readonly mark: WriteMark
  readonly slotMark: string | undefined
}

export const isOpen = ({isSettled, isAbandoned}: PendingRequest): boolean => !isSettled && !isAbandoned

/** Decides requests on one bucket item. Its queue makes one call at a time. */
export class BucketItem {
  readonly services: QueueServices
  readonly table: NamespaceTable
  readonly address: BucketAddress
  readonly bucket: KnownBucket
  /** Created with the first slot taken: most buckets have no in-flight limits. */
  slots: SlotAccount | undefined
  #unanswered: UnansweredWrite | undefined
  #contendedUntilMs = 0
  #keptUntilSeconds = 0
  #roundTripMs = SHORTEST_TRIP_MS

  constructor(services: QueueServices, address: BucketAddress) {
    this.services = services
    this.table = services.table
    this.address = address
    this.bucket = new KnownBucket(services.settings)
  }

  /** Takes steps until every request is decided. */
  async decide(requests: readonly PendingRequest[]): Promise<void> {
    const {firstVisits} = this.services
    const {address, bucket} = this
    // With the slots unknown, a write would charge first and take them with a second one.
    if (!bucket.state && address.shard === 0 && bucket.lastRecord?.slots) await this.read()
    const {clock, backoff} = this.table
    const startedMs = clock()
    for (let round = 0; ; round++) {
      const open = requests.filter(isOpen)
      if (open.length === 0) return
      const {state} = bucket
      const mayRefuse = state?.exists && !state.seen.record.unsupported && state.seen.record.bypassUntilMs === undefined
      if (round >= MOST_ROUNDS && mayRefuse) {
        const {record} = state.seen
        if (round >= 2 * MOST_ROUNDS)
          return this.#refuse({kind: 'refuse', requests: open, record, nowMs: bucket.time.at(clock())})
        this.#refuse(refuseMisfits(open, record, bucket.time.at(clock())))
      } else if (round >= FIRST_CONTENDED_ROUND && mayRefuse && this.#isOutrunSince(startedMs)) {
        // Decide by the stored balance: other clients are faster to take the refill since.
        const {record} = state.seen
        this.#refuse(refuseMisfits(open, record, record.state.refilledAtMs))
        if (!open.some(isOpen)) return
      } else if (round >= 2 * MOST_ROUNDS)
        throw new Throttled('acquire', new Error('the bucket changes faster than it can be read'))
      if (round >= FIRST_CONTENDED_ROUND) this.#contendedUntilMs = clock() + CONTENDED_MS
      const isContended = clock() < this.#contendedUntilMs
      if (isContended && !bucket.wouldAdmitAll(open, clock())) await pause(0, {...backoff, baseMs: SCARCE_WAIT_MS})
      else if (round >= FIRST_WAITING_ROUND)
        await pause(round - FIRST_WAITING_ROUND, {...backoff, baseMs: FIRST_WAIT_MS, maxMs: LONGEST_WAIT_MS})
      const isFirstVisit = round === 0 && !state && !bucket.lastRecord
      const isRead = isFirstVisit && (await this.#readFirst())
      const isCertain = round > 0 || bucket.isFresh(clock())
      // Never compared with the configuration: a process that decides once would miss a change.
      if ((round > 0 || isRead) && !bucket.hasCheckedLimits && bucket.wouldAdmitAny(open, clock())) bucket.noteDoubt()
      const isCheckDue = bucket.isCheckDue(clock())
      const inForce = isCheckDue ? await this.#checkLimits() : undefined
      if (!isCheckDue && !bucket.hasCheckedLimits) this.#compareAtHand()
      const clockMs = clock()
      for (const request of open) bucket.narrow(request, clockMs)
      const shown = bucket.state?.exists && address.shard === 0 ? bucket.state.seen.record : undefined
      const going = shown?.slots ? await this.#withSlots(shown, shown.slots, open, isCertain) : open
      if (going.length === 0) continue
      const rules = {isCertain, isContended}
      const step = nextStep(this.stepInput(going, clockMs, rules, inForce))
      if (step.kind === 'unsupported') return requireSupported(step.record)
      if (step.kind !== 'apply-limits') await this.#perform(step, going)
      else await this.#applyLimits(step.state, going, {isCertain, isExact: round < MOST_ROUNDS / 2})
      if (isFirstVisit) firstVisits.note(address.resource, isRead ? step.kind !== 'consume' : this.#hasOnlyShown(open))
    }
  }

  /** The requests whose slots are free. The others are refused, or wait for the next round to see a newer state. */
  async #withSlots(
    record: BucketRecord,
    slots: BucketSlots,
    open: readonly PendingRequest[],
    isCertain: boolean,
  ): Promise<readonly PendingRequest[]> {
    const account = this.#account()
    const free = new Map([...slots.limits.keys()].map(name => [name, account.freeIn(slots, name)]))
    const limits = new Map([...slots.limits].map(([name, limit]) => [name, {...limit, free: free.get(name) ?? 0}]))
    const lacks = ({slots: wanted}: PendingRequest) =>
      [...wanted].some(([name, count]) => count > (free.get(name) ?? 0))
    const short = open.filter(request => !exceedsCapacity(request.slots, slots) && lacks(request))
    // Others wait for the answer of the write that takes the slots of this batch: it may fail.
    const going: PendingRequest[] = []
    for (const request of open) {
      if (exceedsCapacity(request.slots, slots)) going.push(request)
      else if (!lacks(request)) {
        going.push(request)
        for (const [name, count] of request.slots) free.set(name, (free.get(name) ?? 0) - count)
      }
    }
    if (isCertain && short.length > 0) {
      const nowMs = this.bucket.time.at(this.table.clock())
      this.#refuse({kind: 'refuse', requests: short, record: {...record, slots: {...slots, limits}}, nowMs})
      this.services.reaper.look(record)
    } else if (going.length === 0) await this.read()
    const late = going.filter(request => request.charged && !exceedsCapacity(request.slots, slots))
    if (late.length === 0) return going
    const update = (mark: WriteMark) => slotsUpdate(this.table, this.address, record, mark)
    const step = {kind: 'consume', update, basis: basisOf(record), admits: late, nowMs: this.table.clock()} as const
    this.answer(step, await this.write(step))
    return going.filter(request => !late.includes(request))
  }

  /** Others have refilled the bucket since, by limits that need no comparison. */
  #isOutrunSince(startedMs: number): boolean {
    const {state, hasCheckedLimits} = this.bucket
    if (!state?.exists || !hasCheckedLimits || this.bucket.isCheckDue(this.table.clock())) return false
    return state.seen.record.state.refilledAtMs > startedMs
  }

  /** One literal: with every spread, an admitted request takes a quarter more CPU time. */
  stepInput(
    requests: readonly PendingRequest[],
    clockMs: number,
    {isCertain, isContended}: Pick<StepInput, 'isCertain' | 'isContended'>,
    inForce?: LimitsInForce,
  ): StepInput {
    const {settings, entities, limits} = this.services
    const {table, address, bucket} = this
    const [nowMs, roundTripMs] = [bucket.time.at(clockMs), this.#roundTripMs]
    const supposed = () => entities.suppose(address, bucket.lastRecord, inForce?.applied ?? limits.atHand(address))
    return {table, settings, address, bucket, requests, clockMs, nowMs, supposed, isCertain, isContended, roundTripMs}
  }

  /** Reads an unseen bucket if a write would probably be wasted; the write that follows requires the state read. */
  async #readFirst(): Promise<boolean> {
    const {settings, firstVisits, nextMark} = this.services
    if (!firstVisits.readFirst(this.address.resource)) return false
    try {
      const {Item} = await this.#get({ConsistentRead: false}, settings.writeTimeoutMs)
      this.bucket.learnGlance(Item, nextMark(), this.table.clock())
      return true
    } catch {
      // A write shows the bucket too, and reports the error.
      return false
    }
  }

  /** Whether the write admitted none, and a read would have shown that another write is needed. */
  #hasOnlyShown(requests: readonly PendingRequest[]): boolean {
    if (requests.some(request => request.isSettled)) return false
    return !this.bucket.state?.exists || this.bucket.wouldAdmitAny(requests, this.table.clock())
  }

  async #perform(step: QueueStep, open: readonly PendingRequest[]): Promise<void> {
    const {shards} = this.services
    switch (step.kind) {
      case 'refuse':
        return this.#refuse(step)
      case 'forget':
        return this.bucket.forget()
      case 'repair-shard-count':
        await shards.repairCount(this.address)
        return this.bucket.forget()
      case 'fill-shard': {
        const isThere = await shards.fill(this.address)
        if (!isThere) for (const request of open) request.fail(new ShardGone())
        return this.bucket.forget()
      }
      default: {
        if (step.refused) this.#refuse(step.refused)
        const sentMs = this.table.clock()
        const seen = await this.write(step)
        // One slow write counts less with each that follows.
        const tripMs = Math.max(this.table.clock() - sentMs, this.#roundTripMs * 0.75, SHORTEST_TRIP_MS)
        this.#roundTripMs = Math.min(Math.ceil(tripMs), LONGEST_TRIP_MS)
        this.answer(step, seen)
      }
    }
  }

  async #applyLimits(
    state: KnownState,
    requests: readonly PendingRequest[],
    rules: Pick<LimitStepInput, 'isCertain' | 'isExact'>,
  ): Promise<void> {
    const {settings} = this.services
    const {table, address, bucket} = this
    const {inForce, bypassUntilMs, clockMs} = await this.#readLimits(state)
    const nowMs = state.exists ? bucket.time.at(clockMs) : bucket.createdAtMs(clockMs)
    if (await this.#refuseDisabled(state, requests, inForce.applied)) return
    // In doubt until a write updates it: this one may be lost or overtaken by another client's.
    if (state.exists && !isInLine(state.seen, inForce)) bucket.noteDoubt()
    const names = new Set(inForce.applied.limits.map(limit => limit.name))
    const shared = await this.#sharedLimits(state, requests, inForce, names)
    for (const request of requests) leaveOutMissing(request, names, shared, inForce.applied.inFlight)
    const input = {state, table, address, requests, inForce, shared, bypassUntilMs, settings, nowMs, clockMs, ...rules}
    const {step, impossible} = planWithLimits(input)
    for (const [request, reason] of impossible) request.fail(reason)
    if (step) await this.#perform(step, requests)
    const after = bucket.state
    if (after?.exists && isInLine(after.seen, inForce)) bucket.noteLimitsChecked(inForce.applied, clockMs, shared)
  }

  /** The limits of the ancestors that are charged too, if a strict request names limits that the bucket lacks. */
  async #sharedLimits(
    state: KnownState,
    requests: readonly PendingRequest[],
    {family}: LimitsInForce,
    names: ReadonlySet<string>,
  ): Promise<ReadonlySet<string>> {
    const {limits, settings} = this.services
    const missing = requests.flatMap(({isStrict, asked}) =>
      isStrict ? [...asked.keys()].filter(name => !names.has(name)) : [],
    )
    const isLater = state.exists && isSameFamily(state.seen.record, family)
    const parent = chargedParent(isLater ? state.seen.record : family)
    if (missing.length === 0 || parent === undefined) return new Set()
    const namesSince = async (after?: number) => {
      const ancestors = await limits.ancestors(this.address, parent, {after})
      const found = await Promise.all(ancestors.map(each => limits.limitsOf(each, this.address.resource, {after})))
      return new Set(found.flatMap(each => each.limits.map(({name}) => name)))
    }
    try {
      const known = await namesSince()
      // Limits read earlier do not show one that was added since.
      return missing.every(name => known.has(name)) ? known : await namesSince(performance.now() - settings.denyCacheMs)
    } catch (error) {
      if (error instanceof ZaelError && error.code === 'limits.missing') return new Set()
      throw error
    }
  }

  /** False if no switch refuses. Stamps a bucket that the switch missed, for processes that read no configuration. */
  async #refuseDisabled(
    state: KnownState,
    requests: readonly PendingRequest[],
    {disabledAt}: AppliedLimits,
  ): Promise<boolean> {
    if (disabledAt === undefined) return false
    const {table, address} = this
    if (state.exists && !state.seen.record.isDisabled) {
      const {record} = state.seen
      const access = {access: 'disabled', readAtMs: table.clock()} as const
      const update = (mark: WriteMark) => stampUpdate(table, address, access, mark, record)
      // The refusal stands without the stamp.
      await this.write({update, basis: basisOf(record)}).catch(() => {})
    }
    const {entity, resource} = address
    for (const request of requests) request.fail(new ResourceDisabled(entity, resource, disabledAt, state.exists))
    return true
  }

  /** Answers the requests of a write, if it was applied. Requests that still need slots stay open. */
  answer(step: WriteStep, {outcome, record, holder}: SeenOutcome): void {
    if (!outcome.applied) return
    if (!record) {
      // Charged and gone: the charge is void, and the next step decides again.
      this.bucket.forget()
      return
    }
    const {table, address} = this
    const {refund, background} = this.services
    const {admits, isBypassed = false, nowMs} = step
    const starts = step.isBooked ? startsOf(admits, record, table.clock()) : undefined
    const {incarnation, state} = record
    // Others may have written between the charge and this state.
    const periods = periodsOf(state, outcome.isFound ? nowMs : undefined)
    for (const request of admits) {
      const {amounts, requests} = request
      const slots = holder && request.slots.size > 0 ? {address, holder, slots: request.slots} : undefined
      const fresh = {address, incarnation, isBypassed, periods, heldMilli: amounts, requests}
      const charged = request.charged ?? fresh
      request.charged = undefined
      const holding: Holding = slots ? {...charged, slots} : charged
      const wanted = address.shard === 0 && record.slots ? slotsWanted(request, record) : NO_SLOTS
      // Others may have taken the slots of a holder that did not beat in time.
      // Planted fault: work starts although its holder did not beat in time
      const isLate = slots ? !slots.holder.isFresh : wanted.size > 0
      // Planted fault: an abandoned request stays charged
      if (request.isAbandoned) request.cleanUp(refund(holding))
      else if (isLate) {
        if (slots) void this.slots?.giveBack(slots).catch(() => {})
        request.charge(charged)
        if (slots && !slots.holder.isLost) request.fail(new Unavailable('UpdateItem', false, NOT_BEATING))
      } else request.settle({holdings: [holding], record, startsAtMs: starts?.get(request)})
    }
    if (record.shardCount > 1 && (step.kind === 'rewrite' || step.kind === 'consume-from-full')) {
      const opened = sessionsOpenedAt(record, nowMs)
      if (opened.size > 0) void background.run(spreadSessions(table, record, opened, nowMs))
    }
    if (step.leftOver) this.#refuse(refuseMisfits(step.leftOver, record, nowMs))
  }

  #refuse({requests, record, nowMs}: RefuseStep): void {
    const reportedMs = Math.min(nowMs, this.table.clock())
    for (const request of requests) request.settle(this.bucket.refused(request, record, reportedMs))
    // Dead processes may have reserved what is missing.
    if (requests.some(({amounts}) => lacksQuota(record, amounts))) this.services.reaper.lookAround()
  }

  /** Sends one write and updates the known state from its response. */
  async write(
    write: GuardedWrite & Pick<WriteStep, 'isProbe' | 'changesSlots'> & {readonly admits?: readonly PendingRequest[]},
  ): Promise<SeenOutcome> {
    const {settings, nextMark, refusals, shards} = this.services
    const {table, address, bucket} = this
    const slots = this.#slotsOf(write)
    const mark = slots ? {...nextMark(), slots: slots.write} : nextMark()
    // Sent together with the first write, so that it costs no time.
    const ready = slots && slots.taken.size > 0 ? slots.holder.ready() : undefined
    ready?.catch(() => {})
    const {lastRecord, slotMark} = bucket
    // A write that probably fails carries no refusals: they would return to the tally.
    const piggyback = write.isProbe ? undefined : refusals.piggyback(address, write)
    try {
      const options = {nextMark, slotMark, timeoutMs: settings.writeTimeoutMs}
      const outcome = await sendGuarded(table, piggyback ?? write, mark, options)
      piggyback?.settle(outcome)
      if (slots && outcome.applied) slots.account.noteApplied(slots.holder, slots.taken)
      else slots?.account.noteRefused()
      const seen = bucket.learn(outcome.item, mark, table.clock())
      if (seen) shards.notice(address, seen)
      else if (!outcome.applied && outcome.isInDoubt) bucket.noteAttempt(write.basis)
      const isFound = outcome.applied && outcome.isFound
      const record = isFound ? asCharged(seen?.record, write.basis, mark, lastRecord) : seen?.record
      // A beat that fails leaves the requests without slots: see `answer`.
      if (outcome.applied) await ready?.catch(() => {})
      return {outcome, record, holder: slots?.holder}
    } catch (error) {
      if (slots && mayHaveBeenApplied(error)) slots.account.noteUnknown()
      else slots?.account.noteRefused()
      // The write may have been applied: the state may be wrong.
      this.#unanswered = mayHaveBeenApplied(error) ? {basis: write.basis, mark, slotMark} : undefined
      piggyback?.fail(error)
      bucket.forget()
      throw error
    }
  }

  /** The slots that a write takes for its requests, and those it returns. */
  #slotsOf({admits = [], basis, changesSlots}: Parameters<BucketItem['write']>[0]): SlotsOfWrite | undefined {
    const {state} = this.bucket
    if (this.address.shard > 0 || !state?.exists || !state.seen.record.slots) return undefined
    if (basis.kind !== 'revision' || changesSlots) return undefined
    const taken = sumSlots(admits)
    const account = this.#account()
    const write = account.change(state.seen.record, taken)
    return write && {account, write, taken, holder: account.holder}
  }

  /** Renews the expiry while slots are held, without a change of tokens or marks. After a failure, the next beat tries. */
  async keepAlive(): Promise<void> {
    const {table, address, bucket, services} = this
    const [holder, record] = [this.slots?.holdingId, bucket.lastRecord]
    if (holder === undefined || record?.ttlSeconds === undefined) return
    const nowMs = table.clock()
    const {limits} = shareOfRecord(record)
    const wanted = expiresAtSeconds(limits.values(), services.settings.bucketTtlMultiplier, nowMs)
    if (isExpiryFarOff(Math.max(record.ttlSeconds, this.#keptUntilSeconds), wanted, nowMs)) return
    await keepBucket(table, address, holder, wanted)
    this.#keptUntilSeconds = wanted
  }

  #account(): SlotAccount {
    this.slots ??= new SlotAccount(this.services.holders)
    return this.slots
  }

  /** Writes returned slots alone, and rules out an earlier write of unknown outcome. */
  async returnSlots(slots: SlotAccount): Promise<void> {
    const {bucket} = this
    if (slots.isUnsure || !bucket.state?.exists) await this.read()
    const {state} = bucket
    if (!state?.exists) return slots.noteGone()
    const {record} = state.seen
    // The limits were removed, and the account with them.
    if (!record.slots && !slots.isUnsure) return slots.noteReturned()
    const update = (mark: WriteMark) => slotsUpdate(this.table, this.address, record, mark)
    const {outcome} = await this.write({update, basis: basisOf(record)})
    if (outcome.applied) slots.noteCertain()
  }

  /** Finds out whether the last write was applied, if its response is missing. If not, it never will be (S6). */
  async findOutcome(): Promise<WriteOutcome> {
    const {settings, nextMark} = this.services
    const {table, bucket} = this
    const {basis, mark, slotMark} = this.#unanswered as UnansweredWrite
    const item = await this.read()
    // Marks increase: a later one of this process is that of an earlier attempt to rule the write out.
    const inSlot = markIn(item, mark.slot) ?? ''
    const isRuledOut = inSlot > mark.nonce && inSlot < (mark.upTo ?? '')
    const options = {nextMark, slotMark: isRuledOut ? inSlot : slotMark, timeoutMs: settings.writeTimeoutMs}
    const outcome = await ruleOut(table, basis, mark, item, options)
    this.#unanswered = undefined
    bucket.learn(outcome.item, mark, table.clock())
    return outcome
  }

  /** The time limit bounds all attempts together, as for a write. */
  async read(): Promise<Item | undefined> {
    const {settings, nextMark} = this.services
    const {table, bucket} = this
    const endMs = performance.now() + settings.writeTimeoutMs
    const attempt = () => this.#get({ConsistentRead: true}, Math.max(1, endMs - performance.now()))
    const retryable = (error: unknown) => isRetryable(error) && performance.now() < endMs
    const {Item} = await retrying(attempt, {...table.backoff, retryable})
    bucket.learn(Item, nextMark(), table.clock())
    return Item
  }

  #get(options: {readonly ConsistentRead: boolean}, timeoutMs: number): Promise<OperationOutput<'GetItem'>> {
    const {transport, name, namespace} = this.table
    const {entity, resource, shard} = this.address
    const Key = wireKey(keys.bucket(namespace, entity, resource, shard))
    return transport.send('GetItem', {TableName: name, Key, ...options}, {timeoutMs})
  }

  /** Writes refusals that did not piggyback on another write. */
  async writeRefusals(): Promise<void> {
    const {table, address, bucket} = this
    const {refusals} = this.services
    let [writes, tries] = [refusals.writesFor(address), MOST_REFUSAL_TRIES]
    while (writes > 0 && tries > 0 && refusals.isWaiting(address)) {
      const seen = {limitsRevision: bucket.lastRecord?.limitsRevision}
      const update = (mark: WriteMark) => refusalUpdate(table, address, seen, mark)
      const {outcome, record} = await this.write({update, basis: {kind: 'revision', revision: seen.limitsRevision}})
      if (!record) return refusals.drop(address)
      if (outcome.applied) writes--
      else tries--
    }
  }

  /** Before the first check is due: a cached configuration that differs casts doubt on the bucket. */
  #compareAtHand(): void {
    const {state} = this.bucket
    const applied = state?.exists && this.services.limits.atHand(this.address, this.#limitsMs())
    if (applied && !hasLimits(state.seen, applied)) this.bucket.noteDoubt()
  }

  async #checkLimits(): Promise<LimitsInForce> {
    const {table, address, bucket} = this
    const {state} = bucket
    const {limits, settings} = this.services
    const inForce = await limits.inForce(address, {atMs: this.#limitsMs()})
    const nowMs = table.clock()
    if (state?.exists && isUpToDate(state.seen, inForce, settings, nowMs))
      bucket.noteLimitsChecked(inForce.applied, nowMs)
    return inForce
  }

  async #readLimits(state: KnownState): Promise<LimitsRead> {
    const {limits, settings} = this.services
    const {address, bucket} = this
    const {seenAtMs} = bucket
    const [sinceMs, readAtMs] = [performance.now(), this.table.clock()]
    const atMs = this.#limitsMs()
    // Limits read before the bucket was seen may be older than its own and never replace them (decision 25).
    const newest = {after: seenAtMs, atMs}
    const mayBeOld = !state.exists || state.seen.record.validUntilMs === 0
    let inForce = await limits.inForce(address, mayBeOld ? newest : {atMs})
    if (!mayBeOld && differsFrom(state.seen, inForce)) inForce = await limits.inForce(address, newest)
    // A missing or unstamped bucket does not show whether the switch was lifted since it was read.
    const isStamped = state.exists && state.seen.record.isDisabled
    if (inForce.applied.disabledAt !== undefined && !isStamped)
      inForce = await limits.inForce(address, {after: performance.now() - settings.denyCacheMs, atMs})
    // The stamp of a bypass expires relative to the configuration read.
    if (inForce.applied.isBypassed) inForce = await limits.inForce(address, {after: sinceMs, atMs})
    const {isBypassed, changesAtMs = Infinity} = inForce.applied
    const bypassUntilMs = isBypassed ? Math.min(readAtMs + STAMP_MS, changesAtMs) : undefined
    const clockMs = this.table.clock()
    bucket.noteLimitsChecked(inForce.applied, clockMs)
    return {inForce, bypassUntilMs, clockMs}
  }

  /** Epoch ms. A boost that a faster clock ended stays ended: limits that come and go would be full each time. */
  #limitsMs(): number {
    const {state} = this.bucket
    return Math.max(this.table.clock(), state?.exists ? state.seen.record.state.refilledAtMs : 0)
  }
}
