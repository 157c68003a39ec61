import {isBypassedAt} from '../../core/limits/limit-kind.js'
import {type LiveLevel, type LiveView, viewLevels, visitLevels} from './levels.js'
import type {FindReading, Reading, RefusedBy, RowStatus} from './model.js'
import {isBeingRefused} from './request-counts.js'

const NEAR_FRACTION = 0.2
const NEAR_MS = 60_000

const SEVERITY: Readonly<Record<RowStatus, number>> = {
  ok: 0,
  // Deliberate, so ranked below failures.
  disabled: 1,
  overdrawn: 2,
  near: 3,
  over: 4,
  gone: 5,
}

/** A refusal that its own limits did not make. */
export const REFUSED_BY = {parent: 'its parent', provider: 'a shared scope'} as const

export const isByOther = (refusedBy: RefusedBy | null | undefined): refusedBy is keyof typeof REFUSED_BY =>
  refusedBy === 'parent' || refusedBy === 'provider'

const NO_PARENTS: FindReading = () => undefined

export interface LimitSummary {
  readonly name: string
  readonly status: RowStatus
  /** Fraction of the capacity; negative in debt. */
  readonly left: number
  readonly ratePerSecond: number | null
  readonly emptyInMs: number | null
}

export interface BucketStatus {
  readonly status: RowStatus
  readonly refusedBy: RefusedBy | undefined
  /** The ancestors that refuse, if `refusedBy` is `parent`. */
  readonly refusingParents: readonly string[]
  readonly worst: LimitSummary | undefined
}

export function statusAt(reading: Reading, nowMs: number, find: FindReading = NO_PARENTS): BucketStatus {
  const worst = worstLimitAt(reading, nowMs)
  const undecided = {refusedBy: undefined, refusingParents: [], worst}
  if (reading.isGone) return {status: 'gone', ...undecided}
  if (reading.isDisabled) return {status: 'disabled', ...undecided}
  const above = chargedTo(reading, find)
  const refusing = above.filter(({reading: parent}) => {
    return parent && !parent.isGone && (parent.isDisabled || !fitsInto(parent, reading, nowMs))
  })
  const refusedBy = refusedByAt(reading, worst, nowMs, refusing.length > 0)
  // By the counts, it could be any of several.
  const known = refusing.length === 0 && above.length === 1 ? above : refusing
  const refusingParents = refusedBy === 'parent' ? known.map(({entity}) => entity) : []
  return {status: refusedBy ? 'over' : (worst?.status ?? 'ok'), refusedBy, refusingParents, worst}
}

/** The charged ancestors, nearest first, as far as they are known. The last one may have no reading. */
export function chargedTo(
  reading: Reading,
  find: FindReading,
): {readonly entity: string; readonly reading: Reading | undefined}[] {
  const path = [reading.id]
  const ancestors: {readonly entity: string; readonly reading: Reading | undefined}[] = []
  for (let at: Reading | undefined = reading; at && path.length < reading.mostLevels; ) {
    const id: string | undefined = at.chargedTo
    if (id === undefined || path.includes(id)) break
    path.push(id)
    at = find(id)
    ancestors.push({entity: id.slice(0, id.indexOf('#')), reading: at})
  }
  return ancestors
}

function refusedByAt(
  reading: Reading,
  worst: LimitSummary | undefined,
  nowMs: number,
  isRefusedAbove: boolean,
): RefusedBy | undefined {
  if (worst?.status === 'over') return 'entity'
  const {requests, readAtMs} = reading
  if (isRefusedAbove) return 'parent'
  // The level may already admit the next request, but not the current request rate.
  if (!isBeingRefused(requests, readAtMs)) return undefined
  const {own, byParent} = requests.refusedPerSecond ?? {own: 0, byParent: 0}
  const [more, less] = own + byParent > 0 ? [byParent, own] : [requests.refusedByParent, requests.refused]
  if (more > less) return isByProvider(requests) ? 'provider' : 'parent'
  // Its own limits refused before the bypass.
  return isBypassedAt(reading, nowMs) ? undefined : 'entity'
}

/** Which of both refused is known only since the bucket was created. */
function isByProvider({accounts, refusedByParent}: Reading['requests']): boolean {
  const byProvider = [...(accounts?.values() ?? [])].reduce((sum, requests) => sum + requests, 0)
  return 2 * byProvider > refusedByParent
}

/** Only limits that both have are charged to the parent, but a request takes a slot of each in-flight limit. */
function fitsInto(parent: Reading, child: Reading, nowMs: number): boolean {
  if (isBypassedAt(parent, nowMs)) return true
  const asked = typicalByName(child, nowMs)
  let fits = true
  visitLevels(parent.bucket, nowMs, (name, level, capacity, debt, _refillPerSecond, isSoft, isInFlight) => {
    const tokens = isInFlight ? 1 : asked.get(name)
    if (tokens !== undefined && capacity > 0 && !isSoft && !hasTokens(level, debt, tokens)) fits = false
  })
  return fits
}

function typicalByName({bucket, typical}: Reading, nowMs: number): Map<string, number> {
  const byName = new Map<string, number>()
  visitLevels(bucket, nowMs, name => byName.set(name, typical[byName.size] ?? 1))
  return byName
}

/** A request takes tokens from all shards, so one shard's debt does not hide another's tokens. */
const hasTokens = (level: number, debt: number, tokens: number): boolean =>
  Math.round((level + debt) * 1000) >= tokens * 1000

export function worstLimitAt(
  reading: Pick<Reading, 'bucket' | 'ratePerSecond' | 'typical' | 'bypassUntilMs'>,
  nowMs: number,
): LimitSummary | undefined {
  const {bucket, ratePerSecond: rates, typical} = reading
  const isBypassed = isBypassedAt(reading, nowMs)
  let worst: LimitSummary | undefined
  let at = 0
  visitLevels(bucket, nowMs, (name, level, capacity, debt, refillPerSecond, isSoft) => {
    const tokens = typical[at++] ?? 1
    if (capacity <= 0) return
    const ratePerSecond = rates.get(name) ?? null
    // Requests admitted during a bypass are counted but take no tokens.
    const untilEmptyMs = isBypassed ? null : emptyInMs(level, refillPerSecond, ratePerSecond)
    const left = level / capacity
    const isNear = left < NEAR_FRACTION || (untilEmptyMs !== null && untilEmptyMs <= NEAR_MS)
    const isEmpty = !hasTokens(level, debt, tokens)
    const status: RowStatus = isBypassed ? 'ok' : limitStatus(isSoft, isEmpty, isNear)
    const limit = {name, status, left, ratePerSecond, emptyInMs: untilEmptyMs}
    if (!worst || bySeverity(limit, worst) < 0) worst = limit
  })
  return worst
}

function limitStatus(isSoft: boolean, isEmpty: boolean, isNear: boolean): RowStatus {
  if (isSoft) return isEmpty ? 'overdrawn' : 'ok'
  return isEmpty ? 'over' : isNear ? 'near' : 'ok'
}

function emptyInMs(level: number, refillPerSecond: number, ratePerSecond: number | null): number | null {
  if (level <= 0) return 0
  if (ratePerSecond === null || ratePerSecond <= refillPerSecond) return null
  return (level / (ratePerSecond - refillPerSecond)) * 1000
}

export function bySeverity(a: LimitSummary, b: LimitSummary): number {
  const severity = SEVERITY[b.status] - SEVERITY[a.status]
  return severity || a.left - b.left || (b.ratePerSecond ?? 0) - (a.ratePerSecond ?? 0)
}

export type Row = Readonly<ReturnType<typeof rowAt>>

export function rowAt(reading: Reading, nowMs: number, find?: FindReading) {
  const {id, bucket, used, writePressure, readAtMs, requests} = reading
  const view = viewLevels(bucket, nowMs)
  const {status, refusedBy, refusingParents, worst} = statusAt(reading, nowMs, find)
  const tightest = view.limits.find(({name}) => name === worst?.name)
  return {
    id,
    entity: bucket.entity,
    resource: bucket.resource,
    view,
    /** The worst status, then the least fraction left; `undefined`: no usable limit. */
    tightest,
    ratePerSecond: worst?.ratePerSecond ?? null,
    rates: reading.ratePerSecond,
    used,
    shardCount: bucket.shardCount,
    /** Fullest minus emptiest shard, as a fraction of a shard's capacity; 0 for one shard. */
    imbalance: tightest ? imbalanceOf(view, tightest) : 0,
    writePressure,
    status,
    refusedBy,
    refusingParents,
    requests,
    typical: typicalByName(reading, nowMs),
    /** Of the tightest limit, at the current rate; `null`: never or unknown. */
    emptyInMs: worst?.emptyInMs ?? null,
    fullInMs: tightest ? fullInMs(tightest, worst?.ratePerSecond ?? null, nowMs) : null,
    ageMs: Math.max(0, nowMs - readAtMs),
  }
}

function imbalanceOf({shards}: LiveView, {name}: LiveLevel): number {
  const fractions = shards.flatMap(({limits}) =>
    limits.flatMap(limit => (limit.name === name && limit.capacity > 0 ? [limit.level / limit.capacity] : [])),
  )
  return fractions.length < 2 ? 0 : Math.max(...fractions) - Math.min(...fractions)
}

function fullInMs(limit: LiveLevel, ratePerSecond: number | null, nowMs: number): number | null {
  const {level, capacity, refillPerSecond, quota, resetsAt, inFlight} = limit
  if (inFlight) return null
  if (level >= capacity) return 0
  if (quota) return resetsAt === undefined ? null : Date.parse(resetsAt) - nowMs
  if (ratePerSecond === null || ratePerSecond >= refillPerSecond) return null
  return ((capacity - level) / (refillPerSecond - ratePerSecond)) * 1000
}
