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
import {type CompiledSchedule, rateInWindow} from './compiled-schedule.js'
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
    windows: schedule && formatWindows(schedule.map(windowOf)),
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

interface Stretch<T> {
  readonly fromMs: number
  readonly untilMs: number
  readonly answer: T
}

const MOST_STRETCHES = 32

/** Searching the calendar takes far longer than this lookup. */
function remembered<T>(search: (atMs: number) => Stretch<T>): (atMs: number) => Stretch<T> {
  const known: Stretch<T>[] = []
  return atMs => {
    const at = known.findIndex(({fromMs, untilMs}) => atMs >= fromMs && atMs < untilMs)
    if (at >= 0) return known[at] as Stretch<T>
    const found = search(atMs)
    // Two stretches that end at the same time are the same one, found from different instants.
    const same = known.findIndex(({untilMs}) => untilMs === found.untilMs && untilMs !== Infinity)
    const [before] = same >= 0 ? known.splice(same, 1) : []
    const stretch = {...found, fromMs: Math.min(found.fromMs, before?.fromMs ?? found.fromMs)}
    known.unshift(stretch)
    if (known.length > MOST_STRETCHES) known.pop()
    return stretch
  }
}

function rateSchedule(stored: StoredSchedule): RateSchedule {
  const stretchAt = remembered((atMs): Stretch<LimitWindow | undefined> => {
    const compiled = compileStored(stored)
    return {fromMs: atMs, untilMs: compiled.nextWindowChange(atMs), answer: compiled.windowAt(atMs)}
  })
  return {
    at: (atMs, base) => {
      const {answer, untilMs} = stretchAt(atMs)
      return {
        rate: answer ? rateInWindow(base, answer) : base,
        untilMs: Number.isFinite(untilMs) ? untilMs : undefined,
      }
    },
  }
}

function resetClock(stored: StoredSchedule): ResetClock {
  const stretchAt = remembered((atMs): Stretch<undefined> => {
    const compiled = compileStored(stored)
    const [lastMs, nextMs] = [compiled.lastReset(atMs), compiled.nextReset(atMs)]
    return {fromMs: lastMs ?? -Infinity, untilMs: nextMs ?? Infinity, answer: undefined}
  })
  const finite = (ms: number) => (Number.isFinite(ms) ? ms : undefined)
  return {lastMs: atMs => finite(stretchAt(atMs).fromMs), nextMs: atMs => finite(stretchAt(atMs).untilMs)}
}

function windowOf(entry: ScheduleEntry): LimitWindow {
  if (!('scale' in entry)) return entry
  const {cron, scale} = entry
  return {cron, scalePerMille: scaleToPerMille(scale)}
}

export function openWindow({schedule = [], timeZone}: Limit, atMs: number): number | undefined {
  const at = schedule.findIndex(
    entry => compileStored({zone: timeZone, windows: formatWindows([windowOf(entry)])}).windowAt(atMs) !== undefined,
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
