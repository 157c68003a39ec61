import {isCalendarReset, type Limit} from '../limits/limit.js'
import {compileStored, formatResets} from './stored-schedule.js'

/** Epoch ms at which a quota of the calendar is full again after an instant; `undefined` for limits of other kinds. */
export function nextResetMs({reset, timeZone}: Limit, atMs: number): number | undefined {
  if (!isCalendarReset(reset)) return undefined
  return compileStored({zone: timeZone, resets: formatResets(reset.crons)}).nextReset(atMs)
}
