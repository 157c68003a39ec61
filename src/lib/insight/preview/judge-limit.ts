import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import {isSessionReset, type Limit} from '../../core/limits/limit.js'
import type {ResetClock} from '../../core/limits/limit-kind.js'

/** What was consumed under one limit in one window of usage, in whole tokens. */
export interface RecordedWindow {
  readonly startMs: number
  readonly endMs: number
  readonly tokens: number
}

export interface LimitImpact {
  /**
   * `refused`: some of it cannot have been admitted. `possible`: depends on when it came within the windows, which is not
   * recorded. `near`: admitted, but above 80 % of what was possible in a window. `fits`: admitted in any case.
   */
  readonly verdict: 'refused' | 'possible' | 'near' | 'fits'
  /** Tokens that cannot have been admitted: exact for calendar quotas whose periods consist of windows, else a lower bound. */
  readonly refusedTokens: number
  readonly isExact: boolean
  /** Windows in which something is certainly, or perhaps, refused. */
  readonly refusedWindows: number
  readonly possibleWindows: number
  /** The window in which most was used of what was possible. */
  readonly peak: {readonly startMs: number; readonly tokens: number; readonly allowed: number} | undefined
}

/** The part of what is possible above which a limit is called near. */
const NEAR = 0.8

interface WindowImpact {
  readonly refused: number
  readonly isPossible: boolean
  readonly allowed: number
}

/** Judges one window after the other, oldest first. */
type Judge = (window: RecordedWindow) => WindowImpact

/** What a limit would have done to recorded usage; windows without usage may be left out. */
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

/** Capacity, and refill per ms: at its most and at its least, over all windows of a schedule. */
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

/**
 * A rate is full at the beginning. At best, requests come so that no refill is lost: what is above the balance and the refill
 * of the whole window cannot have been admitted. At worst, all of one window come at its end and all of the next at its
 * beginning: what fits then is admitted in any case.
 */
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

/** Begin of the period that a whole window lies in; `undefined` for one that a reset divides. */
function periodOf(resets: ResetClock, {startMs, endMs}: RecordedWindow): number | undefined {
  const next = resets.nextMs(startMs)
  return next === undefined || next >= endMs ? (resets.lastMs(startMs) ?? 0) : undefined
}

/** A window that a reset divides may belong to either period: it is refused in neither, and possible in both. */
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

/** When sessions began is not known: at best so that a window meets as many as possible, at worst all of one length in one. */
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
