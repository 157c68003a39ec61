import {
  isCalendarReset,
  isSessionReset,
  type Limit,
  rateOf,
  type ScheduleEntry,
  withoutWindows,
} from '../limits/limit.js'
import {
  type KindedRate,
  type LimitKind,
  type RateSchedule,
  type ResetClock,
  STAMP_MS,
  wholeRateAt,
} from '../limits/limit-kind.js'
import type {CompiledSchedule} from './compiled-schedule.js'
import {type LimitWindow, scaleToPerMille} from './schedule.js'
import {compileStored, formatResets, formatWindows, type StoredSchedule} from './stored-schedule.js'

export interface KindDefinition extends StoredSchedule {
  readonly sessionSeconds?: number | undefined
}

export function kindedRateOf(limit: Limit, nowMs: number): KindedRate {
  const rate = rateOf(limit)
  const {reset, schedule, soft} = limit
  if (!reset && !schedule && !soft) return rate
  const kind = kinds.get(limit) ?? configuredKind(limit)
  kinds.set(limit, kind)
  return {...rate, kind: soft ? {...kind, softUntilMs: nowMs + STAMP_MS} : kind}
}

const kinds = new WeakMap<Limit, LimitKind>()

function configuredKind({reset, schedule, timeZone}: Limit): LimitKind {
  const kind = kindOf({
    zone: timeZone,
    windows: schedule && formatWindows(schedule.map(windowOfEntry)),
    resets: isCalendarReset(reset) ? formatResets(reset.crons) : undefined,
    sessionSeconds: isSessionReset(reset) ? reset.afterSeconds : undefined,
  })
  return kind ?? {definition: PLAIN_DEFINITION}
}

export const PLAIN_DEFINITION = definitionOf({})

/** `undefined` for a plain limit. An unreadable schedule fails when it is evaluated, not here. */
export function kindOf(defined: KindDefinition): LimitKind | undefined {
  if (!defined.windows && !defined.resets && defined.sessionSeconds === undefined) return undefined
  const definition = definitionOf(defined)
  const known = byDefinition.get(definition)
  if (known) return known
  if (byDefinition.size >= MOST_KINDS) byDefinition.clear()
  const kind = newKind(definition, defined)
  byDefinition.set(definition, kind)
  return kind
}

const byDefinition = new Map<string, LimitKind>()
const MOST_KINDS = 1000

function newKind(definition: string, defined: KindDefinition): LimitKind {
  const {zone, windows = '', resets = '', sessionSeconds} = defined
  const stored = {zone, windows, resets}
  // A damaged record may have both. The calendar wins, as for other clients.
  const session = resets === '' && sessionSeconds !== undefined ? {lengthMs: sessionSeconds * 1000} : undefined
  return {
    definition,
    ...(windows !== '' && {schedule: rateSchedule(stored)}),
    ...(resets !== '' && {quota: {resets: resetClock(stored)}}),
    ...(session && {quota: {session}}),
  }
}

function definitionOf({zone, windows = '', resets = '', sessionSeconds}: KindDefinition): string {
  const usesZone = windows !== '' || resets !== ''
  return JSON.stringify([windows, resets, usesZone ? zone || 'UTC' : '', resets === '' ? (sessionSeconds ?? 0) : 0])
}

export function definitionIn({definition}: LimitKind): Required<KindDefinition> {
  const [windows, resets, zone, sessionSeconds] = JSON.parse(definition) as [string, string, string, number]
  return {windows, resets, zone: zone || undefined, sessionSeconds: sessionSeconds || undefined}
}

/** Compiled on the first use: an unreadable schedule fails then. Kept, because every write uses it. */
function compiledLater(stored: StoredSchedule): () => CompiledSchedule {
  let compiled: CompiledSchedule | undefined
  return () => {
    compiled ??= compileStored(stored)
    return compiled
  }
}

function rateSchedule(stored: StoredSchedule): RateSchedule {
  const schedule = compiledLater(stored)
  return {
    at: (atMs, base) => {
      const untilMs = schedule().nextWindowChange(atMs)
      return {rate: schedule().rateAt(base, atMs), untilMs: Number.isFinite(untilMs) ? untilMs : undefined}
    },
  }
}

function resetClock(stored: StoredSchedule): ResetClock {
  const schedule = compiledLater(stored)
  return {lastMs: atMs => schedule().lastReset(atMs), nextMs: atMs => schedule().nextReset(atMs)}
}

export function windowOfEntry(entry: ScheduleEntry): LimitWindow {
  if (!('scale' in entry)) return entry
  const {cron, scale} = entry
  return {cron, scalePerMille: scaleToPerMille(scale)}
}

export function openWindow({schedule = [], timeZone}: Limit, atMs: number): number | undefined {
  const at = schedule.findIndex(
    entry =>
      compileStored({zone: timeZone, windows: formatWindows([windowOfEntry(entry)])}).windowAt(atMs) !== undefined,
  )
  return at < 0 ? undefined : at
}

/** Includes the boost. Rounds up to whole tokens. */
export function plainAt(limit: Limit, atMs: number): Limit {
  const {rate} = wholeRateAt(kindedRateOf(limit, atMs), atMs)
  const whole = (milli: bigint) => Math.ceil(Number(milli) / 1000)
  return {
    ...withoutWindows(limit),
    capacity: whole(rate.capacityMilli),
    refillAmount: whole(rate.refillAmountMilli),
    refillPeriodSeconds: rate.refillPeriodMs / 1000,
  }
}

export function nextResetMs(limit: Limit, atMs: number): number | undefined {
  return resetsOf(limit)?.nextReset(atMs)
}

/** `undefined` unless it is a calendar quota. */
export function resetsOf({reset, timeZone}: Limit): CompiledSchedule | undefined {
  return isCalendarReset(reset) ? compileStored({zone: timeZone, resets: formatResets(reset.crons)}) : undefined
}
