import {string} from '@oclif/core/flags'
import {instantsAt, timeZone} from '../../core/calendar/time-zone.js'
import {InvalidInput} from '../../core/errors.js'
import {durationMs, parseDuration} from '../../core/text/duration.js'
import {parseDate} from './time-range.js'

/** Flags of settings that cannot expire. */
const exclusive = ['only', 'on-unavailable', 'audit-retention-days']

export const untilFlags = {
  for: string({
    description: 'Expire the new values after this duration, such as 90m, 24h or 7d.',
    helpValue: 'DURATION',
    exclusive: ['until', ...exclusive],
  }),
  until: string({
    description: 'Expire the new values at this time: 2026-12-01T14:30 (UTC) or 2026-12-01T14:30@Europe/Berlin.',
    helpValue: 'WHEN',
    exclusive: ['for', ...exclusive],
  }),
}

export function untilOf(
  flags: {readonly for?: string | undefined; readonly until?: string | undefined},
  nowMs: number,
): Date | undefined {
  if (flags.for !== undefined) return new Date(nowMs + parseDuration(flags.for))
  return flags.until === undefined ? undefined : new Date(endMs(flags.until))
}

const HINT =
  'Write a date such as 2026-12-01, 2026-12-01T14:30 (UTC) or 2026-12-01T14:30@Europe/Berlin. For a duration, use --for.'

function endMs(text: string): number {
  if (durationMs(text) !== undefined)
    throw new InvalidInput('time.syntax', `--until: "${text}" is a duration, not a time.`, {
      hint: `To expire the values after this duration: --for ${text}`,
      details: {text},
    })
  const at = text.indexOf('@')
  if (at < 0) return parseDate('--until', text, HINT)
  const [date, zoneName] = [text.slice(0, at), text.slice(at + 1)]
  if (/(Z|[+-]\d{2}:\d{2})$/.test(date)) throw new InvalidInput('time.syntax', `--until: "${text}" has two time zones.`)
  const instants = instantsAt(timeZone(zoneName), parseDate('--until', date, HINT))
  const [instant, second] = instants
  if (instant !== undefined && second === undefined) return instant
  const why = second === undefined ? 'does not exist' : 'occurs twice'
  throw new InvalidInput('time.ambiguous', `--until: ${date} ${why} in ${zoneName}, because clocks change.`, {
    hint:
      second === undefined
        ? 'Choose a time an hour earlier or later.'
        : `Write one of them in UTC: ${instants.map(ms => new Date(ms).toISOString().slice(0, 16)).join('Z or ')}Z.`,
    details: {text},
  })
}
