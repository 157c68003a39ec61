import {InvalidInput} from '../errors.js'
import {type CalendarCheck, thousandthsOf} from '../limits/limit.js'
import {parseCron} from './cron.js'
import {checkTimeZoneName} from './time-zone.js'

/** Open in every minute that the cron matches: `* 9-17 * * 1-5` is open from 9:00 to 18:00. */
export interface LimitWindow {
  readonly cron: string
  /** Factor of capacity and refill amount, in thousandths. */
  readonly scalePerMille?: number
  /** Whole tokens, like `refillAmount`. */
  readonly capacity?: number
  readonly refillAmount?: number
  readonly refillPeriodSeconds?: number
}

export interface LimitSchedule {
  readonly zone: string
  readonly windows: readonly LimitWindow[]
  /** Crons; the limit is restored whenever one starts to match. */
  readonly resets: readonly string[]
}

/** The largest numbers that every client of the table reads. */
const SCHEDULE_BOUNDS = {tokens: 10 ** 15, periodSeconds: 10 ** 9, scale: 10 ** 6} as const

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

/** Rejects a cron that always matches, because it never starts to match. */
export function makeReset(cron: string): string {
  const parsed = parseCron(cron)
  if (!parsed.isAlways) return parsed.text
  throw new InvalidInput('schedule.reset', `The cron "${cron}" always matches, so it would never reset anything.`, {
    hint: 'Give the minute when a period begins, for example "0 0 * * *" for midnight.',
  })
}

export function scaleToPerMille(scale: number): number {
  if (!(scale > 0 && scale <= SCHEDULE_BOUNDS.scale)) {
    throw new InvalidInput(
      'schedule.scale',
      `A scale must be above 0 and at most ${SCHEDULE_BOUNDS.scale}, not ${scale}.`,
    )
  }
  return thousandthsOf(scale)
}

/** Accepts only crons and zones that every client of the table can evaluate. */
export const calendarCheck: CalendarCheck = {
  cron: (cron, use) => problemOf(() => (use === 'reset' ? makeReset(cron) : parseCron(cron))),
  zone: timeZone => problemOf(() => checkTimeZoneName(timeZone)),
}

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
