import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {CompiledSchedule} from '../../../src/lib/core/calendar/compiled-schedule.js'
import {parseCron} from '../../../src/lib/core/calendar/cron.js'
import {makeWindow, scaleToPerMille} from '../../../src/lib/core/calendar/schedule.js'
import {checkTimeZoneName, DAY_MS, MINUTE_MS, timeZone} from '../../../src/lib/core/calendar/time-zone.js'
import {runs} from '../../helpers/runs.js'
import {Picker, randomCron, randomInstant, seeded, startsBetween, ZONES} from './random-schedules.js'

const at = (text: string): number => Date.parse(text)
const iso = (ms: number | undefined): string | undefined =>
  ms === undefined ? undefined : new Date(ms).toISOString().replace(':00.000Z', 'Z')

function resetting(zone: string, ...resets: string[]): CompiledSchedule {
  return new CompiledSchedule({zone, windows: [], resets})
}

/** The resets around an instant, without cached instants. */
function around(zone: string, cron: string, ms: number): Array<string | undefined> {
  const schedule = resetting(zone, cron)
  return [iso(schedule.lastReset(ms)), iso(schedule.nextReset(ms))]
}

/** The next resets after an instant. */
function nextResets(schedule: CompiledSchedule, after: string, count: number): Array<string | undefined> {
  const found: Array<string | undefined> = []
  let ms: number | undefined = at(after)
  for (let times = 0; times < count && ms !== undefined; times++) {
    ms = schedule.nextReset(ms)
    found.push(iso(ms))
  }
  return found
}

describe('resets of calendar quotas', () => {
  it.each([
    ['UTC', '0 0 * * *', '2026-12-31T12:00Z', ['2027-01-01T00:00Z', '2027-01-02T00:00Z']],
    ['UTC', '0 0 29 2 *', '2026-01-01T00:00Z', ['2028-02-29T00:00Z', '2032-02-29T00:00Z']],
    ['UTC', '0 0 29 2 *', '2096-03-01T00:00Z', ['2104-02-29T00:00Z']],
    ['UTC', '0 0 31 * *', '2026-01-31T00:00Z', ['2026-03-31T00:00Z', '2026-05-31T00:00Z']],
    ['UTC', '0 0 13 * 5', '2026-02-01T00:00Z', ['2026-02-06T00:00Z', '2026-02-13T00:00Z', '2026-02-20T00:00Z']],
    ['Europe/Berlin', '0 0 * * *', '2026-03-28T12:00Z', ['2026-03-28T23:00Z', '2026-03-29T22:00Z']],
    ['Europe/Berlin', '0 0 * * *', '2026-10-24T12:00Z', ['2026-10-24T22:00Z', '2026-10-25T23:00Z']],
    ['Asia/Kathmandu', '0 0 1 * *', '2026-12-15T00:00Z', ['2026-12-31T18:15Z', '2027-01-31T18:15Z']],
    ['Asia/Kolkata', '0 0 * * 1', '2026-06-01T00:00Z', ['2026-06-07T18:30Z']],
    ['Pacific/Chatham', '0 0 * * *', '2026-09-26T00:00Z', ['2026-09-26T11:15Z', '2026-09-27T10:15Z']],
  ])('in %s for "%s" after %s', (zone, cron, after, expected) => {
    expect(nextResets(resetting(zone, cron), after, expected.length)).toEqual(expected)
  })

  it.each([
    ['Africa/Cairo', '0 0 * * *', '2026-04-23T12:00Z', ['2026-04-23T22:00Z', '2026-04-24T21:00Z']],
    ['Asia/Beirut', '0 0 * * *', '2026-03-28T12:00Z', ['2026-03-28T22:00Z', '2026-03-29T21:00Z']],
    ['America/Santiago', '0 0 * * *', '2026-09-05T12:00Z', ['2026-09-06T04:00Z', '2026-09-07T03:00Z']],
    ['America/Santiago', '0 0 * * 7', '2026-09-01T12:00Z', ['2026-09-06T04:00Z', '2026-09-13T03:00Z']],
    ['America/New_York', '30 2 * * *', '2026-03-07T12:00Z', ['2026-03-08T07:00Z', '2026-03-09T06:30Z']],
    ['Europe/Berlin', '*/15 2 * * *', '2026-03-28T12:00Z', ['2026-03-29T01:00Z', '2026-03-30T00:00Z']],
    ['Europe/Berlin', '* 2 * * *', '2026-03-28T12:00Z', ['2026-03-29T01:00Z', '2026-03-30T00:00Z']],
    ['Pacific/Apia', '0 0 * * *', '2011-12-29T12:00Z', ['2011-12-30T10:00Z', '2011-12-31T10:00Z']],
  ])('happen once after the skipped time in %s for "%s"', (zone, cron, after, expected) => {
    expect(nextResets(resetting(zone, cron), after, 2)).toEqual(expected)
    for (let ms = at(expected[0] as string); ms < at(expected[0] as string) + 4 * 3_600_000; ms += 10 * MINUTE_MS)
      expect(around(zone, cron, ms)).toEqual(expected)
  })

  it.each([
    ['America/Havana', '0 0 * * *', '2026-10-31T12:00Z', ['2026-11-01T04:00Z', '2026-11-02T05:00Z']],
    ['Atlantic/Azores', '0 0 * * *', '2026-10-24T12:00Z', ['2026-10-25T00:00Z', '2026-10-26T01:00Z']],
    ['America/New_York', '30 1 * * *', '2026-10-31T12:00Z', ['2026-11-01T05:30Z', '2026-11-02T06:30Z']],
    ['America/New_York', '* 1-2 * * *', '2026-10-31T12:00Z', ['2026-11-01T05:00Z', '2026-11-02T06:00Z']],
    ['Australia/Lord_Howe', '45 1 * * *', '2026-04-04T00:00Z', ['2026-04-04T14:45Z', '2026-04-05T15:15Z']],
    // The clock goes back from 0:01 to 23:01, so midnight comes twice.
    ['America/St_Johns', '0 0 * * *', '2010-11-06T12:00Z', ['2010-11-07T02:30Z', '2010-11-08T03:30Z']],
    ['America/St_Johns', '* * * * 7', '2010-11-06T12:00Z', ['2010-11-07T02:30Z', '2010-11-14T03:30Z']],
  ])('happen once, the first time, where the clock goes back in %s for "%s"', (zone, cron, after, expected) => {
    expect(nextResets(resetting(zone, cron), after, 2)).toEqual(expected)
    for (let ms = at(expected[0] as string); ms < at(expected[0] as string) + 4 * 3_600_000; ms += 10 * MINUTE_MS)
      expect(around(zone, cron, ms)).toEqual(expected)
  })

  it.each([
    ['America/New_York', '0 * * * *', '2026-11-01T04:30Z', ['2026-11-01T05:00Z', '2026-11-01T06:00Z']],
    ['America/New_York', '30 * * * *', '2026-03-08T06:00Z', ['2026-03-08T06:30Z', '2026-03-08T07:30Z']],
    ['Africa/Cairo', '0 * * * *', '2026-04-23T21:30Z', ['2026-04-23T22:00Z', '2026-04-23T23:00Z']],
  ])('follow the passing hours if hourly, in %s for "%s"', (zone, cron, after, expected) => {
    expect(nextResets(resetting(zone, cron), after, 2)).toEqual(expected)
  })

  it('happen once for a pattern that matches for longer than a minute', () => {
    const schedule = resetting('UTC', '* 9-17 * * 1-5')
    expect(nextResets(schedule, '2026-11-13T08:59Z', 2)).toEqual(['2026-11-13T09:00Z', '2026-11-16T09:00Z'])
    expect(iso(schedule.lastReset(at('2026-11-15T00:00Z')))).toBe('2026-11-13T09:00Z')
  })

  it('count at their exact instant, and not a millisecond before', () => {
    const schedule = resetting('UTC', '0 0 * * *')
    const midnight = at('2026-11-16T00:00Z')
    expect(schedule.lastReset(midnight)).toBe(midnight)
    expect(schedule.lastReset(midnight - 1)).toBe(midnight - 86_400_000)
    expect(schedule.nextReset(midnight - 1)).toBe(midnight)
    expect(schedule.nextReset(midnight)).toBe(midnight + 86_400_000)
  })

  it('happen every year at a local time that is always skipped', () => {
    const skipped = resetting('America/New_York', '30 2 8-14 3 */7')
    expect(nextResets(skipped, '2026-01-01T00:00Z', 2)).toEqual(['2026-03-08T07:00Z', '2027-03-14T07:00Z'])
  })

  it('are the latest and the earliest of several patterns', () => {
    const schedule = resetting('UTC', '0 0 1 * *', '0 12 * * *')
    expect(iso(schedule.lastReset(at('2026-11-16T13:00Z')))).toBe('2026-11-16T12:00Z')
    expect(iso(schedule.nextReset(at('2026-11-30T13:00Z')))).toBe('2026-12-01T00:00Z')
  })
})

function clockChanges(zone: string, from: string, until: string): number[] {
  const changes: number[] = []
  for (let span = timeZone(zone).spanAt(at(from)); span.untilMs < at(until); ) {
    const next = timeZone(zone).spanAt(span.untilMs)
    if (next.offsetMs !== span.offsetMs) changes.push(next.fromMs)
    span = next
  }
  return changes
}

describe('properties of random schedules', () => {
  const anyCase = fc.integer({min: 0, max: 2 ** 31}).map(seed => {
    const pick = new Picker(seeded(seed))
    const zone = pick.of(ZONES)
    // Half of them are daily, at hours in which clocks change.
    const isDaily = pick.chance(0.5)
    for (;;) {
      const text = isDaily ? `${pick.whole(0, 59)} ${pick.whole(0, 3)} * * *` : randomCron(pick)
      try {
        if (!parseCron(text).isAlways) return {zone, text, ms: randomInstant(pick, zone)}
      } catch {}
    }
  })

  it('satisfy last ≤ now < next, both are starts, and nothing starts in between', () => {
    fc.assert(
      fc.property(anyCase, ({zone, text, ms}) => {
        const now = Math.floor(ms / MINUTE_MS) * MINUTE_MS
        const starts = startsBetween(zone, text, now - 2000 * MINUTE_MS, now + 2000 * MINUTE_MS)
        for (const atMs of [ms - 3_600_000, ms, ms + 1_800_000, ms + 3_600_000]) {
          const schedule = resetting(zone, text)
          const last = schedule.lastReset(atMs) ?? -Infinity
          const next = schedule.nextReset(atMs) ?? Infinity
          expect(last).toBeLessThanOrEqual(atMs)
          expect(next).toBeGreaterThan(atMs)
          expect(starts.filter(start => start <= atMs).at(-1) ?? last).toBe(last)
          expect(starts.find(start => start > atMs) ?? next).toBe(next)
        }
      }),
      {numRuns: runs(100)},
    )
  })

  it('S1 give every local date one reset, at its first instant, in every zone and year', () => {
    for (const zone of ZONES) {
      const date = (ms: number) => Math.floor((ms + timeZone(zone).spanAt(ms).offsetMs) / DAY_MS)
      const schedule = resetting(zone, '0 0 * * *')
      for (const changeMs of clockChanges(zone, '1995-01-01T00:00Z', '2040-01-01T00:00Z')) {
        const context = `${zone} ${iso(changeMs)}`
        for (let last = schedule.lastReset(changeMs - 2 * DAY_MS) ?? 0; last < changeMs + 2 * DAY_MS; ) {
          const next = schedule.nextReset(last) ?? 0
          // Apia had no 30 December 2011.
          expect(date(next) - date(last), context).toBe(
            zone === 'Pacific/Apia' && iso(next) === '2011-12-30T10:00Z' ? 2 : 1,
          )
          expect(date(next - MINUTE_MS), context).toBeLessThan(date(next))
          expect(schedule.lastReset(next), context).toBe(next)
          expect(schedule.lastReset(next - 1), context).toBe(last)
          last = next
        }
      }
    }
  })

  it('use the wall clock that Intl shows', () => {
    fc.assert(
      fc.property(anyCase, ({zone, ms}) => {
        const options = {timeZone: zone, hourCycle: 'h23', dateStyle: 'short', timeStyle: 'medium'} as const
        const shown = new Intl.DateTimeFormat('en-GB', options).format(ms)
        const wall = new Date(ms + timeZone(zone).spanAt(ms).offsetMs)
        expect(new Intl.DateTimeFormat('en-GB', {...options, timeZone: 'UTC'}).format(wall)).toBe(shown)
      }),
      {numRuns: runs(100)},
    )
  })

  it('give the same results with and without the cache', () => {
    fc.assert(
      fc.property(anyCase, fc.array(fc.integer({min: -(10 ** 9), max: 10 ** 9})), ({zone, text, ms}, steps) => {
        const schedule = {zone, windows: [{cron: text, capacity: 1}], resets: [text]}
        const kept = new CompiledSchedule(schedule)
        for (const step of steps) {
          const fresh = new CompiledSchedule(schedule)
          const now = ms + step
          expect(kept.windowAt(now)).toBe(fresh.windowAt(now))
          expect(kept.nextWindowChange(now)).toBe(fresh.nextWindowChange(now))
          expect(kept.nextReset(now)).toBe(fresh.nextReset(now))
          expect(kept.lastReset(now)).toBe(fresh.lastReset(now))
        }
      }),
      {numRuns: runs(100)},
    )
  })
})

describe('windows', () => {
  const BASE = {capacityMilli: 100_000n, refillAmountMilli: 100_000n, refillPeriodMs: 60_000}

  it('scale a limit from their first to their last minute', () => {
    const schedule = new CompiledSchedule({
      zone: 'America/New_York',
      windows: [{cron: '* 9-17 * * 1-5', scalePerMille: 100}],
      resets: [],
    })
    const monday9 = at('2026-11-16T14:00Z')
    expect(schedule.rateAt(BASE, monday9 - 1)).toEqual(BASE)
    expect(schedule.nextWindowChange(monday9 - 1)).toBe(monday9)
    expect(schedule.rateAt(BASE, monday9)).toEqual({...BASE, capacityMilli: 10_000n, refillAmountMilli: 10_000n})
    expect(iso(schedule.nextWindowChange(monday9))).toBe('2026-11-16T23:00Z')
  })

  it('give precedence to the first open one', () => {
    const windows = [
      {cron: '0-29 12 * * *', capacity: 7},
      {cron: '* 12 * * *', refillPeriodSeconds: 5},
    ]
    const schedule = new CompiledSchedule({zone: 'UTC', windows, resets: []})
    expect(schedule.rateAt(BASE, at('2026-11-16T12:00Z')).capacityMilli).toBe(7000n)
    expect(iso(schedule.nextWindowChange(at('2026-11-16T12:00Z')))).toBe('2026-11-16T12:30Z')
    expect(schedule.rateAt(BASE, at('2026-11-16T12:30Z'))).toEqual({...BASE, refillPeriodMs: 5000})
  })

  it('keep a quota without refill, and at least a millitoken of anything else', () => {
    const schedule = new CompiledSchedule({zone: 'UTC', windows: [{cron: '* * * * *', scalePerMille: 1}], resets: []})
    const rate = {capacityMilli: 10n, refillAmountMilli: 0n, refillPeriodMs: 1000}
    expect(schedule.rateAt(rate, 0)).toEqual({...rate, capacityMilli: 1n})
  })

  it('reject numbers that other clients could not read', () => {
    const make = (numbers: object) => makeWindow({cron: '* 9 * * *', ...numbers})
    expect(() => make({})).toThrow('either a scale')
    expect(() => make({scalePerMille: 10, capacity: 5})).toThrow('either a scale')
    for (const capacity of [0, -1, 1.5, 10 ** 15 + 1, Number.NaN])
      expect(() => make({capacity})).toThrow('whole number')
    expect(() => make({scalePerMille: 10 ** 9 + 1})).toThrow('whole number')
    for (const scale of [0, -1, Number.NaN, Infinity]) expect(() => scaleToPerMille(scale)).toThrow('above 0')
    expect([0.1, 2.3, 0.0005, 0.0025, 0.0035].map(scaleToPerMille)).toEqual([100, 2300, 1, 2, 4])
  })
})

describe('names of time zones', () => {
  it.each(['Europe/Berlin', 'UTC', 'US/Pacific', 'Asia/Kolkata', 'Asia/Calcutta', 'Etc/GMT-14', 'EST5EDT'])(
    '%s',
    name => {
      expect(checkTimeZoneName(name)).toBe(name)
      expect(timeZone(name).spanAt(0).untilMs).toBeGreaterThan(0)
    },
  )

  it.each([
    ['europe/berlin', 'Europe/Berlin'],
    ['Berlin', 'Europe/Berlin'],
    ['new york', 'America/New_York'],
    ['Europe/Berlni', 'Europe/Berlin'],
    ['PST', 'such as Europe/Berlin'],
    ['+05:30', 'such as Europe/Berlin'],
  ])('not %s', (name, hint) => {
    expect(() => checkTimeZoneName(name)).toThrow(
      expect.objectContaining({code: 'zone.unknown', hint: expect.stringContaining(hint)}),
    )
  })
})
