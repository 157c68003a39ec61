import {describe, expect, it} from 'vitest'
import {parseCron} from '../../../src/lib/core/calendar/cron.js'
import {makeReset} from '../../../src/lib/core/calendar/schedule.js'
import {
  compileStored,
  formatResets,
  formatWindows,
  NO_SCHEDULE,
  ownSchedule,
  parseResets,
  parseStoredSchedule,
  parseWindows,
  shareSchedules,
} from '../../../src/lib/core/calendar/stored-schedule.js'

describe('stored windows and resets', () => {
  it.each([
    [[{cron: '* 9-17 * * MON-FRI', scalePerMille: 500}], '1h9-17w1-5s500'],
    [[{cron: '*/5 * * jan,DEC SUN', capacity: 5, refillPeriodSeconds: 60}], '1m*/5M1,12w7c5p60'],
    [
      [
        {cron: '* * * * 0', refillAmount: 9},
        {cron: '* 0-6 * * SUN-THU', capacity: 2000},
      ],
      '1w7a9;h0-6w0-4c2000',
    ],
    [[], ''],
  ])('%j is %s', (windows, text) => {
    expect(formatWindows(windows)).toBe(text)
    expect(parseWindows(text)).toEqual(windows.map(window => ({...window, cron: parseCron(window.cron).text})))
    expect(formatWindows(parseWindows(text))).toBe(text)
  })

  it('store resets as patterns only', () => {
    expect(formatResets(['0 0 * * *', '0  12 1 JAN *'])).toBe('1m0h0;m0h12D1M1')
    expect(parseResets('1m0h0;m0h12D1M1')).toEqual(['0 0 * * *', '0 12 1 1 *'])
  })

  it.each([
    ['2h9s500', 'newer-version'],
    ['12h9s500', 'newer-version'],
    ['h9s500', 'malformed'],
    ['-', 'malformed'],
    ['0h9s500', 'malformed'],
    ['1', 'malformed'],
    ['1h9', 'malformed'],
    ['1h9s0', 'malformed'],
    ['1h9s5x', 'malformed'],
    ['1h9s1.5', 'malformed'],
    ['1h25s500', 'malformed'],
    ['1h9h9s5', 'malformed'],
    ['1xh9s5', 'malformed'],
    ['1h9s5;', 'malformed'],
    ['1h9s5c5', 'malformed'],
    ['1wMONs5', 'malformed'],
  ])('rejects %s as %s', (text, problem) => {
    const refused = expect.objectContaining({
      name: 'ScheduleNotHonoured',
      code: 'schedule.not-honoured',
      problem,
      kind: 'conflict',
    })
    expect(() => compileStored({zone: 'UTC', windows: text})).toThrow(refused)
  })

  it('rejects a reset with a number, and an unknown zone', () => {
    expect(() => parseResets('1m0h0s500')).toThrow('cannot be applied')
    expect(() => parseStoredSchedule({zone: 'Mars/Olympus', resets: '1m0h0'})).toThrow(
      expect.objectContaining({problem: 'unknown-zone', message: expect.stringContaining('Mars/Olympus')}),
    )
  })

  it('uses UTC if no zone is stored, and compiles once', () => {
    expect(parseStoredSchedule({resets: '1m0h0'}).zone).toBe('UTC')
    expect(compileStored({resets: '1m0h0'})).toBe(compileStored({resets: '1m0h0'}))
    expect(compileStored({resets: '1m0h0'})).not.toBe(compileStored({zone: 'Asia/Tokyo', resets: '1m0h0'}))
  })
})

describe('limits that share the schedule of their record', () => {
  it('store only differences, and a dash for none', () => {
    const byLimit = new Map([
      ['plain', ''],
      ['rpm', '1h9s500'],
      ['tpm', '1h9s500'],
      ['other', '1h8s500'],
    ])
    const stored = shareSchedules(byLimit)
    expect(stored).toEqual({
      shared: '1h9s500',
      own: new Map([
        ['plain', NO_SCHEDULE],
        ['other', '1h8s500'],
      ]),
    })
    for (const [name, text] of byLimit) expect(ownSchedule(stored?.shared, stored?.own.get(name)), name).toBe(text)
    expect(shareSchedules(new Map([['plain', '']]))).toBeUndefined()
  })
})

it('never resets by a cron that always matches', () => {
  expect(() => makeReset('* * * * *')).toThrow('never reset')
})

describe('cron expressions', () => {
  it.each([
    ['60 * * * *', 'minute'],
    ['* 24 * * *', 'hour'],
    ['* * 0 * *', 'day of the month'],
    ['* * * 13 *', 'month'],
    ['* * * * 8', 'day of the week'],
    ['* * * * SAT-SUN', 'range or step'],
    ['*/0 * * * *', 'range or step'],
    ['0 0 L * *', 'L, W or #'],
    ['0 0 * * MON#2', 'L, W or #'],
    ['0 0 30 2 *', 'none of its months has 30 days'],
    ['0 0 0 * * *', '6 fields'],
    ['', '0 fields'],
  ])('rejects "%s"', (text, why) => {
    expect(() => parseCron(text)).toThrow(why)
  })
})
