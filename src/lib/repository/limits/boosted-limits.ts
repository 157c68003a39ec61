import {isDeepStrictEqual} from 'node:util'
import {isoMinute, LONGEST_UNTIL_DAYS, windowsUntil} from '../../core/calendar/windows-until.js'
import {InvalidInput} from '../../core/errors.js'
import {
  baseOf,
  boostedOf,
  DEFAULT_ZONE,
  isInFlight,
  kindNameOf,
  type Limit,
  withBoost,
  withoutWindows,
} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import {formatList} from '../../core/text/text.js'
import type {ConfigScope} from '../../schema/config-record.js'
import type {ScopedLimits} from './boost-records.js'
import {nameOf} from './checks.js'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** A process whose clock is ahead must not remove windows while they are open for others. */
export const TIDY_AFTER_MS = 5 * MINUTE_MS

/** Epoch ms, rounded up to a whole minute, as windows are. */
export function checkUntil(until: Date, nowMs: number): number {
  const ms = until.getTime()
  if (Number.isNaN(ms)) throw new InvalidInput('until.invalid', 'The end is not a valid date.')
  const untilMs = Math.ceil(ms / MINUTE_MS) * MINUTE_MS
  if (untilMs <= nowMs)
    throw new InvalidInput('until.past', `The end, ${isoMinute(untilMs)}, is not in the future.`, {
      details: {until: isoMinute(untilMs)},
    })
  // Before rounding: exactly the maximum number of days is allowed.
  if (ms - nowMs > LONGEST_UNTIL_DAYS * DAY_MS)
    throw new InvalidInput(
      'until.far',
      `The end, ${isoMinute(untilMs)}, is more than ${LONGEST_UNTIL_DAYS} days away.`,
      {
        hint: 'Choose an earlier end, or set permanent limits.',
        details: {until: isoMinute(untilMs), days: LONGEST_UNTIL_DAYS},
      },
    )
  return untilMs
}

export function checkEnding(
  limits: readonly Limit[],
  options: {readonly replace?: boolean | undefined; readonly hasSettings: boolean},
): void {
  const problem =
    limits.length === 0
      ? 'Only limits can be temporary, and none is given.'
      : options.hasSettings
        ? 'Outage policy, audit retention, switch and cascade policy cannot be temporary. Set them without an end.'
        : options.replace
          ? 'A temporary change keeps all other limits, so it cannot remove them.'
          : undefined
  if (problem !== undefined) throw new InvalidInput('until.only-limits', problem)
}

/** Applies `given` until an instant. Each limit must exist and keep its kind. */
export function boosted(
  scope: ConfigScope,
  present: readonly Limit[],
  given: readonly Limit[],
  end: {readonly untilMs: number; readonly nowMs: number},
): Limit[] {
  const unknown = given.filter(({name}) => !present.some(limit => limit.name === name)).map(({name}) => name)
  if (unknown.length > 0)
    throw new InvalidInput(
      'until.missing',
      `Limit ${formatList(unknown)} does not exist for ${nameOf(scope)}, so no value could apply after the end.`,
      {hint: 'Set a permanent limit first.', details: {scope, limits: unknown}},
    )
  const values = new Map(given.map(limit => [limit.name, limit]))
  const zone = zoneOf(present)
  return present.map(limit => {
    const value = values.get(limit.name)
    if (!value) return limit
    checkRate(scope, limit, value)
    checkSameKind(scope, limit, value)
    const {crons} = windowsUntil(zone, end.nowMs, end.untilMs)
    return withBoost(limit, value, {crons, timeZone: zone, untilMs: end.untilMs})
  })
}

function checkSameKind(scope: ConfigScope, limit: Limit, given: Limit): void {
  const base = baseOf(limit)
  const {name} = base
  if (given.schedule)
    throw new InvalidInput('until.windows', `A temporary value of the limit "${name}" cannot have windows.`, {
      hint: 'Give one value until the end. Its existing windows apply again afterwards.',
    })
  const {capacity, refillAmount, refillPeriodSeconds} = given
  const plain = withoutWindows(base)
  const wanted = {...plain, capacity, refillAmount, refillPeriodSeconds}
  if (!isDeepStrictEqual(wanted, given))
    throw new InvalidInput(
      'until.kind',
      `The limit "${name}" is ${formatLimit(base)}. A temporary value can change only its amounts.`,
      {
        hint: `Use the same form, for example ${formatLimit({...plain, capacity: 2 * base.capacity, refillAmount: 2 * base.refillAmount})}.`,
        details: {limit: name, is: formatLimit(base), given: formatLimit(given)},
      },
    )
  // If the limit has its own windows, its plain value is already a change.
  const isSame =
    !base.schedule &&
    (['capacity', 'refillAmount', 'refillPeriodSeconds'] as const).every(key => base[key] === given[key])
  if (isSame)
    throw new InvalidInput('until.same', `The permanent limit "${name}" is already ${formatLimit(base)}.`, {
      hint: limit.boost
        ? 'End the temporary limit to return to it now.'
        : 'Give different amounts to apply until the end.',
      details: {scope, limit: name, boosted: limit.boost !== undefined},
    })
}

/**
 * A window would clamp the balance of a quota without telling its use. So neither a raise nor what is left after it would
 * be as expected. An in-flight limit has no windows.
 */
function checkRate(scope: ConfigScope, limit: Limit, {capacity}: Limit): void {
  const base = baseOf(limit)
  const {name, reset, unit} = base
  if (isInFlight(base))
    throw new InvalidInput(
      'until.in-flight',
      `The limit "${name}" is an in-flight limit, ${formatLimit(base)}: only rates can be temporary.`,
      {hint: 'Change it without an end, and set it back later.', details: {scope, limit: name}},
    )
  if (!reset) return
  throw new InvalidInput(
    'until.quota',
    `The limit "${name}" is a quota, ${formatLimit(base)}: only rates can be temporary.`,
    {
      hint: 'Top up its buckets: the tokens count at once, until the reset. Or change the quota without an end.',
      details: {scope, limit: name, more: capacity - base.capacity, ...(unit !== undefined && {unit})},
    },
  )
}

function zoneOf(limits: readonly Limit[]): string {
  return limits.map(baseOf).find(({timeZone}) => timeZone !== undefined)?.timeZone ?? DEFAULT_ZONE
}

/** Moves all boosts to the zone that the other limits need: a configuration has only one. */
export function inOneZone(limits: readonly Limit[], nowMs: number): Limit[] {
  const zone = zoneOf(limits)
  return limits.map(limit => {
    const {boost} = limit
    const values = boostedOf(limit)
    if (!boost || !values || limit.timeZone === zone) return limit
    if (boost.untilMs <= nowMs) return baseOf(limit)
    const {crons} = windowsUntil(zone, nowMs, boost.untilMs)
    return withBoost(limit, values, {crons, timeZone: zone, untilMs: boost.untilMs})
  })
}

/** Adds to `limits`, given without boosts, the current boosts of limits with the same name and kind. */
export function rebased(limits: readonly Limit[], present: readonly Limit[]): Limit[] {
  return limits.map(limit => {
    const now = present.find(({name}) => name === limit.name)
    const values = now && boostedOf(now)
    if (!now?.boost || !values || kindNameOf(values) !== kindNameOf(limit)) return limit
    const crons = (now.schedule ?? []).slice(0, now.boost.windows).map(({cron}) => cron)
    return withBoost(limit, values, {crons, timeZone: now.timeZone ?? DEFAULT_ZONE, untilMs: now.boost.untilMs})
  })
}

/** Removes the windows of boosts that ended some time ago, and limits that were copied for them. */
export function tidied<T extends ScopedLimits>(scoped: T, nowMs: number): T {
  const isOver = ({boost}: Limit): boolean => boost !== undefined && boost.untilMs + TIDY_AFTER_MS <= nowMs
  return scoped.limits.some(isOver) ? withoutBoosts(scoped, isOver) : scoped
}

export function withoutBoosts<T extends ScopedLimits>(scoped: T, isEnded: (limit: Limit) => boolean): T {
  const limits = scoped.limits.map(limit => (isEnded(limit) ? baseOf(limit) : limit))
  if (scoped.copiedUntilMs === undefined) return {...scoped, limits}
  const copiedUntilMs = lastEndMs(limits)
  return {...scoped, limits: copiedUntilMs === undefined ? [] : limits, copiedUntilMs}
}

/** Epoch ms; `undefined` without boosts. */
export function lastEndMs(limits: readonly Limit[]): number | undefined {
  const ends = limits.flatMap(({boost}) => boost?.untilMs ?? [])
  return ends.length === 0 ? undefined : Math.max(...ends)
}
