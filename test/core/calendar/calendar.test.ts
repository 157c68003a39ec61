import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {CompiledSchedule} from '../../../src/lib/core/calendar/compiled-schedule.js'
import {parseCron} from '../../../src/lib/core/calendar/cron.js'
import {matchesAt} from '../../../src/lib/core/calendar/cron-search.js'
import {makeSchedule, scaleToPerMille} from '../../../src/lib/core/calendar/schedule.js'
import {checkTimeZoneName, MINUTE_MS, timeZone} from '../../../src/lib/core/calendar/time-zone.js'
import {Picker, randomCron, randomInstant, seeded, ZONES} from './random-schedules.js'

const at = (text: string): number => Date.parse(text)
const iso = (ms: number | undefined): string | undefined =>
  ms === undefined ? undefined : new Date(ms).toISOString().replace(':00.000Z', 'Z')

function resetting(zone: string, ...resets: string[]): CompiledSchedule {
  return new CompiledSchedule({zone, windows: [], resets})
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

  it('happen not at all on a day that skips their minute, and twice on a day that repeats it', () => {
    const berlin = resetting('Europe/Berlin', '30 2 * * *')
    expect(nextResets(berlin, '2026-03-28T00:00Z', 2)).toEqual(['2026-03-28T01:30Z', '2026-03-30T00:30Z'])
    expect(nextResets(berlin, '2026-10-24T12:00Z', 3)).toEqual([
      '2026-10-25T00:30Z',
      '2026-10-25T01:30Z',
      '2026-10-26T01:30Z',
    ])
  })

  it('follow clocks that go back by half an hour', () => {
    const lordHowe = resetting('Australia/Lord_Howe', '45 1 * * *')
    expect(nextResets(lordHowe, '2026-04-04T00:00Z', 3)).toEqual([
      '2026-04-04T14:45Z',
      '2026-04-04T15:15Z',
      '2026-04-05T15:15Z',
    ])
  })

  it('happen once for a pattern that matches for longer than a minute', () => {
    const schedule = resetting('UTC', '* 9-17 * * 1-5')
    expect(nextResets(schedule, '2026-11-13T08:59Z', 2)).toEqual(['2026-11-13T09:00Z', '2026-11-16T09:00Z'])
    expect(iso(schedule.lastReset(at('2026-11-15T00:00Z')))).toBe('2026-11-13T09:00Z')
  })

  it('count at their very instant, and not a millisecond before', () => {
    const schedule = resetting('UTC', '0 0 * * *')
    const midnight = at('2026-11-16T00:00Z')
    expect(schedule.lastReset(midnight)).toBe(midnight)
    expect(schedule.lastReset(midnight - 1)).toBe(midnight - 86_400_000)
    expect(schedule.nextReset(midnight - 1)).toBe(midnight)
    expect(schedule.nextReset(midnight)).toBe(midnight + 86_400_000)
  })

  it('are unknown for a time that is skipped whenever its day comes', () => {
    const never = resetting('America/New_York', '30 2 8-14 3 */7')
    expect(never.nextReset(at('2026-01-01T00:00Z'))).toBeUndefined()
    expect(never.validUntil(at('2026-01-01T00:00Z'))).toBe(at('2026-01-01T00:00Z') + 366 * 86_400_000)
  })

  it('are the latest and the earliest of several patterns', () => {
    const schedule = resetting('UTC', '0 0 1 * *', '0 12 * * *')
    expect(iso(schedule.lastReset(at('2026-11-16T13:00Z')))).toBe('2026-11-16T12:00Z')
    expect(iso(schedule.nextReset(at('2026-11-30T13:00Z')))).toBe('2026-12-01T00:00Z')
  })
})

describe('properties of random schedules', () => {
  const anyCase = fc.integer({min: 0, max: 2 ** 31}).map(seed => {
    const pick = new Picker(seeded(seed))
    const zone = pick.of(ZONES)
    for (;;) {
      const text = randomCron(pick)
      try {
        if (!parseCron(text).isAlways) return {zone, text, ms: randomInstant(pick, zone)}
      } catch {}
    }
  })

  it('last ≤ now < next, both are starts, and nothing starts in between', () => {
    fc.assert(
      fc.property(anyCase, ({zone, text, ms}) => {
        const cron = parseCron(text)
        const schedule = resetting(zone, text)
        const last = schedule.lastReset(ms)
        const next = schedule.nextReset(ms)
        const isStart = (minute: number) =>
          matchesAt(cron, timeZone(zone), minute) && !matchesAt(cron, timeZone(zone), minute - MINUTE_MS)
        if (last !== undefined) expect(last <= ms && isStart(last)).toBe(true)
        if (next !== undefined) expect(next > ms && isStart(next)).toBe(true)
        const now = Math.floor(ms / MINUTE_MS) * MINUTE_MS
        for (let minutes = 0; minutes < 2000; minutes++) {
          const before = now - minutes * MINUTE_MS
          const after = now + (minutes + 1) * MINUTE_MS
          if (before > (last ?? -Infinity)) expect(isStart(before)).toBe(false)
          if (after < (next ?? Infinity)) expect(isStart(after)).toBe(false)
        }
      }),
      {numRuns: 60},
    )
  })

  it('the wall clock is the one that Intl shows', () => {
    fc.assert(
      fc.property(anyCase, ({zone, ms}) => {
        const options = {timeZone: zone, hourCycle: 'h23', dateStyle: 'short', timeStyle: 'medium'} as const
        const shown = new Intl.DateTimeFormat('en-GB', options).format(ms)
        const wall = new Date(ms + timeZone(zone).spanAt(ms).offsetMs)
        expect(new Intl.DateTimeFormat('en-GB', {...options, timeZone: 'UTC'}).format(wall)).toBe(shown)
      }),
    )
  })

  it('an answer that is kept equals one that is not', () => {
    fc.assert(
      fc.property(anyCase, fc.array(fc.integer({min: -(10 ** 9), max: 10 ** 9})), ({zone, text, ms}, steps) => {
        const schedule = {zone, windows: [{cron: text, capacity: 1}], resets: [text]}
        const kept = new CompiledSchedule(schedule)
        for (const step of steps) {
          const fresh = new CompiledSchedule(schedule)
          const now = ms + step
          expect(kept.windowAt(now)).toBe(fresh.windowAt(now))
          expect(kept.validUntil(now)).toBe(fresh.validUntil(now))
          expect(kept.lastReset(now)).toBe(fresh.lastReset(now))
        }
      }),
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
    expect(schedule.validUntil(monday9 - 1)).toBe(monday9)
    expect(schedule.rateAt(BASE, monday9)).toEqual({...BASE, capacityMilli: 10_000n, refillAmountMilli: 10_000n})
    expect(iso(schedule.validUntil(monday9))).toBe('2026-11-16T23:00Z')
  })

  it('give way to the first one that is open', () => {
    const windows = [
      {cron: '0-29 12 * * *', capacity: 7},
      {cron: '* 12 * * *', refillPeriodSeconds: 5},
    ]
    const schedule = new CompiledSchedule({zone: 'UTC', windows, resets: []})
    expect(schedule.rateAt(BASE, at('2026-11-16T12:00Z')).capacityMilli).toBe(7000n)
    expect(iso(schedule.validUntil(at('2026-11-16T12:00Z')))).toBe('2026-11-16T12:30Z')
    expect(schedule.rateAt(BASE, at('2026-11-16T12:30Z'))).toEqual({...BASE, refillPeriodMs: 5000})
  })

  it('leave a quota without refill, and at least a millitoken of anything else', () => {
    const schedule = new CompiledSchedule({zone: 'UTC', windows: [{cron: '* * * * *', scalePerMille: 1}], resets: []})
    const rate = {capacityMilli: 10n, refillAmountMilli: 0n, refillPeriodMs: 1000}
    expect(schedule.rateAt(rate, 0)).toEqual({...rate, capacityMilli: 1n})
  })

  it('refuse numbers that other clients could not read', () => {
    const window = {cron: '* 9 * * *'}
    const make = (numbers: object) => makeSchedule({zone: 'UTC', windows: [{...window, ...numbers}], resets: []})
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
