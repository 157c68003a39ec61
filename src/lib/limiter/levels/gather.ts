import {type Amounts, hasKinds, periodsOf} from '../../core/buckets/bucket.js'
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
import {sessionsOpenedAt} from '../../repository/buckets/session-spread.js'
import {readSeenShards} from '../../repository/buckets/split.js'
import {MARK_SLOTS, plannedUpdate} from '../../repository/buckets/writes.js'
import type {TransactItem} from '../../repository/table/transact.js'
import {requireSupported} from '../../repository/table/unsupported-feature.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {expiryOf, hasLimits, impossibility, topUpsOf} from '../queue/apply-limits.js'
import {shareOfRecord} from '../queue/known-bucket.js'
import {explainRefusal, type Refusal} from '../queue/refuse.js'
import {ResourceDisabled} from '../refusal/errors.js'
import {type Grant, grantOf} from '../request/grant.js'
import type {AppliedLimits} from '../request/limit-source.js'
import {knownAmounts} from '../request/pending-request.js'
import type {BucketQueues, BucketRequest} from './bucket-queues.js'

const ATTEMPTS = 5

/** Admits requests that no single shard can: reads all shards and takes a part from each. */
export class ShardGatherer {
  readonly #queues: BucketQueues
  readonly #tails = new Map<string, Promise<void>>()

  constructor(queues: BucketQueues) {
    this.#queues = queues
  }

  /** Serialises gathers of one bucket: concurrent ones would only make each other fail. */
  async gather(request: BucketRequest, count: number): Promise<Grant | Refusal> {
    const key = `${request.entity}#${request.resource}`
    const mine = (this.#tails.get(key) ?? Promise.resolve()).then(() => this.#gather(request, count))
    const tail = mine.then(
      () => {},
      () => {},
    )
    this.#tails.set(key, tail)
    try {
      return await mine
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key)
    }
  }

  async #gather(request: BucketRequest, count: number): Promise<Grant | Refusal> {
    const {deadline} = request
    deadline.check()
    // Check again after queueing: the previous gather read all shards and may have shown that they hold too little.
    const known = this.#queues.knownRefusals(request).byAll()
    if (known) return known
    const gathered = await this.#readAndTake(request, count)
    if ('holdings' in gathered) {
      // The caller gave up meanwhile: refund before throwing the reason.
      if (deadline.isOver) void this.#queues.refund(gathered.holdings)
      deadline.check()
    }
    return gathered
  }

  /** Asks one shard if it suffices, else takes parts in a transaction. Losing every race is a refusal, not an error. */
  async #readAndTake(request: BucketRequest, expectedCount: number): Promise<Grant | Refusal> {
    const {entity, resource, level} = request
    const {table, limits, shards, settings} = this.#queues.services
    let count = expectedCount
    let isFilled = false
    for (let attempt = 1; ; attempt++) {
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
      const [first] = seen.values()
      if (!first) return this.#askFirst(request)
      if (applied.isBypassed) {
        // No shard needs tokens; the shards that refused have not followed the switch yet.
        const grant = await this.#askOne(request, first, sinceMs, applied)
        if (grant) return grant
        if (attempt >= ATTEMPTS)
          throw new Throttled('acquire', new Error('the switch changes faster than it can be read'))
        continue
      }
      const isBehind = [...seen.values()].some(({record}) => record.shardCount < count)
      if ((seen.size < count || isBehind) && !isFilled) {
        // Without all shards, a request for the whole capacity never fits. A shard that is behind gains too much.
        await shards.fill({entity, resource, shard: count - 1})
        isFilled = true
        continue
      }
      const nowMs = table.clock()
      const amounts = chargedAmounts(request, applied)
      const plans = new Map(
        [...seen].map(([shard, bucket]) => {
          const {decisionMs} = this.#queues.at({entity, resource, shard})
          return [shard, planBucket(bucket, decisionMs, applied.limits, {opensSessions: true})]
        }),
      )
      const shares = new Map([...plans].map(([shard, plan]) => [shard, shareOfRecord(plannedRecord(plan))]))
      const parts = planGather(shares, amounts, nowMs)
      if (parts) {
        const [onlyShard, another] = parts.keys()
        const grant =
          another === undefined
            ? await this.#askOne(request, seen.get(onlyShard as number) as SeenBucket, sinceMs, applied)
            : await this.#takeParts(request, plans, parts, applied)
        if (grant) return grant
      }
      if (!parts) {
        // Only all shards together show the top-ups.
        const tooLarge = impossibility(
          request,
          amounts,
          applied,
          topUpsOf(
            [...plans.values()].map(plan => plannedRecord(plan)),
            nowMs,
          ),
        )
        if (tooLarge) throw tooLarge
      }
      if (!parts || attempt >= ATTEMPTS) {
        for (const {record} of seen.values())
          this.#queues.at({entity, resource, shard: record.shard}).learnRecord(record, sinceMs)
        // The wait is exact only for shards that have the limits in force.
        const told = await Promise.all(
          [...plans.values()].map(async plan => {
            const isOutdated = changesLimits(plan) || !hasLimits(plan.seen, applied)
            if (!isOutdated) return hasKinds(plan.seen.record.state) ? plan.seen.record : plannedRecord(plan)
            const inLine = planBucket(plan.seen, nowMs, applied.limits)
            await this.#bringInLine(inLine, applied)
            return plannedRecord(inLine)
          }),
        )
        // A period that starts with the first use has not started: its schedule may allow more by then.
        return explainRefusal({records: told.map(enforced), amounts, nowMs, source: applied.source}, level)
      }
      await pause(attempt, {...table.backoff, baseMs: 5})
    }
  }

  async #askFirst(request: BucketRequest): Promise<Grant | Refusal> {
    const {entity, resource} = request
    this.#queues.at({entity, resource, shard: 0}).forget()
    const answer = await this.#queues.ask(0, request)
    if (answer.admitted) return grantOf(answer)
    const {record, amounts, nowMs, source} = answer
    return explainRefusal({records: [record], amounts, nowMs, source}, request.level)
  }

  async #askOne(
    request: BucketRequest,
    seen: SeenBucket,
    sinceMs: number,
    applied: AppliedLimits,
  ): Promise<Grant | undefined> {
    const {entity, resource} = request
    const {record} = seen
    const queue = this.#queues.at({entity, resource, shard: record.shard})
    queue.learnRecord(record, sinceMs)
    if (!hasLimits(seen, applied)) queue.noteDoubt()
    const answer = await this.#queues.ask(record.shard, request)
    return answer.admitted ? grantOf(answer) : undefined
  }

  /** Writes the limits in force to a shard. Ignores a lost race: the winner did so, or the next request notices. */
  async #bringInLine(plan: BucketPlan, applied: AppliedLimits): Promise<void> {
    const {table, settings, nextMark} = this.#queues.services
    const mark = nextMark()
    const ttlSeconds = expiryOf(plan.seen.record, applied, plannedLimits(plan), settings, table.clock())
    const update = plannedUpdate(table, plan, {amounts: new Map(), ttlSeconds, isExact: true, opens: true}, mark)
    const sent = sendMarked(table, update, mark, {timeoutMs: settings.writeTimeoutMs})
    const isWritten = await sent.then(
      ({applied}) => applied,
      () => false,
    )
    this.#queues.at(plan.seen.record).forget(isWritten ? mark : undefined)
  }

  /** Takes from several shards or from none; `undefined` if another client wrote in between. */
  async #takeParts(
    {entity, resource, requests}: BucketRequest,
    plans: ReadonlyMap<number, BucketPlan>,
    parts: GatherPlan,
    applied: AppliedLimits,
  ): Promise<Grant | undefined> {
    const {table, settings, nextMark} = this.#queues.services
    const nowMs = table.clock()
    const [countingShard] = parts.keys()
    const counted = (shard: number) => (shard === countingShard ? requests : 0)
    const items = [...parts].map(([shard, taken]): TransactItem => {
      const plan = plans.get(shard) as BucketPlan
      const ttlSeconds = expiryOf(plan.seen.record, applied, plannedLimits(plan), settings, nowMs)
      // The transaction's token tells. A write of the queue may be under way, and needs its own slot.
      const {slot, nonce} = nextMark()
      const mark = {slot: (slot + 1) % MARK_SLOTS, nonce}
      // Planted fault: a gathered request is charged nothing
      const write = {amounts: taken, requests: counted(shard), ttlSeconds, opens: true}
      const {ReturnValues: _, ...update} = plannedUpdate(table, plan, write, mark)
      return {Update: update as NonNullable<TransactItem['Update']>}
    })
    const {seen} = plans.get(countingShard as number) as BucketPlan
    try {
      if (!(await writeTogether(table, items, seen))) return undefined
    } catch (error) {
      // The transaction may have been applied: the known states may be wrong.
      for (const shard of parts.keys()) this.#queues.at({entity, resource, shard}).forget()
      throw error
    }
    const charged = [...plans].map(([shard, plan]) => plannedRecord(plan, parts.get(shard)))
    // The queues know the state before the transaction, maybe from an earlier quota period.
    for (const record of charged)
      if (parts.has(record.shard)) this.#queues.at({entity, resource, shard: record.shard}).noteOvertaken(record)
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
    if (opened?.size) this.#queues.services.onOpened(opener as BucketRecord, opened, openedMs)
    // Soft limits are charged at the shard that counts the request.
    const record = charged.find(({shard}) => shard === countingShard) as BucketRecord
    return {holdings, record, shards: charged}
  }
}

function chargedAmounts({amounts, level, isStrict}: BucketRequest, {limits}: AppliedLimits): Amounts {
  if (level === 'entity' && isStrict) return amounts
  return knownAmounts(amounts, new Set(limits.map(({name}) => name)))
}

/** Drops the stamp of an ended bypass, so that it does not admit. */
const enforced = (record: BucketRecord): BucketRecord => ({...record, bypassUntilMs: undefined})

const range = (count: number): number[] => Array.from({length: count}, (_, shard) => shard)
