import {isDeepStrictEqual} from 'node:util'
import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import type {DeepReadonly} from '../../core/deep-readonly.js'
import {isInFlight, isSessionReset, type Limit, tokenLimits} from '../../core/limits/limit.js'
import type {ResetClock} from '../../core/limits/limit-kind.js'
import {hasSameText, limitChanges} from '../../core/limits/limit-text.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {type Window, windowEndMs, windowStart} from '../../core/window.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {ConfigScope} from '../../schema/config-record.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import {walkUsage} from '../usage/usage-report.js'
import {resourcesInUse} from '../usage/usage-top.js'
import {LevelLimits, type ProposedChange} from './level-limits.js'

/** In total. The newest of each resource or entity are read first. */
const MOST_WINDOWS = 100_000

export interface ImpactRange {
  readonly window: Window
  readonly sinceMs: number
  readonly untilMs: number
  /** A window that is open then is compared with the allowance of the time until then. */
  readonly nowMs: number
}

export interface EntityImpact extends LimitImpact {
  readonly entity: string
  readonly resource: string
  readonly limit: Limit
  readonly boostedUntilMs: number | undefined
}

interface UsedPair {
  readonly entity: string
  readonly resource: string
  /** By window start, because one record can be found by entity and by resource. */
  readonly records: Map<string, UsageRecord>
}

export type Impact = DeepReadonly<Awaited<ReturnType<typeof impactOf>>>

/** Read-only. Requests refused at the time are not in consumption records, so they do not count as refused again. */
export async function impactOf(namespace: NamespaceRepository, changes: readonly ProposedChange[], range: ImpactRange) {
  const {pairs, isComplete} = await usedPairs(namespace, changes, range)
  const levels = new LevelLimits(namespace, changes)
  await levels.loadFor([...pairs.values()])
  const concerned = [...pairs.values()].flatMap(pair => {
    const brought = levels.broughtTo(pair)
    return brought ? [{pair, ...brought, limits: tokenLimits(brought.limits)}] : []
  })
  const found = concerned.flatMap(({pair: {entity, resource, records}, present, limits, boostedUntilMs}) =>
    limits.map(limit => {
      const windows = windowsOf([...records.values()], limit.name, range.nowMs)
      const before = present.find(({name}) => name === limit.name)
      return {entity, resource, limit, boostedUntilMs, ...limitImpact(limit, windows, before)}
    }),
  )
  const used = new Set<string>()
  const open = windowStart(range.window, range.nowMs)
  let isOpen = false
  for (const {pair, limits} of concerned) {
    isOpen ||= limits.some(({reset}) => !reset) && pair.records.has(open)
    for (const {tokens} of pair.records.values()) for (const [name, count] of tokens) if (count > 0) used.add(name)
  }
  const changed = [...new Set(concerned.flatMap(({limits}) => limits.map(({name}) => name)))].sort()
  const entities = new Set(concerned.map(({pair}) => pair.entity))
  const others = new Set([...pairs.values()].flatMap(({entity}) => (entities.has(entity) ? [] : [entity])))
  return {
    /** Most refused first. */
    found: found.filter(({verdict}) => verdict !== 'fits').sort(byWeight),
    /** Entities with usage that the proposed limits would apply to. `others` have more specific limits. */
    entities: entities.size,
    others: others.size,
    windows: concerned.reduce((sum, {pair}) => sum + pair.records.size, 0),
    /** Start of a window that has not ended, epoch ms, if a rate is compared with it. */
    openMs: isOpen ? Date.parse(open) : undefined,
    changed,
    /** Changed limits without recorded usage: their impact is unknown. */
    unrecorded: changed.filter(name => !used.has(name)),
    inFlight: changedInFlight(changes),
    isComplete,
  }
}

function changedInFlight(changes: readonly ProposedChange[]): string[] {
  const names = changes.flatMap(({before, after}) =>
    limitChanges(before, after).flatMap(change =>
      change.after && isInFlight(change.after) && !hasSameText(change.before, change.after) ? [change.name] : [],
    ),
  )
  return [...new Set(names)].sort()
}

const ORDER = ['refused', 'possible', 'bursts', 'near', 'fits'] as const

function byWeight(a: EntityImpact, b: EntityImpact): number {
  const verdicts = ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict)
  return verdicts || shareOf(b) - shareOf(a) || (a.entity < b.entity ? -1 : 1)
}

const shareOf = ({peak}: EntityImpact): number => (peak ? peak.tokens / Math.max(1, peak.allowed) : 0)

function windowsOf(records: readonly UsageRecord[], limit: string, nowMs: number): RecordedWindow[] {
  return records.map(({window, start, tokens, totalEvents}) => ({
    startMs: Date.parse(start),
    endMs: Math.min(windowEndMs(window, start), Math.max(nowMs, Date.parse(start))),
    tokens: tokens.get(limit) ?? 0,
    writes: totalEvents,
  }))
}

async function usedPairs(namespace: NamespaceRepository, changes: readonly ProposedChange[], range: ImpactRange) {
  const pairs = new Map<string, UsedPair>()
  let windows = 0
  let isComplete = true
  const seen = new Set<string>()
  for (const {scope} of changes) {
    for (const subject of await subjectsOf(namespace, scope)) {
      const name = JSON.stringify(subject)
      if (seen.has(name)) continue
      seen.add(name)
      const take = (record: UsageRecord) => {
        const id = `${record.entity} ${record.resource}`
        const pair = pairs.get(id) ?? {entity: record.entity, resource: record.resource, records: new Map()}
        const {start} = record
        if (!pair.records.has(start)) windows++
        pair.records.set(start, record)
        pairs.set(id, pair)
      }
      if (windows >= MOST_WINDOWS) return {pairs, isComplete: false}
      isComplete = (await walkUsage(namespace, {...subject, ...range}, take, MOST_WINDOWS - windows)) && isComplete
    }
  }
  return {pairs, isComplete}
}

interface Subject {
  readonly entity?: string
  readonly resource?: string
}

async function subjectsOf(namespace: NamespaceRepository, scope: ConfigScope): Promise<Subject[]> {
  if (scope.level === 'resource') return [{resource: scope.resource}]
  if (scope.level === 'system') return (await resourcesInUse(namespace)).resources.map(resource => ({resource}))
  return [{entity: scope.entity, ...(scope.resource !== DEFAULT_RESOURCE && {resource: scope.resource})}]
}

/** Consumption of one limit, in whole tokens. */
interface RecordedWindow {
  readonly startMs: number
  readonly endMs: number
  readonly tokens: number
  /** Of all limits of the bucket. */
  readonly writes: number
}

export interface LimitImpact {
  /**
   * `refused`: certain. `possible`: depends on timing within windows. `bursts`: likewise, but only if a rate is used in
   * bursts above twice the average of a window. `near`: admitted, above 80 %.
   */
  readonly verdict: (typeof ORDER)[number]
  /** Certainly refused. Exact for calendar quotas whose periods consist of whole windows, else a lower bound. */
  readonly refusedTokens: number
  readonly isExact: boolean
  readonly refusedWindows: number
  readonly possibleWindows: number
  /** The window that used the largest share of its allowance. */
  readonly peak: {readonly startMs: number; readonly tokens: number; readonly allowed: number} | undefined
}

const NEAR = 0.8

/**
 * Up to this share of its allowance in every window, a rate refuses only bursts above twice the average: a stretch of t
 * at twice the average uses at most (capacity + refill) × t / window. If the capacity is at most the refill of a window,
 * that fits, also over the edges of windows.
 */
const BURSTY = 0.5

/** False also if a write took more than the capacity at once: then such bursts are known. */
function isForBursts({reset, schedule, ...limit}: Limit, windows: readonly RecordedWindow[]): boolean {
  if (reset || schedule) return false
  const perMs = limit.refillAmount / limit.refillPeriodSeconds / 1000
  return windows.every(({startMs, endMs, tokens, writes}) => {
    return limit.capacity <= perMs * (endMs - startMs) && tokens <= limit.capacity * writes
  })
}

interface WindowImpact {
  readonly refused: number
  readonly isPossible: boolean
  readonly allowed: number
}

/** Must be called with the oldest window first. */
type Judge = (window: RecordedWindow) => WindowImpact

/** Windows without usage may be left out. `before`: the limit that admitted the usage. */
export function limitImpact(limit: Limit, windows: readonly RecordedWindow[], before?: Limit): LimitImpact {
  const sorted = windows.filter(({tokens}) => tokens > 0).toSorted((a, b) => a.startMs - b.startMs)
  const {judge, isExact} = judgeOf(limit, sorted)
  let [refusedTokens, refusedWindows, possibleWindows, peakShare] = [0, 0, 0, 0]
  let peak: LimitImpact['peak']
  for (const window of sorted) {
    const {refused, isPossible, allowed} = judge(window)
    refusedTokens += refused
    if (refused > 0) refusedWindows++
    else if (isPossible) possibleWindows++
    const share = allowed > 0 ? window.tokens / allowed : Number.POSITIVE_INFINITY
    if (share <= peakShare) continue
    peakShare = share
    peak = {startMs: window.startMs, tokens: window.tokens, allowed}
  }
  const isRefusing = refusedWindows > 0 && !limit.soft
  if (before && admitsAll(limit, before)) possibleWindows = 0
  const mayRefuse = possibleWindows > 0 && !limit.soft
  const possible = peakShare <= BURSTY && isForBursts(limit, sorted) ? 'bursts' : 'possible'
  const verdict = isRefusing ? 'refused' : mayRefuse ? possible : peakShare >= NEAR ? 'near' : 'fits'
  return {verdict, refusedTokens: Math.ceil(refusedTokens), isExact, refusedWindows, possibleWindows, peak}
}

/** Whether `limit` admits every request that `before` admitted. Unknown, hence false, with windows of time. */
function admitsAll(limit: Limit, before: Limit): boolean {
  if (before.soft || isInFlight(before) || limit.schedule || before.schedule) return false
  const perSecond = ({refillAmount, refillPeriodSeconds}: Limit) => refillAmount / refillPeriodSeconds
  return (
    isDeepStrictEqual([limit.reset, limit.timeZone], [before.reset, before.timeZone]) &&
    limit.capacity >= before.capacity &&
    perSecond(limit) >= perSecond(before)
  )
}

function judgeOf(limit: Limit, windows: readonly RecordedWindow[]): {judge: Judge; isExact: boolean} {
  if (isSessionReset(limit.reset))
    return {judge: sessionJudge(limit, limit.reset.afterSeconds * 1000, windows), isExact: false}
  const resets = kindedRateOf(limit, 0).kind?.quota?.resets
  if (!resets) return {judge: rateJudge(limit), isExact: false}
  const isExact = !limit.schedule && windows.every(window => periodOf(resets, window) !== undefined)
  return {judge: quotaJudge(limit, resets), isExact}
}

/** Highest and lowest capacity and refill per ms, over all entries of the schedule. */
function extremes({capacity, refillAmount, refillPeriodSeconds, schedule = []}: Limit) {
  const all = [
    {capacity, perMs: refillAmount / refillPeriodSeconds / 1000},
    ...schedule.map(entry => {
      if ('scale' in entry) {
        return {capacity: capacity * entry.scale, perMs: (refillAmount * entry.scale) / refillPeriodSeconds / 1000}
      }
      const amount = entry.refillAmount ?? refillAmount
      return {
        capacity: entry.capacity ?? capacity,
        perMs: amount / (entry.refillPeriodSeconds ?? refillPeriodSeconds) / 1000,
      }
    }),
  ]
  const of = (pick: (...values: number[]) => number) => ({
    capacity: pick(...all.map(each => each.capacity)),
    perMs: pick(...all.map(each => each.perMs)),
  })
  return {most: of(Math.max), least: of(Math.min)}
}

/** Starts full. Tokens above `best` (no refill lost) are refused, up to `worst` (bursts at window edges) admitted. */
function rateJudge(limit: Limit): Judge {
  const {most, least} = extremes(limit)
  let [best, worst, atMs] = [most.capacity, least.capacity, Number.NEGATIVE_INFINITY]
  return ({startMs, endMs, tokens}) => {
    const idleMs = startMs - atMs
    const lengthMs = endMs - startMs
    best = Math.min(most.capacity, best + most.perMs * idleMs)
    worst = Math.min(least.capacity, worst + least.perMs * idleMs)
    const allowed = best + most.perMs * lengthMs
    const isPossible = tokens > worst
    const refused = Math.max(0, tokens - allowed)
    best = Math.min(most.capacity, allowed - tokens + refused)
    worst = Math.max(0, Math.min(least.capacity, worst + least.perMs * lengthMs) - tokens)
    atMs = endMs
    return {refused, isPossible, allowed}
  }
}

/** Start of the period that contains the window, epoch ms. `undefined`: a reset divides the window. */
function periodOf(resets: ResetClock, {startMs, endMs}: RecordedWindow): number | undefined {
  const next = resets.nextMs(startMs)
  return next === undefined || next >= endMs ? (resets.lastMs(startMs) ?? 0) : undefined
}

/** A window divided by a reset may belong to either period, so it may use two capacities. */
function quotaJudge(limit: Limit, resets: ResetClock): Judge {
  const {most, least} = extremes(limit)
  const used = {certain: 0, possible: 0, periodMs: Number.NaN}
  return window => {
    const {tokens} = window
    const periodMs = periodOf(resets, window)
    if (periodMs === undefined) {
      const isPossible = used.possible + tokens > least.capacity
      Object.assign(used, {certain: 0, possible: tokens, periodMs: resets.lastMs(window.endMs - 1) ?? 0})
      return {refused: Math.max(0, tokens - 2 * most.capacity), isPossible, allowed: 2 * most.capacity}
    }
    if (periodMs !== used.periodMs) Object.assign(used, {certain: 0, possible: 0, periodMs})
    const allowed = Math.max(0, most.capacity - used.certain)
    const refused = Math.max(0, tokens - allowed)
    used.possible += tokens
    used.certain += tokens - refused
    return {refused, isPossible: used.possible > least.capacity, allowed}
  }
}

/** Session starts are unknown. Best: a window meets as many as possible. Worst: one session gets all nearby tokens. */
function sessionJudge(limit: Limit, sessionMs: number, windows: readonly RecordedWindow[]): Judge {
  const {most, least} = extremes(limit)
  return ({startMs, endMs, tokens}) => {
    const sessions = Math.floor((endMs - startMs) / sessionMs) + 2
    const allowed = sessions * most.capacity
    const together = windows
      .filter(other => other.startMs < endMs + sessionMs && other.endMs > startMs - sessionMs)
      .reduce((sum, other) => sum + other.tokens, 0)
    return {refused: Math.max(0, tokens - allowed), isPossible: together > least.capacity, allowed}
  }
}
