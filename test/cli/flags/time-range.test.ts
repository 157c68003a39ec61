import {describe, expect, it, vi} from 'vitest'
import {parseInstant, timeRange} from '../../../src/lib/cli/flags/time-range.js'

const NOW = Date.UTC(2026, 10, 15, 7, 30)
const HOUR = 3_600_000

describe('an instant', () => {
  it.each([
    ['90m', '2026-11-15T06:00:00.000Z'],
    ['24h', '2026-11-14T07:30:00.000Z'],
    ['7d', '2026-11-08T07:30:00.000Z'],
    ['2026-11-01', '2026-11-01T00:00:00.000Z'],
    ['2026-11-01T14:30', '2026-11-01T14:30:00.000Z'],
    ['2026-11-01 14:30:15', '2026-11-01T14:30:15.000Z'],
    ['2026-11-01T14:30:15.250Z', '2026-11-01T14:30:15.250Z'],
    ['2026-11-01T14:30:15.5+02:00', '2026-11-01T12:30:15.500Z'],
    ['2026-11-01 14:30:15.07', '2026-11-01T14:30:15.070Z'],
    ['2026-11-01T14:30+02:00', '2026-11-01T12:30:00.000Z'],
    ['2028-02-29', '2028-02-29T00:00:00.000Z'],
  ])('reads %s as %s', (text, expected) => {
    expect(new Date(parseInstant('--since', text, NOW)).toISOString()).toBe(expected)
  })

  it('is read as UTC in any time zone', () => {
    vi.stubEnv('TZ', 'Asia/Tokyo')
    expect(new Date(2026, 0, 1).getTimezoneOffset()).toBe(-540)
    expect(parseInstant('--since', '2026-11-01T14:30', NOW)).toBe(Date.UTC(2026, 10, 1, 14, 30))
    vi.unstubAllEnvs()
  })

  it.each([
    ['yesterday', 'it is neither a duration nor a date'],
    ['24x', 'it is neither a duration nor a date'],
    ['', 'it is neither a duration nor a date'],
    ['10:00', 'it is neither a duration nor a date'],
    ['2026-13-01', 'month 13 does not exist'],
    ['2026-02-29', 'day 29 does not exist'],
    ['2026-11-01T25:00', 'hour 25 does not exist'],
    ['2026-11-01T10:61', 'minute 61 does not exist'],
    ['2026-11-01T10:00:75', 'second 75 does not exist'],
    ['2026-11-01T10:00+99:00', 'time zone +99:00 does not exist'],
    ['1969-12-31', 'it is before 1970'],
    ['99999d', '99999d ago is before 1970'],
  ])('refuses %j: %s', (text, why) => {
    expect(() => parseInstant('--until', text, NOW)).toThrow(
      expect.objectContaining({kind: 'usage', message: `--until: cannot read "${text}": ${why}.`}),
    )
  })
})

describe('a range', () => {
  it('extends back from its end, which defaults to now', () => {
    expect(timeRange({}, NOW, HOUR)).toEqual({sinceMs: NOW + 1 - HOUR, untilMs: NOW + 1})
    expect(timeRange({until: '24h'}, NOW, HOUR)).toEqual({sinceMs: NOW - 25 * HOUR, untilMs: NOW - 24 * HOUR})
    expect(timeRange({since: '2h'}, NOW, Infinity)).toEqual({sinceMs: NOW - 2 * HOUR, untilMs: NOW + 1})
    expect(timeRange({until: '1h'}, NOW, Infinity).sinceMs).toBe(0)
  })

  it('cannot be empty', () => {
    expect(() => timeRange({since: '1h', until: '2h'}, NOW, HOUR)).toThrow(
      expect.objectContaining({
        kind: 'usage',
        message: 'The time range is empty: it starts at 2026-11-15T06:30:00.000Z and ends at 2026-11-15T05:30:00.000Z.',
      }),
    )
    expect(() => timeRange({since: '2027-01-01'}, NOW, HOUR)).toThrow('The time range is empty')
  })
})
