import type {Amounts, BucketLimit} from '../../core/buckets/bucket.js'
import {availableTogether} from '../../core/buckets/shards.js'
import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import type {Limit} from '../../core/limits/limit.js'
import {isBypassedAt, STAMP_MS} from '../../core/limits/limit-kind.js'
import {type LimitState, longestOf} from '../../core/limits/limit-state.js'
import {toTokens} from '../../core/token-math.js'
import {Buckets, visibleLimits} from '../../repository/buckets/buckets.js'
import {planBucket, type SeenBucket, startingLimit} from '../../repository/buckets/plan.js'
import {plannedRecord} from '../../repository/buckets/rewrite.js'
import {readRealShards} from '../../repository/buckets/split.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import {requireSupported} from '../../repository/table/unsupported-feature.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import {chargedParent} from '../../schema/family.js'
import {NO_SLOTS, slotsWanted} from '../holders/slot-account.js'
import {shareOfRecord} from '../queue/known-bucket.js'
import {explainRefusal} from '../queue/refuse.js'
import {ResourceDisabled, unknownLimit} from '../refusal/errors.js'
import type {AppliedLimits} from '../request/limit-source.js'
import {knownAmounts} from '../request/pending-request.js'
import type {NamespaceLimiter} from './namespace-limiter.js'

/** The decision an acquire would get now. */
export interface CheckResult {
  readonly admitted: boolean
  /** 0 if admitted, `null` if never. */
  readonly retryAfterMs: number | null
  /** A switch bypasses the limits: the request would be counted, and nothing taken. */
  readonly bypassed: boolean
  readonly statuses: readonly LimitState[]
  /** Requested limits that are not configured, so they don't count. */
  readonly unlimited: readonly string[]
}

export interface Availability {
  available(): Record<string, number>
  check(amounts: Amounts, isStrict: boolean): CheckResult
}

interface Level {
  readonly level: LimitState['level']
  readonly applied: AppliedLimits
  /** All shards, refilled to now and updated to the limits in force. */
  readonly records: readonly BucketRecord[]
  readonly isStored: boolean
}

export async function readAvailability(
  limiter: NamespaceLimiter,
  entity: string,
  resource: string,
): Promise<Availability> {
  const nowMs = limiter.table.clock()
  const levels = await readLevels(limiter, entity, resource, nowMs)
  return {
    available: () => {
      const left = new Map<string, number>()
      const [own, ...parents] = levels.map(leftOf)
      for (const [name, amount] of own ?? [])
        left.set(name, Math.min(amount, ...parents.map(parent => parent.get(name) ?? amount)))
      return Object.fromEntries(left)
    },
    check: (amounts, isStrict) => {
      const tokens = levels.map(({applied}) => new Set(applied.limits.map(({name}) => name)))
      const known = levels.map(
        ({applied}) => new Set([...applied.limits.map(({name}) => name), ...applied.inFlight.keys()]),
      )
      if (isStrict)
        checkKnown(
          entity,
          resource,
          amounts,
          known.flatMap(names => [...names]),
        )
      const answers = levels.map(({records, applied, level}, at) => {
        const asked = knownAmounts(amounts, tokens[at] ?? new Set())
        const demand = {asked: amounts, takesSlots: true, without: undefined}
        const slots = records[0] ? slotsWanted(demand, records[0]) : NO_SLOTS
        return explainRefusal({records, amounts: asked, slots, nowMs, source: applied.source}, level)
      })
      const statuses = answers.flatMap(answer => answer.statuses)
      const refusing = answers.filter(answer => answer.statuses.some(status => status.exceeded))
      const admitted = refusing.length === 0
      return {
        admitted,
        retryAfterMs: admitted ? 0 : longestOf(refusing.map(answer => answer.retryAfterMs)),
        bypassed: levels[0]?.records.some(record => isBypassedAt(record, nowMs)) ?? false,
        statuses,
        unlimited: [...amounts.keys()].filter(name => !known.some(names => names.has(name))),
      }
    },
  }
}

/** The entity and the ancestors it is charged with, as their buckets say: a move shows there first. */
async function readLevels(
  limiter: NamespaceLimiter,
  entity: string,
  resource: string,
  nowMs: number,
): Promise<readonly Level[]> {
  const {limits} = limiter
  const bucket = {entity, resource}
  const ancestors = async (asked?: {readonly after: number}) =>
    limits.ancestors(bucket, chargedParent((await limits.inForce(bucket, asked)).family), asked)
  const charged = await ancestors()
  const seenFromMs = performance.now()
  const read = (each: string) => readLevel(limiter, each, resource, each === entity ? 'entity' : 'parent', nowMs)
  const levels = await Promise.all([entity, ...charged].map(read))
  const isMoved = levels.some(
    ({isStored, records}, at) =>
      isStored && at + 1 < limiter.levels.most && records.some(record => chargedParent(record) !== charged[at]),
  )
  if (!isMoved) return levels
  const now = await ancestors({after: seenFromMs})
  return Promise.all(
    [entity, ...now].map((each, at) => (each === [entity, ...charged][at] ? (levels[at] as Level) : read(each))),
  )
}

async function readLevel(
  {table, limits, settings}: NamespaceLimiter,
  entity: string,
  resource: string,
  level: Level['level'],
  nowMs: number,
): Promise<Level> {
  const known = await limits.limitsOf(entity, resource)
  const seenFromMs = performance.now()
  const shards = await readRealShards(table, entity, resource, settings.maxShards)
  // A bucket's stamp shows a switch thrown since the configuration was read.
  const isKnown = [...shards.values()].every(({isDisabled = false}) => isDisabled === (known.disabledAt !== undefined))
  const applied = isKnown ? known : await limits.limitsOf(entity, resource, {after: seenFromMs})
  if (applied.disabledAt !== undefined) throw new ResourceDisabled(entity, resource, applied.disabledAt)
  for (const record of shards.values()) requireSupported(record)
  const records = [...shards.values()].map(record =>
    currentRecord({record, incomplete: new Map()}, nowMs, applied.limits),
  )
  const isStored = records.length > 0
  const found = isStored ? records : [untouched({namespace: table.namespace, entity, resource}, applied.limits, nowMs)]
  return {level, applied, isStored, records: found.map(record => asSwitched(record, applied.isBypassed, nowMs))}
}

export function currentRecord(seen: SeenBucket, nowMs: number, inForce?: readonly Limit[]): BucketRecord {
  return plannedRecord(planBucket(seen, nowMs, inForce, {opensSessions: true}))
}

/** The bucket as a request would find it: bypassed by the switch in force, or until the last stamp expires. */
export function asSwitched(record: BucketRecord, isBypassed: boolean | undefined, nowMs: number): BucketRecord {
  return isBypassed ? {...record, bypassUntilMs: nowMs + STAMP_MS} : record
}

export function checkKnown(entity: string, resource: string, amounts: Amounts, known: readonly string[]): void {
  const unknown = [...amounts.keys()].filter(name => !known.includes(name))
  if (unknown.length > 0) throw unknownLimit(entity, resource, unknown, known)
}

export function untouched(
  whose: Pick<BucketRecord, 'namespace' | 'entity' | 'resource'>,
  inForce: readonly Limit[],
  nowMs: number,
): BucketRecord {
  const limits = new Map<string, BucketLimit>()
  for (const limit of inForce) {
    limits.set(
      limit.name,
      startingLimit(limit.name, kindedRateOf(limit, nowMs), {shard: 0, shardCount: 1}, nowMs, true),
    )
  }
  const state = {refilledAtMs: nowMs, limits}
  return {...whose, shard: 0, shardCount: 1, cascade: false, parent: undefined, ttlSeconds: undefined, state}
}

/** Whole tokens, and free slots of in-flight limits as the next request stores their capacity. */
function leftOf({applied, records}: Level): Map<string, number> {
  const left = new Map(applied.limits.map(({name}) => [name, heldTokens(records, name)]))
  const slots = records.find(({shard}) => shard === 0)?.slots
  for (const [name, capacity] of applied.inFlight) {
    const stored = slots?.limits.get(name)
    left.set(name, stored ? stored.free + capacity - stored.capacity : capacity)
  }
  return left
}

function heldTokens(records: readonly BucketRecord[], name: string): number {
  return toTokens(
    availableTogether(
      records.map(({state}) => state),
      name,
    ),
  )
}

/** Remaining tokens of a resource, for all entities that have used it. */
export interface ResourceCapacity {
  readonly resource: string
  readonly entities: ReadonlyArray<{
    readonly entity: string
    readonly limits: Readonly<Record<string, Pick<LimitState, 'capacity' | 'available'>>>
  }>
  /** Sums over all entities. */
  readonly totals: Readonly<Record<string, Pick<LimitState, 'capacity' | 'available'>>>
}

export async function resourceCapacity(table: NamespaceTable, resource: string): Promise<ResourceCapacity> {
  const nowMs = table.clock()
  const entities: ResourceCapacity['entities'][number][] = []
  const totals = new Map<string, {capacity: number; available: number}>()
  for await (const bucket of new Buckets(table).ofResource(resource)) {
    const live = bucket.shards.filter(shard => shard.kind === 'bucket')
    const [first] = live
    if (!first) continue
    const states = live.map(shard => shareOfRecord(currentRecord(shard, nowMs)))
    const limits = new Map<string, {capacity: number; available: number}>()
    for (const [name, {capacityMilli}] of visibleLimits(first.record)) {
      const one = {capacity: toTokens(capacityMilli), available: toTokens(availableTogether(states, name))}
      limits.set(name, one)
      const sum = totals.get(name) ?? {capacity: 0, available: 0}
      totals.set(name, {capacity: sum.capacity + one.capacity, available: sum.available + one.available})
    }
    entities.push({entity: bucket.entity, limits: Object.fromEntries(limits)})
  }
  entities.sort((a, b) => (a.entity < b.entity ? -1 : 1))
  return {resource, entities, totals: Object.fromEntries(totals)}
}
