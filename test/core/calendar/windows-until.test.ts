import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {parseCron} from '../../../src/lib/core/calendar/cron.js'
import {matchesAt} from '../../../src/lib/core/calendar/cron-search.js'
import {DAY_MS, MINUTE_MS, timeZone} from '../../../src/lib/core/calendar/time-zone.js'
import {isoMinute, LONGEST_UNTIL_DAYS, windowsUntil} from '../../../src/lib/core/calendar/windows-until.js'
import {InvalidInput} from '../../../src/lib/core/errors.js'
import {runs} from '../../helpers/runs.js'
import {ZONES} from './random-schedules.js'

const at = (text: string): number => Date.parse(text)
const cronsOf = (zone: string, now: string, until: string): readonly string[] =>
  windowsUntil(zone, at(now), at(until)).crons

describe('windows with an end', () => {
  it.each([
    ['UTC', '2026-11-16T09:12:31Z', '2026-11-17T14:37Z', ['* * 16 11 *', '* 0-13 17 11 *', '0-36 14 17 11 *']],
    ['UTC', '2026-11-16T09:12:31Z', '2026-11-16T09:13Z', ['0-12 9 16 11 *']],
    ['UTC', '2026-11-16T09:12:31Z', '2026-11-16T10:00Z', ['* 9 16 11 *']],
    ['UTC', '2026-11-16T09:12:31Z', '2026-11-16T14:01Z', ['* 9-13 16 11 *', '0 14 16 11 *']],
    ['UTC', '2026-11-16T09:12:31Z', '2026-12-01T00:00Z', ['* * * 11 *']],
    ['UTC', '2026-11-16T09:12:31Z', '2027-03-01T00:00Z', ['* * * 11-12,1-2 *']],
    ['UTC', '2026-12-31T23:59:59Z', '2027-01-01T00:00Z', ['* * * 12 *']],
    [
      'UTC',
      '2026-11-16T09:12Z',
      '2027-09-12T09:12Z',
      ['* * * 11-12,1-8 *', '* * 1-11 9 *', '* 0-8 12 9 *', '0-11 9 12 9 *'],
    ],
    ['UTC', '2028-02-29T12:00Z', '2028-03-01T00:00Z', ['* * * 2 *']],
    ['Europe/Berlin', '2026-11-16T22:59Z', '2026-11-17T23:00Z', ['* * 16-17 11 *']],
    ['Asia/Kathmandu', '2026-11-16T09:12Z', '2026-11-16T18:15Z', ['* * 16 11 *']],
    // The hour skipped in spring never comes; the repeated hour is open both times.
    ['Europe/Berlin', '2027-03-27T12:00Z', '2027-03-28T01:00Z', ['* * 27 3 *', '* 0-2 28 3 *']],
    ['Europe/Berlin', '2026-10-24T12:00Z', '2026-10-25T02:00Z', ['* * 24 10 *', '* 0-2 25 10 *']],
    ['Europe/Berlin', '2026-10-24T12:00Z', '2026-10-25T00:00Z', ['* * 24 10 *', '* 0-1 25 10 *']],
    ['Europe/Berlin', '2026-10-25T01:10Z', '2026-10-25T01:40Z', ['0-39 2 25 10 *']],
  ])('in %s at %s until %s', (zone, now, until, expected) => {
    expect(cronsOf(zone, now, until)).toEqual(expected)
  })

  it.each([
    ['within the hour, the first time', '2026-10-24T12:00Z', '2026-10-25T00:30Z'],
    ['when the clock goes back', '2026-10-24T12:00Z', '2026-10-25T01:00Z'],
    ['within the hour, the second time', '2026-10-24T12:00Z', '2026-10-25T01:30Z'],
    ['from the first to the second time', '2026-10-25T00:45Z', '2026-10-25T01:15Z'],
  ])('reject an end in a repeated hour: %s', (_, now, until) => {
    const refusal = () => cronsOf('Europe/Berlin', now, until)
    expect(refusal).toThrow(InvalidInput)
    expect(refusal).toThrow(/ambiguous: in Europe.Berlin, the time zone of these limits/)
  })

  it('propose an unambiguous end', () => {
    let hint: string | undefined
    try {
      cronsOf('Europe/Berlin', '2026-10-24T12:00Z', '2026-10-25T00:30Z')
    } catch (error) {
      hint = (error as InvalidInput).hint
    }
    const proposed = /(\d{4}-\S+Z)/.exec(hint ?? '')?.[1] ?? ''
    expect(cronsOf('Europe/Berlin', '2026-10-24T12:00Z', proposed).length).toBeGreaterThan(0)
  })

  it.each([
    ['now', 0],
    ['the past', -MINUTE_MS],
    ['more than 300 days', LONGEST_UNTIL_DAYS * DAY_MS + MINUTE_MS],
    ['part of a minute', 1000],
  ])('are not created for %s', (_, awayMs) => {
    const nowMs = at('2026-11-16T09:00Z')
    expect(() => windowsUntil('UTC', nowMs, nowMs + awayMs)).toThrow(RangeError)
  })

  it('are open in every minute until the end and in none after it for a month, in any zone', () => {
    const minutes = fc.integer({min: 1, max: LONGEST_UNTIL_DAYS * 1440})
    // Short windows, and ends near clock changes, are as likely as long ones.
    const lengths = fc.oneof(minutes, fc.integer({min: 1, max: 3000}))
    const from = fc.integer({min: at('2024-01-01T00:00Z'), max: at('2031-01-01T00:00Z')})
    fc.assert(
      fc.property(fc.constantFrom(...ZONES), from, lengths, (zoneName, nowMs, length) => {
        const untilMs = Math.floor(nowMs / MINUTE_MS) * MINUTE_MS + length * MINUTE_MS
        const zone = timeZone(zoneName)
        let found: ReturnType<typeof windowsUntil>
        try {
          found = windowsUntil(zoneName, nowMs, untilMs)
        } catch (error) {
          // Only where clocks are set back within hours of the end.
          expect(error).toBeInstanceOf(InvalidInput)
          expect(zone.spanAt(untilMs - 3 * 3_600_000).offsetMs).toBeGreaterThan(
            zone.spanAt(untilMs + 3 * 3_600_000).offsetMs,
          )
          return
        }
        const crons = found.crons.map(parseCron)
        const isOpen = (ms: number) => crons.some(cron => matchesAt(cron, zone, ms))
        expect(found.crons.length).toBeLessThanOrEqual(4)
        const around = [...Array(300).keys()]
        const inside = around.map(each => nowMs + ((untilMs - 1 - nowMs) * each) / 299)
        const lastMinutes = around.map(each => untilMs - 1 - each * MINUTE_MS).filter(ms => ms >= nowMs)
        const after = around.map(each => untilMs + each * MINUTE_MS)
        const month = around.map(each => untilMs + each * 143 * MINUTE_MS)
        for (const ms of [...inside, ...lastMinutes]) if (!isOpen(ms)) throw new Error(`closed at ${isoMinute(ms)}`)
        for (const ms of [...after, ...month]) if (isOpen(ms)) throw new Error(`open at ${isoMinute(ms)}`)
        expect(isOpen(found.recurMs)).toBe(true)
        expect(isOpen(found.recurMs - MINUTE_MS)).toBe(false)
      }),
      {numRuns: runs(60)},
    )
  })
})
