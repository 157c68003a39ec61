import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import {isSessionReset, type Limit} from '../../core/limits/limit.js'
import type {ResetClock} from '../../core/limits/limit-kind.js'

/** Consumption of one limit, in whole tokens. */
export interface RecordedWindow {
  readonly startMs: number
  readonly endMs: number
  readonly tokens: number
}

export interface LimitImpact {
  /** `refused`: certain. `possible`: depends on timing within windows. `near`: admitted, above 80 %. */
  readonly verdict: 'refused' | 'possible' | 'near' | 'fits'
  /** Certainly refused. Exact for calendar quotas whose periods consist of whole windows, else a lower bound. */
  readonly refusedTokens: number
  readonly isExact: boolean
  readonly refusedWindows: number
  readonly possibleWindows: number
  /** The window that used the largest share of its allowance. */
  readonly peak: {readonly startMs: number; readonly tokens: number; readonly allowed: number} | undefined
}

const NEAR = 0.8

interface WindowImpact {
  readonly refused: number
  readonly isPossible: boolean
  readonly allowed: number
}

/** Must be called with the oldest window first. */
type Judge = (window: RecordedWindow) => WindowImpact

/** Windows without usage may be left out. */
export function limitImpact(limit: Limit, windows: readonly RecordedWindow[]): LimitImpact {
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
  const mayRefuse = possibleWindows > 0 && !limit.soft
  const verdict = isRefusing ? 'refused' : mayRefuse ? 'possible' : peakShare >= NEAR ? 'near' : 'fits'
  return {verdict, refusedTokens: Math.ceil(refusedTokens), isExact, refusedWindows, possibleWindows, peak}
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
