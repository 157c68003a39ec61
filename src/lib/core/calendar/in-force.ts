import {isCalendarReset, type Limit} from '../limits/limit.js'
import {wholeRateAt} from '../limits/limit-kind.js'
import {kindedRateOf, windowOf} from './kind-definition.js'
import {compileStored, formatResets, formatWindows} from './stored-schedule.js'

/** Which entry of the schedule of a limit applies at an instant; `undefined` where none does. */
export function openWindow({schedule = [], timeZone}: Limit, atMs: number): number | undefined {
  const at = schedule.findIndex(
    entry => compileStored({zone: timeZone, windows: formatWindows([windowOf(entry)])}).windowAt(atMs) !== undefined,
  )
  return at < 0 ? undefined : at
}

/**
 * A limit with the values that its schedule, boost included, gives it at an instant, as one would write it without
 * windows. Tokens are rounded up to whole ones.
 */
export function plainAt(limit: Limit, atMs: number): Limit {
  const {rate} = wholeRateAt(kindedRateOf(limit, atMs), atMs)
  const {schedule: _, boost: __, timeZone, ...plain} = limit
  const whole = (milli: bigint) => Math.ceil(Number(milli) / 1000)
  return {
    ...plain,
    ...(isCalendarReset(limit.reset) && timeZone !== undefined && {timeZone}),
    capacity: whole(rate.capacityMilli),
    refillAmount: whole(rate.refillAmountMilli),
    refillPeriodSeconds: rate.refillPeriodMs / 1000,
  }
}

/** Epoch ms at which a quota of the calendar is full again after an instant; `undefined` for limits of other kinds. */
export function nextResetMs({reset, timeZone}: Limit, atMs: number): number | undefined {
  if (!isCalendarReset(reset)) return undefined
  return compileStored({zone: timeZone, resets: formatResets(reset.crons)}).nextReset(atMs)
}
