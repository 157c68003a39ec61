import {InvalidInput} from '../errors.js'
import type {CalendarCheck} from '../limits/limit.js'
import {parseCron} from './cron.js'
import {checkTimeZoneName} from './time-zone.js'

/**
 * A window in which a limit is another one: either scaled, or with numbers of its own; what is not given stays as it is. It is
 * open in every minute that the pattern matches: `* 9-17 * * 1-5` is open from 9:00 to 18:00.
 */
export interface LimitWindow {
  readonly cron: string
  /** Capacity and refill amount in thousandths of the limit's own: 100 is a tenth. */
  readonly scalePerMille?: number
  /** Whole tokens. */
  readonly capacity?: number
  /** Whole tokens per period. */
  readonly refillAmount?: number
  readonly refillPeriodSeconds?: number
}

export interface LimitSchedule {
  /** Name of the time zone whose wall clock the patterns are compared with. */
  readonly zone: string
  /** The first one that is open counts; outside of all of them the limit is as configured. */
  readonly windows: readonly LimitWindow[]
  /** Patterns; the limit is full again whenever one of them starts to match. */
  readonly resets: readonly string[]
}

/** The largest numbers that every client of the table reads. */
const SCHEDULE_BOUNDS = {tokens: 10 ** 15, periodSeconds: 10 ** 9, scale: 10 ** 6} as const

/** A schedule with everything checked, and its patterns as the table stores them. */
export function makeSchedule(schedule: LimitSchedule): LimitSchedule {
  return {
    zone: checkTimeZoneName(schedule.zone),
    windows: schedule.windows.map(makeWindow),
    resets: schedule.resets.map(makeReset),
  }
}

export function makeWindow(window: LimitWindow): LimitWindow {
  const {text: cron} = parseCron(window.cron)
  const {scalePerMille, capacity, refillAmount, refillPeriodSeconds} = window
  const hasNumbers = capacity !== undefined || refillAmount !== undefined || refillPeriodSeconds !== undefined
  if ((scalePerMille !== undefined) === hasNumbers) {
    throw new InvalidInput(
      'schedule.window',
      `The window "${cron}" must have either a scale, or one or more of capacity, refill amount and refill period.`,
    )
  }
  const {tokens, periodSeconds, scale} = SCHEDULE_BOUNDS
  return {
    cron,
    ...checked('scalePerMille', 'scale (thousandths)', scale * 1000),
    ...checked('capacity', 'capacity', tokens),
    ...checked('refillAmount', 'refill amount', tokens),
    ...checked('refillPeriodSeconds', 'refill period (seconds)', periodSeconds),
  }

  function checked(key: Exclude<keyof LimitWindow, 'cron'>, what: string, largest: number) {
    const value = window[key]
    if (value === undefined) return {}
    if (Number.isSafeInteger(value) && value > 0 && value <= largest) return {[key]: value}
    throw new InvalidInput(
      'schedule.number',
      `The ${what} of the window "${cron}" must be a whole number from 1 to ${largest}, not ${value}.`,
      {details: {cron, value: String(value)}},
    )
  }
}

/** The pattern of a reset as the table stores it. A pattern that always matches would never start to. */
export function makeReset(cron: string): string {
  const parsed = parseCron(cron)
  if (!parsed.isAlways) return parsed.text
  throw new InvalidInput('schedule.reset', `The pattern "${cron}" matches always, so it would never reset anything.`, {
    hint: 'Name the minute at which a period begins, for example "0 0 * * *" for midnight.',
  })
}

/** Thousandths of a scale such as 0.1, rounded as the Python client rounds them; at least 1. */
export function scaleToPerMille(scale: number): number {
  if (!(scale > 0 && scale <= SCHEDULE_BOUNDS.scale)) {
    throw new InvalidInput(
      'schedule.scale',
      `A scale must be above 0 and at most ${SCHEDULE_BOUNDS.scale}, not ${scale}.`,
    )
  }
  const thousandths = scale * 1000
  const below = Math.floor(thousandths)
  const isHalf = thousandths - below === 0.5
  // Halves go to the even neighbour.
  return Math.max(1, isHalf ? below + (below % 2) : Math.round(thousandths))
}

/** What limits are checked with where texts come in: crons and zones that every client of the table can evaluate. */
export const calendarCheck: CalendarCheck = {
  cron: (cron, use) => problemOf(() => (use === 'reset' ? makeReset(cron) : parseCron(cron))),
  zone: timeZone => problemOf(() => checkTimeZoneName(timeZone)),
}

/** The reason in one line, without the full stop; `undefined` if the check passes. */
function problemOf(check: () => unknown): string | undefined {
  try {
    check()
    return undefined
  } catch (error) {
    if (!(error instanceof InvalidInput)) throw error
    const text = error.message.replace(/\.$/, '')
    const suggestion = error.hint?.startsWith('Did you mean')
      ? `; ${error.hint.replace(/^D/, 'd').replace(/\?$/, '')}?`
      : ''
    return `${text.charAt(0).toLowerCase()}${text.slice(1)}${suggestion}`
  }
}
