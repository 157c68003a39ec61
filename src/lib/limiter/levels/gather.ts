import {type Amounts, type BucketState, hasKinds, periodsOf, sumAmounts} from '../../core/buckets/bucket.js'
import {type GatherPlan, planGather} from '../../core/buckets/shards.js'
import {Throttled} from '../../dynamo/errors.js'
import {pause} from '../../dynamo/retry.js'
import {writeTogether} from '../../repository/buckets/joint-write.js'
import {sendMarked} from '../../repository/buckets/marked-write.js'
import {
  type BucketPlan,
  changesLimits,
  planBucket,
  plannedLimits,
  type SeenBucket,
} from '../../repository/buckets/plan.js'
import {plannedRecord} from '../../repository/buckets/rewrite.js'
import {sessionsOpenedAt, spreadSessions} from '../../repository/buckets/session-spread.js'
import {readSeenShards} from '../../repository/buckets/split.js'
import {GATHER_SLOT, plannedUpdate, type WriteMark} from '../../repository/buckets/writes.js'
import {type TransactItem, updateItem} from '../../repository/table/transact.js'
import {requireSupported} from '../../repository/table/unsupported-feature.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {expiryOf, hasLimits, impossibility, topUpsOf} from '../queue/apply-limits.js'
import {shareOfRecord} from '../queue/known-bucket.js'
import {explainRefusal, type Refusal} from '../queue/refuse.js'
import {ResourceDisabled} from '../refusal/errors.js'
import type {Grant} from '../request/grant.js'
import type {AppliedLimits} from '../request/limit-source.js'
import {knownAmounts, type Refused} from '../request/pending-request.js'
import {type BucketQueues, type BucketRequest, KnownRefusals} from './bucket-queues.js'

const ATTEMPTS = 5

/** A request that waits for a read of all shards. */
interface Gathering {
  readonly request: BucketRequest
  readonly count: number
  readonly settle: (answer: Grant | Refusal | Promise<Grant | Refusal>) => void
  readonly fail: (error: unknown) => void
  attempts: number
}

/** The result of reading all shards once. */
interface Look {
  readonly seen: ReadonlyMap<number, SeenBucket>
  readonly plans: ReadonlyMap<number, BucketPlan>
  readonly applied: AppliedLimits
  /** Epoch ms: before the shards were read, and after. */
  readonly sinceMs: number
  readonly nowMs: number
  /** The plans by the limits in force, once a request was refused. */
  inLine?: Promise<ReadonlyMap<number, BucketPlan>>
}

/** Admits requests that no single shard can: reads all shards and takes a part from each. */
export class ShardGatherer {
  readonly #queues: BucketQueues
  /** By bucket. The requests that arrive during one look share the next. */
  readonly #waiting = new Map<string, Gathering[]>()

  constructor(queues: BucketQueues) {
    this.#queues = queues
  }

  gather(request: BucketRequest, count: number): Promise<Grant | Refusal> {
    return new Promise((resolve, reject) => {
      this.#enqueue({request, count, attempts: 0, settle: resolve, fail: reject})
    })
  }

  #enqueue(gathering: Gathering): void {
    const key = `${gathering.request.entity}#${gathering.request.resource}`
    const waiting = this.#waiting.get(key)
    if (waiting) waiting.push(gathering)
    else {
      this.#waiting.set(key, [gathering])
      void this.#run(key)
    }
  }

  async #run(key: string): Promise<void> {
    for (;;) {
      const batch = this.#waiting.get(key) ?? []
      if (batch.length === 0) break
      this.#waiting.set(key, [])
      const open = batch.filter(gathering => !this.#isSettledNow(gathering))
      try {
        if (open.length > 0) this.#waiting.get(key)?.unshift(...(await this.#lookAndTake(open)))
      } catch (error) {
        for (const {fail} of open) fail(error)
      }
    }
    this.#waiting.delete(key)
  }

  /** The look before may have shown that all shards hold too little, and the caller may have given up. */
  #isSettledNow({request, settle, fail}: Gathering): boolean {
    try {
      request.deadline.check()
    } catch (error) {
      fail(error)
      return true
    }
    const known = new KnownRefusals(this.#queues, request).byAll()
    if (known) settle(known)
    return known !== undefined
  }

  /** Resolves to the requests that need another look, since one before them takes from several shards. */
  async #lookAndTake(batch: readonly Gathering[]): Promise<readonly Gathering[]> {
    const [{request}] = batch as [Gathering]
    const {entity, resource} = request
    const look = await this.#look(entity, resource, Math.max(...batch.map(({count}) => count)))
    if (!look) {
      for (const gathering of batch) gathering.settle(this.#askFirst(gathering.request))
      return []
    }
    const {applied, plans, nowMs, seen} = look
    const taken = new Map<number, Amounts>()
    const asked: Promise<void>[] = []
    for (const [at, gathering] of batch.entries()) {
      const amounts = chargedAmounts(gathering.request, applied)
      // If bypassed, no shard needs tokens; the shards that refused have not followed the switch yet.
      const parts = planGather(sharesOf(plans, taken), applied.isBypassed ? new Map() : amounts, nowMs)
      if (!parts) {
        gathering.settle(this.#refuse(gathering.request, look, taken))
        continue
      }
      const [shard = [...seen.keys()][0] as number, another] = parts.keys()
      if (another === undefined) {
        taken.set(shard, sumAmounts([{amounts: taken.get(shard) ?? new Map()}, {amounts}]))
        asked.push(this.#askShard(gathering, seen.get(shard) as SeenBucket, look, taken))
        continue
      }
      // Its transaction needs the shards as they were seen.
      if (asked.length > 0) {
        await Promise.all(asked)
        return batch.slice(at)
      }
      const grant = await this.#takeParts(gathering.request, plans, parts, applied)
      if (grant) this.#settleGrant(gathering, grant)
      else await this.#tryAgain(gathering, look)
      return batch.slice(at + 1)
    }
    // The next look must include these charges.
    await Promise.all(asked)
    return []
  }

  /** Through the queue of the shard, which batches requests. Never rejects. */
  async #askShard(
    gathering: Gathering,
    seen: SeenBucket,
    look: Look,
    taken: ReadonlyMap<number, Amounts>,
  ): Promise<void> {
    const {request, settle, fail} = gathering
    const {bucket} = this.#queues.at(seen.record)
    try {
      bucket.learnRecord(seen.record, look.sinceMs, this.#queues.services.table.clock())
      if (!hasLimits(seen, look.applied)) bucket.noteDoubt()
      const answer = await this.#queues.ask(seen.record.shard, request)
      if ('holdings' in answer) this.#settleGrant(gathering, answer)
      else if (this.#isEnoughWithout(answer, request, look, taken)) await this.#tryAgain(gathering, look)
      else settle(this.#refuse(request, look, taken, answer.record))
    } catch (error) {
      fail(error)
    }
  }

  /** Another client was faster. Losing every race is a refusal, not an error. */
  async #tryAgain(gathering: Gathering, look: Look): Promise<void> {
    const {request, settle} = gathering
    if (++gathering.attempts < ATTEMPTS) {
      await pause(gathering.attempts, {...this.#queues.services.table.backoff, baseMs: 5})
      this.#enqueue(gathering)
    } else if (look.applied.isBypassed)
      throw new Throttled('acquire', new Error('the switch changes faster than it can be read'))
    else settle(this.#refuse(request, look, new Map()))
  }

  /** Whether the other shards hold enough for a request that a shard has refused since the look. */
  #isEnoughWithout(
    {record}: Refused,
    request: BucketRequest,
    look: Look,
    taken: ReadonlyMap<number, Amounts>,
  ): boolean {
    const {plans, applied, nowMs} = look
    if (applied.isBypassed) return true
    const shares = sharesOf(plans, taken).set(record.shard, shareOfRecord(record))
    return planGather(shares, chargedAmounts(request, applied), nowMs) !== undefined
  }

  /** `undefined` without a bucket. */
  async #look(entity: string, resource: string, expectedCount: number): Promise<Look | undefined> {
    const {table, limits, shards, settings} = this.#queues.services
    let count = expectedCount
    for (let isFilled = false; ; ) {
      const sinceMs = table.clock()
      const [seen, cached] = await Promise.all([
        readSeenShards(table, entity, resource, range(count)),
        limits.limitsOf(entity, resource),
      ])
      const seenAtMs = performance.now()
      for (const {record} of seen.values()) requireSupported(record)
      // As for a single bucket: limits read before the shards never replace theirs (decision 25).
      const isChange = [...seen.values()].some(bucket => !hasLimits(bucket, cached))
      const atMs = Math.max(table.clock(), ...[...seen.values()].map(({record}) => record.state.refilledAtMs))
      const applied = isChange ? await limits.limitsOf(entity, resource, {after: seenAtMs, atMs}) : cached
      if (applied.disabledAt !== undefined)
        throw new ResourceDisabled(entity, resource, applied.disabledAt, seen.size > 0)
      const real = Math.max(0, ...[...seen.values()].map(({record}) => record.shardCount))
      if (real > count && real <= settings.maxShards) {
        // Split meanwhile: with shards missing, a bucket seems smaller than it is.
        count = real
        continue
      }
      if (seen.size === 0) return undefined
      const isBehind = [...seen.values()].some(({record}) => record.shardCount < count)
      if ((seen.size < count || isBehind) && !isFilled && !applied.isBypassed) {
        // Without all shards, a request for the whole capacity never fits. A shard that is behind gains too much.
        await shards.fill({entity, resource, shard: count - 1})
        isFilled = true
        continue
      }
      const plans = new Map(
        [...seen].map(([shard, each]) => {
          const {bucket} = this.#queues.at({entity, resource, shard})
          return [shard, planBucket(each, bucket.time.at(table.clock()), applied.limits, {opensSessions: true})]
        }),
      )
      return {seen, plans, applied, sinceMs, nowMs: table.clock()}
    }
  }

  #settleGrant({request, settle, fail}: Gathering, grant: Grant): void {
    const {deadline} = request
    // The caller gave up meanwhile: refund before throwing the reason.
    if (deadline.isOver) void this.#queues.refund(grant.holdings)
    try {
      deadline.check()
      settle(grant)
    } catch (error) {
      fail(error)
    }
  }

  async #refuse(
    request: BucketRequest,
    look: Look,
    taken: ReadonlyMap<number, Amounts>,
    newest?: BucketRecord,
  ): Promise<Refusal> {
    const {plans, applied, nowMs} = look
    const amounts = chargedAmounts(request, applied)
    // Only all shards together show the top-ups.
    const records = [...plans.values()].map(plan => plannedRecord(plan))
    const tooLarge = impossibility(request, amounts, applied, topUpsOf(records, nowMs))
    if (tooLarge) throw tooLarge
    look.inLine ??= this.#bringInLine(look)
    const reported = [...(await look.inLine)].map(([shard, plan]) => {
      if (shard === newest?.shard) return newest
      const isUntouched = plan === plans.get(shard) && !taken.has(shard) && hasKinds(plan.seen.record.state)
      return isUntouched ? plan.seen.record : plannedRecord(plan, taken.get(shard))
    })
    // A period that starts with the first use has not started: its schedule may allow more by then.
    return explainRefusal({records: reported.map(enforced), amounts, nowMs, source: applied.source}, request.level)
  }

  /** The wait is exact only for shards that have the limits in force. */
  async #bringInLine({seen, plans, applied, sinceMs, nowMs}: Look): Promise<ReadonlyMap<number, BucketPlan>> {
    const {clock} = this.#queues.services.table
    for (const {record} of seen.values()) this.#queues.at(record).bucket.learnRecord(record, sinceMs, clock())
    const inLine = new Map(plans)
    await Promise.all(
      [...plans].map(async ([shard, plan]) => {
        if (!changesLimits(plan) && hasLimits(plan.seen, applied)) return
        const changed = planBucket(plan.seen, nowMs, applied.limits)
        inLine.set(shard, changed)
        await this.#writeLimits(changed, applied)
      }),
    )
    return inLine
  }

  async #askFirst(request: BucketRequest): Promise<Grant | Refusal> {
    const {entity, resource} = request
    this.#queues.at({entity, resource, shard: 0}).bucket.forget()
    const answer = await this.#queues.ask(0, request)
    if ('holdings' in answer) return answer
    const {record, amounts, nowMs, source} = answer
    return explainRefusal({records: [record], amounts, nowMs, source}, request.level)
  }

  /** Writes the limits in force to a shard. Ignores a lost race: the winner did so, or the next request notices. */
  async #writeLimits(plan: BucketPlan, applied: AppliedLimits): Promise<void> {
    const {table, settings} = this.#queues.services
    const mark = this.#newMark()
    const ttlSeconds = expiryOf(plan.seen.record, applied, plannedLimits(plan), settings, table.clock())
    const update = plannedUpdate(table, plan, {amounts: new Map(), ttlSeconds, isExact: true, opens: true}, mark)
    await sendMarked(table, update, mark, {timeoutMs: settings.writeTimeoutMs}).catch(() => {})
    this.#queues.at(plan.seen.record).bucket.forgetState()
  }

  /** The aggregator takes a write without a mark for a request of another client. */
  #newMark(): WriteMark {
    return {slot: GATHER_SLOT, nonce: this.#queues.services.nextMark().nonce}
  }

  /** Takes from several shards or from none; `undefined` if another client wrote in between. */
  async #takeParts(
    {entity, resource, requests}: BucketRequest,
    plans: ReadonlyMap<number, BucketPlan>,
    parts: GatherPlan,
    applied: AppliedLimits,
  ): Promise<Grant | undefined> {
    const {table, settings} = this.#queues.services
    const nowMs = table.clock()
    const [countingShard] = parts.keys()
    const counted = (shard: number) => (shard === countingShard ? requests : 0)
    const items = [...parts].map(([shard, taken]): TransactItem => {
      const plan = plans.get(shard) as BucketPlan
      const ttlSeconds = expiryOf(plan.seen.record, applied, plannedLimits(plan), settings, nowMs)
      // Planted fault: a gathered request is charged nothing
      const write = {amounts: taken, requests: counted(shard), ttlSeconds, opens: true}
      return updateItem(plannedUpdate(table, plan, write, this.#newMark()))
    })
    const {seen} = plans.get(countingShard as number) as BucketPlan
    try {
      if (!(await writeTogether(table, items, seen))) return undefined
    } catch (error) {
      // The transaction may have been applied: the known states may be wrong.
      for (const shard of parts.keys()) this.#queues.at({entity, resource, shard}).bucket.forgetState()
      throw error
    }
    const charged = [...plans].map(([shard, plan]) => plannedRecord(plan, parts.get(shard)))
    // The queues know the state before the transaction, maybe from an earlier quota period.
    for (const record of charged) if (parts.has(record.shard)) this.#queues.at(record).bucket.forgetState(record)
    const holdings = [...parts].map(([shard, taken]) => {
      const {incarnation, state} = charged.find(record => record.shard === shard) as BucketRecord
      return {
        address: {entity, resource, shard},
        incarnation,
        isBypassed: false,
        periods: periodsOf(state),
        heldMilli: new Map(taken),
        requests: counted(shard),
      }
    })
    const [opener] = charged.filter(({shard}) => parts.has(shard))
    const {nowMs: openedMs} = [...plans.values()][0] as BucketPlan
    const opened = opener && sessionsOpenedAt(opener, openedMs)
    if (opened?.size) void this.#queues.background.run(spreadSessions(table, opener as BucketRecord, opened, openedMs))
    // Soft limits are charged at the shard that counts the request.
    const record = charged.find(({shard}) => shard === countingShard) as BucketRecord
    return {holdings, record, shards: charged}
  }
}

/** Balances of the shards after the charges of earlier requests. */
function sharesOf(
  plans: ReadonlyMap<number, BucketPlan>,
  taken: ReadonlyMap<number, Amounts>,
): Map<number, BucketState> {
  return new Map([...plans].map(([shard, plan]) => [shard, shareOfRecord(plannedRecord(plan, taken.get(shard)))]))
}

function chargedAmounts({amounts}: BucketRequest, {limits}: AppliedLimits): Amounts {
  return knownAmounts(amounts, new Set(limits.map(({name}) => name)))
}

/** Drops the stamp of an ended bypass, so that it does not admit. */
const enforced = (record: BucketRecord): BucketRecord => ({...record, bypassUntilMs: undefined})

const range = (count: number): number[] => Array.from({length: count}, (_, shard) => shard)
