import type {Amounts} from '../../core/buckets/bucket.js'
import {nextResetMs} from '../../core/calendar/kind-definition.js'
import {ZaelError} from '../../core/errors.js'
import {groupBy} from '../../core/group-by.js'
import {type NextLevel, nextLevel} from '../../core/limits/boost-text.js'
import {
  type Consumption,
  checkConsumption,
  isInFlight,
  isSessionReset,
  type Limit,
  tokenLimits,
} from '../../core/limits/limit.js'
import {isBypassedAt, sessionEndMs, tellsUse} from '../../core/limits/limit-kind.js'
import {type LimitState, longestOf} from '../../core/limits/limit-state.js'
import {type BucketName, DEFAULT_RESOURCE} from '../../core/names.js'
import {toTokens} from '../../core/token-math.js'
import {windowStart} from '../../core/window.js'
import {chunksOf, forEachConcurrently} from '../../dynamo/concurrency.js'
import {asSwitched, checkKnown, currentRecord, untouched} from '../../limiter/levels/reads.js'
import {topUpsOf} from '../../limiter/queue/apply-limits.js'
import {shareOfRecord} from '../../limiter/queue/known-bucket.js'
import {explainRefusal} from '../../limiter/queue/refuse.js'
import type {ShardedBucket} from '../../repository/buckets/buckets.js'
import {averageOf, averageRequest} from '../../repository/buckets/view.js'
import type {PolicyScope} from '../../repository/limits/change-options.js'
import {nothingApplies} from '../../repository/limits/checks.js'
import {type Resolution, requireSupportedLimits} from '../../repository/limits/resolver.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {Audit} from '../../repository/table/audit.js'
import type {BucketRecord} from '../../schema/bucket-record.js'
import type {AccessSwitch, ConfigScope} from '../../schema/config-record.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import type {StoredFeedback} from '../../schema/kind-attributes.js'
import type {UnsettledCount} from '../../schema/refusal-counts.js'
import {isRunEntity} from '../../schema/run-record.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import {type InFlightLevel, inFlightLevels, storedSlots} from '../holders/in-flight.js'
import {type OpenReservations, type ReservedBy, reservationReader, reservedByHolder} from '../holders/reserved-by.js'
import {limitsChangedSince, type SwitchSet, switchSet} from '../lookup/audit-search.js'
import {chargedAncestors, resolveFamily, type SharedCharge, sharedCharge} from '../lookup/family-limits.js'
import {needEntity, unknownEntity} from '../lookup/known-names.js'
import {
  isRefusing,
  type LimitRefused,
  mayHavePaused,
  NOT_REFUSED,
  type RecentUsage,
  recentUsage,
  refusedTotal,
  refusingAccounts,
} from '../usage/refused.js'

const MOST_CONSUMERS = 5

const CONCURRENT_READS = 8

/** Shared scopes that are explained, those that refused most. */
const MOST_ACCOUNTS = 3

export interface ExplainedLimit extends Omit<LimitState, 'level'> {
  /** `provider`: of a shared scope that refused requests of the entity recently. */
  readonly level: LimitState['level'] | 'provider'
  readonly scope: ConfigScope
  readonly configured: Limit
  /** Epoch ms at which limits copied for a boost end. `undefined`: not copied. */
  readonly copiedUntilMs: number | undefined
  /** The level that applies then. */
  readonly next?: NextLevel | undefined
  /** Epoch ms of the next reset of a quota. `undefined`: a rate, or no session is open. */
  readonly resetsAtMs: number | undefined
  /** A new allowance of this quota takes effect at once. Otherwise at its next reset. */
  readonly tellsUse: boolean
  /** Charges and refuses nothing now. */
  readonly isBypassed: boolean
  /** Whole tokens added to a quota until its reset. `capacity` includes them. */
  readonly toppedUp: number
  /** In whole tokens; negative in debt. */
  readonly shards: readonly {readonly shard: number; readonly available: number; readonly capacity: number}[]
  /** The last provider feedback that lowered it. */
  readonly feedback: StoredFeedback | undefined
  /** Requests that it refused since `refusedSince`. */
  readonly refused: LimitRefused
  /** UTC, as `RecentUsage.since` of the entity that has this limit: a parent may have begun to refuse earlier. */
  readonly refusedSince: string
  /** It refuses now, or it refused in the last minutes. */
  readonly isPressed: boolean
  /** Whole tokens per second that requests asked for since the refusals began or the first use, with retries. Absent if unknown. */
  readonly demandPerSecond?: number | undefined
  /** Whole tokens of children charged to it in this hour, most first. Empty unless `isPressed`. */
  readonly drainedBy: readonly {readonly entity: string; readonly tokens: number}[]
  /** The rest of that hour: own requests, smaller children, children that moved or were deleted. */
  readonly drainedByOthers: number
  /** The child that used at least half of that, with its own limit of this name. */
  readonly heaviest?: {readonly entity: string; readonly share: number; readonly limit: Limit} | undefined
  /** Processes that have reserved tokens of this quota, most first. Empty unless `isPressed`. */
  readonly reservedBy: readonly ReservedBy[]
  /** Of a shared scope: callers that it refused since `Explanation.recent.since`, most tokens first. */
  readonly callers?: readonly RefusedCaller[]
}

export interface RefusedCaller extends BucketName {
  /** Refused by the account. */
  readonly requests: number
  /** Whole tokens that the caller was charged for the limit of this name, through any account. */
  readonly tokens: number
}

export interface SetSwitch {
  /** The caller, or a parent that is charged too. */
  readonly entity: string
  readonly scope: PolicyScope
  /** Epoch ms at which it expires; absent if it stays. */
  readonly untilMs?: number | undefined
  readonly reason?: string | undefined
  /** Absent if no audit event shows it. */
  readonly set?: SwitchSet | undefined
}

export interface Explanation {
  readonly entity: string
  readonly resource: string
  readonly isRegistered: boolean
  /** Similar ids, nearest first, if nothing of the entity is stored. */
  readonly unknown?: {readonly nearest: readonly string[]} | undefined
  readonly name?: string | undefined
  /** Charged too, nearest first. */
  readonly parents: readonly string[]
  /** The next ancestor, which only the setting of the namespace leaves out. */
  readonly leftOut: string | undefined
  readonly cascade: SharedCharge | undefined
  readonly atMs: number
  /** Start of the hour of `drainedBy`. */
  readonly hour: string
  readonly admitted: boolean
  /** 0: admitted. `null`: never. */
  readonly retryAfterMs: number | null
  /** Refuses every request. `limits` is then empty. */
  readonly disabled: SetSwitch | undefined
  /** Admit every request at their level, the caller's or a parent's. */
  readonly bypassed: readonly SetSwitch[]
  /**
   * `typical`: the average admitted request. `per-write`: the average write of clients that count no requests.
   * `one-token`: none was admitted, or the average is unknown.
   */
  readonly basis: 'asked' | 'typical' | 'per-write' | 'one-token'
  readonly recent: RecentUsage
  /** Epoch ms: limits or a switch that apply were changed after the last refusal. Absent while requests are refused. */
  readonly changedAtMs?: number | undefined
  /** Settlements that the entity's processes gave up since the bucket was created: they stay charged as reserved. */
  readonly unsettled?: UnsettledCount | undefined
  readonly limits: readonly ExplainedLimit[]
  /** In-flight limits of the entity, then of its charged parents. Empty if it is disabled. */
  readonly inFlight: readonly ExplainedSlots[]
}

/** An in-flight limit and the slots that a request needs. */
export interface ExplainedSlots extends InFlightLevel {
  readonly entity: string
  readonly resource: string
  readonly level: LimitState['level']
  readonly scope: ConfigScope
  readonly configured: Limit
  readonly requested: number
  readonly exceeded: boolean
  /** An estimate: nobody knows when requests in flight end. `null`: more than all slots are requested. */
  readonly retryAfterMs: number | null
  readonly isBypassed: boolean
}

export interface Question {
  readonly entity: string
  readonly resource: string
  readonly consume?: Consumption | undefined
}

function switchOf(which: AccessSwitch, entity: string, {access, trace}: Resolution): SetSwitch | undefined {
  if (access?.access !== which) return undefined
  const scope = trace.find(({level}) => level === access.level)?.scope as PolicyScope
  const {untilMs, reason} = access
  return {entity, scope, ...(untilMs !== undefined && {untilMs}), ...(reason !== undefined && {reason})}
}

async function withOrigin(namespace: NamespaceRepository, of: SetSwitch, which: AccessSwitch): Promise<SetSwitch> {
  const set = await switchSet(namespace, of.scope, which)
  return {...of, ...(set && {set})}
}

/** Explains the result that an acquire would have now, from the stored state. Read-only. */
export async function explain(
  namespace: NamespaceRepository,
  {entity, resource, consume}: Question,
  clock: () => number,
  reservations = reservationReader(namespace),
): Promise<Explanation> {
  const asked = consume && checkConsumption(consume)
  const family = await resolveFamily(namespace, entity, resource)
  const {isRegistered, name, cascade} = family
  const own = withoutSlots(family.own)
  const charged = [{entity, resolution: family.own}, ...family.parents].map((each, at) => ({
    entity: each.entity,
    level: at === 0 ? ('entity' as const) : ('parent' as const),
    withSlots: each.resolution,
    resolution: withoutSlots(each.resolution),
  }))
  const held = charged.flatMap(({withSlots}) => withSlots.limits.filter(isInFlight))
  const switched = (which: AccessSwitch) => charged.flatMap(each => switchOf(which, each.entity, each.resolution) ?? [])
  const [disabled] = await Promise.all(switched('disabled').map(each => withOrigin(namespace, each, 'disabled')))
  const limitless = charged.find(({level, resolution}) => level === 'parent' && resolution.source === undefined)
  if (!disabled && limitless) throw nothingApplies(limitless.entity, resource)
  for (const each of charged) requireSupportedLimits(each.resolution, {entity: each.entity, resource})
  const atMs = clock()
  const states = await Promise.all(charged.map(each => readLevel(namespace, each.entity, resource, atMs)))
  const [state, ...statesAbove] = states as [StoredLevel, ...StoredLevel[]]
  const {recent} = state
  const {average, counted} = averageIn(state)
  // Limits that only a parent has are charged too, and recorded only there: first at the nearest one.
  const typical = new Map<string, number>()
  for (const [at, {resolution}] of family.parents.entries()) {
    const ofParent = averageIn(statesAbove[at] as StoredLevel).average
    for (const {name} of withoutSlots(resolution).limits)
      if (!typical.has(name)) typical.set(name, ofParent?.get(name) ?? 1)
  }
  for (const {name} of own.limits) typical.set(name, average?.get(name) ?? 1)
  const uncharged = average ? unchargedIn(states) : NONE
  const usual = [...typical].filter(([each]) => !uncharged.has(each) || recent.refused.limits.has(each))
  const amounts = asked ?? checkConsumption(Object.fromEntries(usual.length > 0 ? usual : typical))
  if (own.source !== undefined) {
    checkKnown(entity, resource, amounts, [...typical.keys(), ...held.map(limit => limit.name)])
  }
  const question = {resource, amounts, atMs, reservations}
  const asking = disabled ? [] : charged.map((each, at) => ({...each, ...question, state: states[at] as StoredLevel}))
  const slots = asking.map(each => explainSlots(namespace, {...each, resolution: each.withSlots}))
  const inFlight = (await Promise.all(slots)).flat()
  const accounts = disabled ? [] : refusingAccounts(recent.refused).slice(0, MOST_ACCOUNTS)
  const levels = await Promise.all([
    ...asking.map(each => explainLevel(namespace, each)),
    ...accounts.map(account => explainAccount(namespace, account, {asked, atMs, reservations})),
  ])
  const limits = levels.flat()
  const admitted = !disabled && [...limits, ...inFlight].every(limit => !limit.exceeded)
  const scopes = charged.flatMap(({resolution}) => resolution.trace.map(({scope}) => scope))
  const {lastAtMs} = recent.refused
  const changedAtMs =
    admitted && lastAtMs !== undefined ? await limitsChangedSince(namespace, distinct(scopes), lastAtMs) : undefined
  return {
    entity,
    resource,
    isRegistered,
    unknown: isRegistered || state.bucket ? undefined : await unknownEntity(namespace, entity),
    name,
    parents: family.parents.map(parent => parent.entity),
    leftOut: family.leftOut,
    cascade,
    atMs,
    hour: windowStart('hourly', atMs),
    admitted,
    retryAfterMs: disabled ? null : longestOf([0, ...[...limits, ...inFlight].map(limit => limit.retryAfterMs)]),
    disabled,
    bypassed: disabled ? [] : await Promise.all(switched('bypass').map(each => withOrigin(namespace, each, 'bypass'))),
    basis: asked ? 'asked' : !average ? 'one-token' : counted > 0 ? 'typical' : 'per-write',
    recent,
    ...(changedAtMs !== undefined && {changedAtMs}),
    unsettled: state.bucket && unsettledIn(state.bucket),
    limits,
    inFlight,
  }
}

/** The entity and its parents share the levels of resource and system. */
const distinct = (scopes: readonly ConfigScope[]): ConfigScope[] => [
  ...new Map(scopes.map(scope => [JSON.stringify(scope), scope])).values(),
]

const withoutSlots = (resolution: Resolution): Resolution => ({...resolution, limits: tokenLimits(resolution.limits)})

/** As an average request of the account finds it; without limits if the account has none anymore. */
async function explainAccount(
  namespace: NamespaceRepository,
  {entity, resource}: BucketName,
  {asked, ...question}: Pick<LevelQuestion, 'atMs' | 'reservations'> & {readonly asked: Amounts | undefined},
): Promise<ExplainedLimit[]> {
  const [resolution, state] = await Promise.all([
    resolveFamily(namespace, entity, resource).then(
      ({own}) => withoutSlots(own),
      error => {
        if (!isWithoutLimits(error)) throw error
        return undefined
      },
    ),
    readLevel(namespace, entity, resource, question.atMs),
  ])
  if (!resolution || resolution.access?.access === 'disabled') return []
  requireSupportedLimits(resolution, {entity, resource})
  const {average} = averageIn(state)
  const typical = checkConsumption(
    Object.fromEntries(resolution.limits.map(({name}) => [name, average?.get(name) ?? 1])),
  )
  const amounts = new Map(Array.from(typical, ([name, milli]) => [name, asked?.get(name) ?? milli]))
  const level = {entity, resource, resolution, amounts, level: 'entity', state} as const
  const limits = await explainLevel(namespace, {...question, ...level})
  return limits.map(limit => ({...limit, level: 'provider'}))
}

interface LevelQuestion {
  readonly entity: string
  readonly resource: string
  readonly resolution: Resolution
  readonly amounts: Amounts
  readonly atMs: number
  readonly level: LimitState['level']
  readonly state: LevelRecords
  readonly reservations: () => Promise<OpenReservations>
}

type LevelRecords = Awaited<ReturnType<typeof readLevel>>

/** Only the stream distinguishes settlements from writes of other clients. */
function averageIn({bucket, recent}: LevelRecords) {
  const counted = bucket ? admittedBy(bucket) : 0
  const average =
    bucket && (averageRequest(bucket, counted) ?? averageOf(milliOf(recent.charged.tokens), recent.charged.requests))
  return {average, counted}
}

const NONE: ReadonlySet<string> = new Set()

/** Limits that no admitted request charged, nor will a typical one. The first level with a limit decides. */
function unchargedIn(levels: readonly StoredLevel[]): ReadonlySet<string> {
  const used = new Map<string, boolean>()
  for (const {bucket} of levels) {
    const states = (bucket?.shards ?? []).flatMap(shard => (shard.kind === 'bucket' ? shard.record.state : []))
    const here = new Map<string, boolean>()
    for (const {limits} of states)
      for (const [name, {consumedMilli}] of limits) here.set(name, here.get(name) === true || consumedMilli !== 0n)
    for (const [name, isUsed] of here) if (!used.has(name)) used.set(name, isUsed)
  }
  return new Set([...used].flatMap(([name, isUsed]) => (isUsed ? [] : [name])))
}

type StoredLevel = Awaited<ReturnType<typeof readLevel>>

async function readLevel(namespace: NamespaceRepository, entity: string, resource: string, nowMs: number) {
  const [bucket, recent] = await Promise.all([
    namespace.buckets.find(entity, resource),
    recentUsage(namespace, entity, resource, nowMs),
  ])
  return {bucket, recent}
}

const milliOf = (tokens: RecentUsage['charged']['tokens']): Map<string, bigint> =>
  new Map(Array.from(tokens, ([name, amount]) => [name, BigInt(Math.trunc(amount)) * 1000n]))

const admittedBy = ({shards}: ShardedBucket): number =>
  shards.reduce((sum, {counts}) => sum + (counts?.requests ?? 0), 0)

function unsettledIn({shards}: ShardedBucket): UnsettledCount | undefined {
  const all = shards.flatMap(({counts}) => counts?.unsettled ?? [])
  if (all.length === 0) return undefined
  return {
    settlements: all.reduce((sum, {settlements}) => sum + settlements, 0),
    lastAtMs: Math.max(...all.map(({lastAtMs}) => lastAtMs)),
  }
}

async function explainLevel(namespace: NamespaceRepository, question: LevelQuestion): Promise<ExplainedLimit[]> {
  const {entity, resource, resolution, atMs: nowMs, level, state} = question
  const {bucket, recent} = state
  const {limits, source, trace, copiedUntilMs} = resolution
  const scope = trace.find(each => each.level === source)?.scope as ConfigScope
  // A parent is charged only for the limits it has.
  const amounts = new Map([...question.amounts].filter(([name]) => limits.some(limit => limit.name === name)))
  const stored = (bucket?.shards ?? []).flatMap(shard =>
    shard.kind === 'bucket' ? [currentRecord(shard, nowMs, limits)] : [],
  )
  const found = stored.length > 0 ? stored : [untouched({namespace: namespace.id, entity, resource}, limits, nowMs)]
  const records = found.map(record => asSwitched(record, resolution.access?.access === 'bypass', nowMs))
  const {statuses} = explainRefusal({records, amounts, nowMs, source}, level)
  const isPressed = ({name, exceeded}: LimitState) =>
    exceeded || (isRefusing(recent, nowMs) && recent.refused.limits.has(name))
  const quotas = new Set(limits.flatMap(({name, reset}) => (reset ? [name] : [])))
  const isPressedQuota = (status: LimitState) => quotas.has(status.name) && isPressed(status)
  const [drained, callers, reserved] = await Promise.all([
    !statuses.some(isPressed) ? NOT_SHARED : consumers(namespace, entity, resource, nowMs),
    refusedCallers(namespace, {entity, resource}, recent),
    statuses.some(isPressedQuota) ? question.reservations() : [],
  ])
  return statuses.map(status => ({
    ...status,
    scope,
    copiedUntilMs,
    ...configuredIn(resolution, status.name, bucket, nowMs),
    // Its only session outlasts it.
    ...(isRunEntity(entity) && {resetsAtMs: undefined}),
    tellsUse: records.every(({state}) => {
      const held = state.limits.get(status.name)
      return held !== undefined && tellsUse(held, nowMs)
    }),
    isBypassed: records.some(record => isBypassedAt(record, nowMs)),
    toppedUp: toTokens(topUpsOf(records, nowMs).get(status.name) ?? 0n),
    shards: records.map(record => shardShare(record, status.name)),
    feedback: lastFeedback(bucket, status.name),
    refused: recent.refused.limits.get(status.name) ?? NOT_REFUSED,
    refusedSince: recent.since,
    isPressed: isPressed(status),
    demandPerSecond: isPressed(status) ? demandPerSecond(recent, status, nowMs) : undefined,
    reservedBy: isPressedQuota(status) ? reservedByHolder(reserved, {entity, resource}, status.name, records) : [],
    ...drainers(isPressed(status) ? drained : NOT_SHARED, status.name),
    ...(callers.length > 0 && recent.refused.limits.has(status.name) && {callers: topCallers(callers, status.name)}),
  }))
}

/** A request takes one slot of each in-flight limit, or as many as it names. */
async function explainSlots(
  namespace: NamespaceRepository,
  {entity, resource, resolution, amounts, atMs: nowMs, level, state: {bucket}}: LevelQuestion,
): Promise<ExplainedSlots[]> {
  const {limits, source, trace, access} = resolution
  const configured = limits.filter(isInFlight)
  if (configured.length === 0) return []
  const stored = storedSlots(bucket)
  const wanted = new Map(configured.map(({name, capacity}) => [name, capacity]))
  const levels = await inFlightLevels(namespace, stored, wanted)
  const slots = {limits: new Map(levels.map(each => [each.limit, each])), accounts: stored?.accounts ?? new Map()}
  const record = asSwitched(
    {...untouched({namespace: namespace.id, entity, resource}, [], nowMs), slots},
    access?.access === 'bypass',
    nowMs,
  )
  const needed = new Map(configured.map(({name}) => [name, Number((amounts.get(name) ?? 1000n) / 1000n)]))
  const {statuses} = explainRefusal({records: [record], amounts: new Map(), slots: needed, nowMs, source}, level)
  const scope = trace.find(each => each.level === source)?.scope as ConfigScope
  return levels.map(each => {
    const limit = configured.find(({name}) => name === each.limit) as Limit
    const {requested = 0, exceeded = false, retryAfterMs = 0} = statuses.find(({name}) => name === each.limit) ?? {}
    const isNever = requested > each.capacity
    return {
      ...{...each, entity, resource, level, scope, configured: limit, requested, exceeded},
      retryAfterMs: exceeded && isNever ? null : retryAfterMs,
      isBypassed: isBypassedAt(record, nowMs),
    }
  })
}

/** Over less time, late counts would mislead. */
const SHORTEST_DEMAND_MS = 60_000

/** Since the refusals began, or since the first use of the counted hours: not over the empty time before. */
function demandPerSecond(
  recent: RecentUsage,
  {name, exceeded, refillAmount, refillPeriodSeconds}: LimitState,
  nowMs: number,
): number | undefined {
  const {charged, since, firstAtMs = 0, admitted, refused} = recent
  const ms = nowMs - Math.max(Date.parse(since), firstAtMs)
  const asked = refused.limits.get(name)?.tokens ?? 0
  if (asked === 0 || ms < SHORTEST_DEMAND_MS) return undefined
  const perRequest = charged.requests > 0 ? (charged.tokens.get(name) ?? 0) / charged.requests : 0
  const demand = (Math.max(0, admitted) * perRequest + asked) / (ms / 1000)
  // Below the rate, and still used up: perhaps no bursts, but an average that includes a pause.
  return mayHavePaused(recent) && exceeded && demand * refillPeriodSeconds <= refillAmount ? undefined : demand
}

function configuredIn(resolution: Resolution, name: string, bucket: ShardedBucket | undefined, nowMs: number) {
  const configured = resolution.limits.find(limit => limit.name === name) as Limit
  const isSession = isSessionReset(configured.reset)
  const resetsAtMs = isSession ? openSessionEnd(bucket, name, nowMs) : nextResetMs(configured, nowMs)
  return {configured, next: nextLevel(resolution, configured), resetsAtMs}
}

/** As stored: the records that a request finds have a new session once the last one has ended. */
function openSessionEnd(bucket: ShardedBucket | undefined, name: string, nowMs: number): number | undefined {
  const ends = (bucket?.shards ?? []).flatMap(shard => {
    const limit = shard.kind === 'bucket' ? shard.record.state.limits.get(name) : undefined
    return (limit && sessionEndMs(limit)) ?? []
  })
  return ends.find(endMs => endMs > nowMs)
}

function lastFeedback(bucket: ShardedBucket | undefined, name: string): StoredFeedback | undefined {
  const all = (bucket?.shards ?? []).flatMap(({feedback}) => feedback?.get(name) ?? [])
  return all.sort((a, b) => b.atMs - a.atMs)[0]
}

function shardShare(record: BucketRecord, name: string): ExplainedLimit['shards'][number] {
  const limit = shareOfRecord(record).limits.get(name)
  const [available, capacity] = [limit?.tokensMilli ?? 0n, limit?.capacityMilli ?? 0n]
  return {shard: record.shard, available: toTokens(available), capacity: toTokens(capacity)}
}

/** Usage counted in one hour. */
interface Drained {
  /** Charged to the limits themselves. */
  readonly charged: UsageRecord['tokens']
  /** Children that are charged to them now. */
  readonly children: readonly (Pick<UsageRecord, 'entity' | 'tokens'> & Pick<Resolution, 'limits'>)[]
}

const NOT_SHARED: Drained = {charged: new Map(), children: []}

async function consumers(
  {entities, configs, usage, audit}: NamespaceRepository,
  parent: string,
  resource: string,
  nowMs: number,
): Promise<Drained> {
  const children = new Map((await entities.children(parent)).map(each => [each.entity, each]))
  if (children.size === 0) return NOT_SHARED
  const {records} = await usage.ofResource(resource, {window: 'hourly', sinceMs: nowMs, untilMs: nowMs + 1})
  const hourMs = Date.parse(windowStart('hourly', nowMs))
  const used = records.filter(({entity}) => children.has(entity))
  const charged = new Map<string, Resolution['limits']>()
  await forEachConcurrently(chunksOf(used, 1), CONCURRENT_READS, async ([record]) => {
    const {entity} = record as UsageRecord
    const child = children.get(entity) as EntityRecord
    const {cascade, limits} = await configs.resolve({entity, resource})
    // The hour of a child that moved includes charges to its former parent.
    if (sharedCharge(child, cascade)?.charged && !(await hasMoved(audit, child, hourMs))) charged.set(entity, limits)
  })
  return {
    charged: records.find(({entity}) => entity === parent)?.tokens ?? new Map(),
    children: used.flatMap(({entity, tokens}) => {
      const limits = charged.get(entity)
      return limits ? [{entity, tokens, limits}] : []
    }),
  }
}

/** Callers of a shared scope that it refused. Usage does not show which account an admitted request used. */
async function refusedCallers(
  {usage}: NamespaceRepository,
  {entity, resource}: BucketName,
  {refused, hour}: RecentUsage,
): Promise<UsageRecord[]> {
  const account = `${entity}#${resource}`
  const found: UsageRecord[] = []
  for (const callers of refused.callers?.keys() ?? []) {
    const {records} = await usage.ofResource(callers, {window: 'hourly', sinceMs: Date.parse(hour)})
    found.push(...records.filter(record => record.refused?.accounts?.has(account)))
  }
  return found.map(record => ({...record, totalEvents: record.refused?.accounts?.get(account) ?? 0}))
}

/** `totalEvents` of these records: refused by the account. */
function topCallers(records: readonly UsageRecord[], name: string): RefusedCaller[] {
  const callers = [...groupBy(records, ({entity, resource}) => `${entity}#${resource}`).values()].map(hours => {
    const {entity, resource} = hours[0] as UsageRecord
    const sum = (figure: (hour: UsageRecord) => number) => hours.reduce((total, hour) => total + figure(hour), 0)
    return {entity, resource, requests: sum(hour => hour.totalEvents), tokens: sum(hour => hour.tokens.get(name) ?? 0)}
  })
  return callers
    .sort((a, b) => b.tokens - a.tokens || b.requests - a.requests || (a.entity < b.entity ? -1 : 1))
    .slice(0, MOST_CONSUMERS)
}

/** Whether an entity's parent or cascade changed. Other clients do not count versions. */
async function hasMoved(audit: Audit, {entity, version}: EntityRecord, sinceMs: number): Promise<boolean> {
  if (version === 1) return false
  const {records} = await audit.list({entity, sinceMs})
  return records.some(({action, details}) => {
    const {after} = details as {after?: {parent_id?: unknown; cascade?: unknown}}
    return action === 'entity_parent_changed' || after?.parent_id !== undefined || after?.cascade !== undefined
  })
}

const HEAVY_SHARE = 0.5

function drainers(
  {charged, children}: Drained,
  name: string,
): Pick<ExplainedLimit, 'drainedBy' | 'drainedByOthers' | 'heaviest'> {
  const drainedBy = children
    .map(({entity, tokens}) => ({entity, tokens: tokens.get(name) ?? 0}))
    .filter(({tokens}) => tokens > 0)
    .sort((a, b) => b.tokens - a.tokens || (a.entity < b.entity ? -1 : 1))
    .slice(0, MOST_CONSUMERS)
  const named = drainedBy.reduce((sum, {tokens}) => sum + tokens, 0)
  const drainedByOthers = Math.max(0, (charged.get(name) ?? 0) - named)
  const {entity = '', tokens = 0} = drainedBy[0] ?? {}
  const limit = children.find(child => child.entity === entity)?.limits.find(each => each.name === name)
  const share = tokens / (named + drainedByOthers)
  return {drainedBy, drainedByOthers, ...(limit && share >= HEAVY_SHARE && {heaviest: {entity, share, limit}})}
}

const CONCURRENT_EXPLANATIONS = 4

/** Worst first, without resources that have no limits. Throws if the namespace holds nothing of the entity. */
export async function explainAll(
  namespace: NamespaceRepository,
  entity: string,
  clock: () => number,
): Promise<Explanation[]> {
  const resources = await resourcesOf(namespace, entity)
  if (resources.length === 0) await needEntity(namespace, entity)
  const explanations: Explanation[] = []
  const reservations = reservationReader(namespace)
  await forEachConcurrently(chunksOf(resources, 1), CONCURRENT_EXPLANATIONS, async ([resource = '']) => {
    try {
      explanations.push(await explain(namespace, {entity, resource}, clock, reservations))
    } catch (error) {
      if (!isWithoutLimits(error)) throw error
    }
  })
  return explanations.sort((a, b) => compareSeverity(a, b) || (a.resource < b.resource ? -1 : 1))
}

/** The switch that disables every resource without a switch of its own, for the entity or a parent it charges. */
export async function blockOf(namespace: NamespaceRepository, entity: string): Promise<SetSwitch | undefined> {
  const bucket = {entity, resource: DEFAULT_RESOURCE}
  const [own, record] = await Promise.all([namespace.configs.resolve(bucket), namespace.entities.get(entity)])
  const {parents} = await chargedAncestors(namespace, bucket, sharedCharge(record, own.cascade))
  const [found] = [{entity, resolution: own}, ...parents].flatMap(
    each => switchOf('disabled', each.entity, each.resolution) ?? [],
  )
  return found && withOrigin(namespace, found, 'disabled')
}

async function resourcesOf({buckets, configs}: NamespaceRepository, entity: string): Promise<string[]> {
  const own = await configs.ofEntity(entity)
  const names = new Set(own.flatMap(({scope}) => (scope.level === 'entity' ? [scope.resource] : [])))
  for await (const {resource} of buckets.ofEntity(entity)) names.add(resource)
  names.delete(DEFAULT_RESOURCE)
  return [...names].sort()
}

const isWithoutLimits = (error: unknown): boolean =>
  error instanceof ZaelError && error.code === nothingApplies('', '').code

function compareSeverity(a: Explanation, b: Explanation): number {
  return severityOf(b) - severityOf(a) || leftOf(a) - leftOf(b)
}

function severityOf({disabled, admitted, recent}: Explanation): number {
  if (disabled) return 3
  if (!admitted) return 2
  return refusedTotal(recent.refused) > 0 ? 1 : 0
}

function leftOf({limits}: Explanation): number {
  return Math.min(...limits.map(({available, capacity}) => (capacity > 0 ? available / capacity : 0)), 1)
}
