import {InvalidInput} from '../errors.js'
import type {CalendarCheck} from '../limits/limit.js'
import {parseCron} from './cron.js'
import {makeReset} from './schedule.js'
import {checkTimeZoneName} from './time-zone.js'

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
