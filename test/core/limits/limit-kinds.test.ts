import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {InvalidInput} from '../../../src/lib/core/errors.js'
import {
  type CalendarCheck,
  isInFlight,
  kindNameOf,
  type Limit,
  type LimitInput,
  MAX_PERIOD_SECONDS,
  MAX_SLOTS,
  MAX_TOKENS,
  makeLimit,
  type ScheduleEntry,
} from '../../../src/lib/core/limits/limit.js'
import {
  formatLimit,
  keptParts,
  parseLimit,
  parseLimits,
  parseLimitsOver,
} from '../../../src/lib/core/limits/limit-text.js'
import {runs} from '../../helpers/runs.js'

const quota = (name: string, capacity: number, rest: Partial<LimitInput>): Limit =>
  makeLimit({name, capacity, refillAmount: 0, refillPeriodSeconds: 1, ...rest})

const rate = (name: string, amount: number, rest: Partial<LimitInput> = {}): Limit =>
  makeLimit({name, capacity: amount, refillAmount: amount, refillPeriodSeconds: 60, ...rest})

const inFlight = (name: string, slots: number): Limit => quota(name, slots, {inFlight: true})

function failure(action: () => unknown): InvalidInput {
  try {
    action()
  } catch (error) {
    if (error instanceof InvalidInput) return error
    throw error
  }
  throw new Error('expected a failure')
}

const BERLIN = 'Europe/Berlin'
const daily = {crons: ['0 0 * * *']}

describe('limits of all kinds', () => {
  it.each<[string, Limit]>([
    ['rpd=10k/day@Europe/Berlin', quota('rpd', 10_000, {reset: daily, timeZone: BERLIN})],
    ['rph=5/hour@UTC', quota('rph', 5, {reset: {crons: ['0 * * * *']}})],
    ['rpw=5/week@UTC', quota('rpw', 5, {reset: {crons: ['0 0 * * 1']}})],
    ['usd=500/month@UTC', quota('usd', 500, {reset: {crons: ['0 0 1 * *']}})],
    ['rpd=10k@"0 9 * * 1-5"', quota('rpd', 10_000, {reset: {crons: ['0 9 * * 1-5']}})],
    ['rpd=10k@"0 9 * * 1-5 Europe/Berlin"', quota('rpd', 10_000, {reset: {crons: ['0 9 * * 1-5']}, timeZone: BERLIN})],
    [
      'rpd=1@"0 9 * * *; 0 18 * * * Europe/Berlin"',
      quota('rpd', 1, {reset: {crons: ['0 9 * * *', '0 18 * * *']}, timeZone: BERLIN}),
    ],
    ['session=200/5hour!', quota('session', 200, {reset: {afterSeconds: 18_000}})],
    ['rpm=100/min,soft', rate('rpm', 100, {soft: true})],
    [
      'tpm=100k/min,x0.1@"* 22,23 * * * Europe/Berlin"',
      rate('tpm', 100_000, {schedule: [{cron: '* 22,23 * * *', scale: 0.1}], timeZone: BERLIN}),
    ],
    [
      'tpm=100k/min,200k/min:300k@"* 9-16 * * 1-5"',
      rate('tpm', 100_000, {
        schedule: [{cron: '* 9-16 * * 1-5', capacity: 300_000, refillAmount: 200_000, refillPeriodSeconds: 60}],
      }),
    ],
    [
      'tpm=100k/min,200k@"* 9 * * *"',
      rate('tpm', 100_000, {schedule: [{cron: '* 9 * * *', capacity: 200_000, refillAmount: 200_000}]}),
    ],
    ['tpm=100k/min,200k:@"* 9 * * *"', rate('tpm', 100_000, {schedule: [{cron: '* 9 * * *', refillAmount: 200_000}]})],
    ['tpm=100k/min,:1M@"* 9 * * *"', rate('tpm', 100_000, {schedule: [{cron: '* 9 * * *', capacity: 1_000_000}]})],
    [
      'tpm=100k/min,/hour@"* 9 * * *"',
      rate('tpm', 100_000, {schedule: [{cron: '* 9 * * *', refillPeriodSeconds: 3600}]}),
    ],
    [
      'rpd=10k/day@Europe/Berlin,5k@"* * * * 6,7",x2@"* 9 * * *",soft',
      quota('rpd', 10_000, {
        reset: daily,
        timeZone: BERLIN,
        soft: true,
        schedule: [
          {cron: '* * * * 6,7', capacity: 5000},
          {cron: '* 9 * * *', scale: 2},
        ],
      }),
    ],
    [
      'usd=$500/month@Europe/Berlin',
      quota('usd', 500_000_000, {reset: {crons: ['0 0 1 * *']}, timeZone: BERLIN, unit: 'USD'}),
    ],
    ['eur=€20.50/day@Europe/Berlin', quota('eur', 20_500_000, {reset: daily, timeZone: BERLIN, unit: 'EUR'})],
    [
      'chf=500CHF/day@UTC,50CHF@"* * * * 7"',
      quota('chf', 500_000_000, {reset: daily, unit: 'CHF', schedule: [{cron: '* * * * 7', capacity: 50_000_000}]}),
    ],
    ['usd=$0.000001/min:$1', rate('usd', 1, {capacity: 1_000_000, unit: 'USD'})],
    ['parallel=20/inflight', inFlight('parallel', 20)],
    ['parallel=2k/inflight', inFlight('parallel', 2000)],
    ['parallel=1M/inflight', inFlight('parallel', MAX_SLOTS)],
  ])('reads and writes %s alike', (text, expected) => {
    expect(parseLimit(text)).toEqual(expected)
    expect(formatLimit(expected)).toBe(text)
  })

  it.each<[string, string]>([
    ['session=200/5h!', 'session=200/5hour!'],
    ['usd=500USD/month@UTC', 'usd=$500/month@UTC'],
    ['usd=1.5kUSD/day@UTC', 'usd=$1500/day@UTC'],
    ['mxn=5MXN/day@UTC', 'mxn=5MXN/day@UTC'],
    ['rpm=100,200@"* 9 * * *"', 'rpm=100/min,200@"* 9 * * *"'],
    ['rpd=1@"0  9 * JAN-MAR MON-FRI"', 'rpd=1@"0 9 * 1-3 1-5"'],
    ['rpd=1@"0 9 * * SUN"', 'rpd=1@"0 9 * * 7"'],
    ['rpd=1@"0 9 * * SUN-THU,0 UTC"', 'rpd=1@"0 9 * * 0-4,7"'],
    ['rpd=1@"0 0 * * *"', 'rpd=1/day@UTC'],
    ['rpm=5,soft,x2@"* 9 * * *"', 'rpm=5/min,x2@"* 9 * * *",soft'],
    ['rpm=5,x2@"* 9 * * *",x3@"* 10 * * * Asia/Tokyo"', 'rpm=5/min,x2@"* 9 * * * Asia/Tokyo",x3@"* 10 * * *"'],
    ['rpd=5/day@Asia/Tokyo,x2@"* 9 * * * Asia/Tokyo"', 'rpd=5/day@Asia/Tokyo,x2@"* 9 * * *"'],
  ])('reads %s as %s', (text, canonical) => {
    expect(formatLimit(parseLimit(text))).toBe(canonical)
  })

  it.each([
    ['usd=500/month', 'month', 'needs a time zone, as in 500/month@UTC'],
    ['rpd=5/2day@UTC', '2day', 'not hour, day, week or month'],
    ['rpd=5/dya@UTC', 'dya', 'did you mean day?'],
    ['rpd=5/dya', 'dya', 'did you mean day?'],
    ['rpd=5@UTC', 'UTC', 'needs a period before it'],
    ['rpd=5/day@', ' ', 'time zone is missing'],
    ['rpd=5:7/day@UTC', ':', 'no burst'],
    ['rpd=5/day@"0 9 * * *"', 'day', 'remove the period'],
    ['rpd=5@0 9 * * 1-5', '0 9 * * 1-5', 'in double quotes'],
    ['rpd=5@"0 9 * *"', '0 9 * *', 'five fields'],
    ['rpd=5@"0 9 * * 1 2 UTC"', '0 9 * * 1 2 UTC', 'five fields'],
    ['rpd=5@"0 9 * * *', '"', 'closing quote'],
    ['rpd=5@"0 9 * * *"x', 'x', 'follows the cron'],
    ['rpd=5@"0 9 * * * UTC; 0 10 * * * Asia/Tokyo"', 'Asia/Tokyo', 'one time zone'],
    ['rpd=5/day@UTC,x2@"* 9 * * * Asia/Tokyo"', 'Asia/Tokyo', 'this one already has UTC'],
    ['s=5!', '!', 'needs a length'],
    ['s=5/5h:6!', ':', 'no burst'],
    ['s=5/day@UTC!', '!', 'not both'],
    ['s=5/5x!', '5x', 'not one of sec'],
    ['rpm=5,sfot', 'sfot', 'did you mean soft?'],
    ['rpm=5,soft,soft', 'soft', 'soft is given twice'],
    ['rpm=5,', ' ', 'neither soft nor a window'],
    ['usd=$1,500', '$1,500', 'write $1500, without a comma'],
    ['usd=$150,000/month@UTC', '$150,000', 'write $150000 or $150k, without a comma'],
    ['rpm=1,500:2,000', '1,500', 'write 1500, without a comma'],
    ['tpm=5k,200,000/min@"* 9 * * *"', '200,000', 'write 200000 or 200k, without a comma'],
    ['rpm=5,x0@"* 9 * * *"', '0', 'above 0'],
    ['rpm=5,x0.0001@"* 9 * * *"', '0.0001', 'at most three decimals'],
    ['rpm=5,x1000001@"* 9 * * *"', '1000001', 'at most 1000000'],
    ['rpm=5,@"* 9 * * *"', '@', 'changes nothing'],
    ['rpm=5,x2@"* 9 * * *; * 10 * * *"', '"* 9 * * *; * 10 * * *"', 'one cron'],
    ['rpm=5,x2@9', '9', 'in double quotes'],
    ['rpd=5/day@UTC,5:6@"* 9 * * *"', ':', 'no burst'],
    ['usd=5ZZZ', '5ZZZ', 'not a currency code'],
    ['usd=$5/min:6', '6', 'must be in USD'],
    ['usd=5/min,$6@"* 9 * * *"', '$6', 'must be in tokens'],
    ['p=20/inflight:30', ':', 'an in-flight limit has no burst'],
    ['p=20/inflight@UTC', 'UTC', 'an in-flight limit has no time zone'],
    ['p=20/inflight@"0 9 * * *"', '"0 9 * * *"', 'an in-flight limit has no reset'],
    ['p=20/inflight!', '!', 'an in-flight limit has no session'],
    ['p=20/inflight,soft', 'soft', 'an in-flight limit cannot be soft'],
    ['p=20/inflight,x0.5@"* 9 * * *"', 'x0.5@"* 9 * * *"', 'an in-flight limit has no windows'],
    ['p=1,500/inflight', '1,500', 'write 1500, without a comma'],
    ['p=$20/inflight', '$20', 'an in-flight limit has no currency'],
    ['p=0/inflight', '0', 'number of slots must be more than 0'],
    ['p=1.5/inflight', '1.5', 'number of slots'],
    ['p=1001k/inflight', '1001k', 'at most 1000000 slots'],
    ['p=20/in-flight', 'in-flight', 'did you mean inflight?'],
    ['p=20/2inflight', '2inflight', 'did you mean inflight?'],
    ['usd=$0.0000001', '$0.0000001', 'millionths'],
    ['usd=$9007199.254741', '$9007199.254741', 'maximum of 9007199.25474'],
  ])('rejects %s and points at "%s"', (text, piece, why) => {
    const error = failure(() => parseLimit(text))
    expect(error.code).toBe('limit.syntax')
    expect(error.message).toContain(why)
    const [, shown = '', carets = ''] = error.message.split('\n')
    expect(shown.padEnd(99).slice(carets.indexOf('^'), carets.lastIndexOf('^') + 1)).toBe(piece)
  })

  it('points at a cron or zone that the calendar rejects', () => {
    const calendar: CalendarCheck = {
      cron: cron => (cron.startsWith('99') ? 'there is no minute 99' : undefined),
      zone: zone => (zone === 'UTC' ? undefined : `there is no zone ${zone}`),
    }
    const pointed = (text: string) => {
      const {details, message} = failure(() => parseLimits([text], calendar))
      const {at, length} = details as {at: number; length: number}
      return [text.slice(at, at + length), /: (.*)\.\n/.exec(message)?.[1]]
    }
    expect(pointed('a=5@"99 9 * * * UTC"')).toEqual(['99 9 * * *', 'there is no minute 99'])
    expect(pointed('a=5/day@Nowhere')).toEqual(['Nowhere', 'there is no zone Nowhere'])
    expect(pointed('a=5,x2@"* 9 * * * Nowhere"')).toEqual(['Nowhere', 'there is no zone Nowhere'])
    expect(parseLimits(['a=5@"9 9 * * *"'], calendar)).toHaveLength(1)
  })
})

describe('an in-flight limit', () => {
  const present = inFlight('parallel', 20)
  const over = (text: string, before = present) => {
    const [given] = parseLimitsOver([text], [before])
    if (!given) throw new Error('expected a limit')
    return {...given, formatted: formatLimit(given.limit), kept: keptParts(given)}
  }

  it('is a kind of its own', () => {
    expect([kindNameOf(present), isInFlight(present)]).toEqual(['in-flight limit', true])
    expect(['rpm=5', 'rpd=5/day@UTC', 's=5/1h!'].map(text => isInFlight(parseLimit(text)))).toEqual([
      false,
      false,
      false,
    ])
  })

  it('is kept by an amount alone', () => {
    expect(over('parallel=30')).toMatchObject({formatted: 'parallel=30/inflight', kept: ['/inflight'], base: present})
    expect(over('parallel=30/inflight')).toMatchObject({formatted: 'parallel=30/inflight', kept: []})
    expect(failure(() => over('parallel=30,soft')).message).toContain('cannot be soft')
    expect(failure(() => over('parallel=$30')).message).toContain('no currency')
  })

  it('becomes another kind when a period or a burst is given, and replaces any other kind', () => {
    expect(over('parallel=30/min')).toMatchObject({formatted: 'parallel=30/min', kept: [], base: undefined})
    expect(over('parallel=30:60').formatted).toBe('parallel=30/min:60')
    for (const text of ['parallel=5/day@UTC', 'parallel=5/1h!', 'parallel=5/min:9', 'parallel=$5/min'])
      expect(over('parallel=20/inflight', parseLimit(text)).limit).toEqual(present)
  })
})

describe('reading a written limit', () => {
  const name = fc
    .stringMatching(/^[a-z][a-z0-9_.-]{0,20}$/)
    .filter(each => !['wcu', 'ttl', 'window', 'resource'].includes(each))
  const tokens = fc.oneof(
    fc.integer({min: 1, max: MAX_TOKENS}),
    fc.integer({min: 1, max: 9000}).map(k => k * 1000),
  )
  const seconds = fc.integer({min: 1, max: MAX_PERIOD_SECONDS})
  const cron = fc.constantFrom(
    '0 0 * * *',
    '0 * * * *',
    '0 0 * * 1',
    '0 0 1 * *',
    '0 9 * * 1-5',
    '*/5 0 1,15 * 7',
    '* * * * 0-4',
  )
  const zone = fc.constantFrom('UTC', BERLIN, 'America/Argentina/Buenos_Aires', 'Etc/GMT+5')
  const scale = fc.integer({min: 1, max: 3000}).map(each => each / 1000)
  const some = <T>(value: fc.Arbitrary<T>) => fc.option(value, {nil: undefined})
  const window = (isQuota: boolean): fc.Arbitrary<ScheduleEntry> =>
    fc.oneof(
      fc.record({cron, scale}),
      fc
        .record({
          cron,
          capacity: some(tokens),
          ...(isQuota ? {} : {refillAmount: some(tokens)}),
          refillPeriodSeconds: some(seconds),
        })
        .map(
          entry =>
            Object.fromEntries(
              Object.entries(entry).filter(([, value]) => value !== undefined),
            ) as unknown as ScheduleEntry,
        )
        .filter(entry => Object.keys(entry).length > 1),
    )
  const anyLimit = fc
    .record({
      name,
      capacity: fc.integer({min: 1, max: Math.floor(MAX_TOKENS / 3)}),
      refillAmount: tokens,
      refillPeriodSeconds: seconds,
      reset: fc.oneof(
        fc.constant(undefined),
        fc.record({crons: fc.array(cron, {minLength: 1, maxLength: 3})}),
        fc.record({afterSeconds: seconds}),
      ),
      timeZone: zone,
      soft: fc.boolean(),
      unit: fc.constantFrom(undefined, 'USD', 'EUR', 'CHF'),
    })
    .chain(({reset, timeZone, refillAmount, ...limit}) =>
      fc.array(window(reset !== undefined), {maxLength: 3}).map(schedule => {
        const usesZone = schedule.length > 0 || (reset !== undefined && 'crons' in reset)
        return makeLimit({
          ...limit,
          refillAmount: reset === undefined ? refillAmount : 0,
          schedule,
          ...(reset && {reset}),
          ...(usesZone && {timeZone}),
        })
      }),
    )

  it('returns the same limit, of every kind', () => {
    const anySlots = fc.oneof(
      fc.integer({min: 1, max: MAX_SLOTS}),
      fc.integer({min: 1, max: 1000}).map(k => k * 1000),
    )
    const anyInFlight = fc.record({name, slots: anySlots}).map(({name, slots}) => inFlight(name, slots))
    fc.assert(
      fc.property(fc.oneof({weight: 9, arbitrary: anyLimit}, {weight: 1, arbitrary: anyInFlight}), limit => {
        expect(parseLimit(formatLimit(limit))).toEqual(limit)
      }),
      {numRuns: runs(2000)},
    )
  })
})

describe('a limit', () => {
  it.each<[string, Partial<LimitInput>, string]>([
    ['refills although it resets', {reset: daily, refillAmount: 5}, 'must be 0'],
    ['resets at no time', {reset: {crons: []}, refillAmount: 0}, 'at least one cron'],
    ['has a cron of four fields', {reset: {crons: ['0 0 * *']}, refillAmount: 0}, 'five fields'],
    ['has a zone and nothing that needs it', {timeZone: 'UTC'}, 'no calendar reset or schedule'],
    [
      'is scaled beyond what can be counted',
      {capacity: MAX_TOKENS, schedule: [{cron: '* * * * *', scale: 2}]},
      'maximum',
    ],
    [
      'refills in a window although it resets',
      {reset: daily, refillAmount: 0, schedule: [{cron: '* * * * *', refillAmount: 5}]},
      'does not refill',
    ],
    ['has a window without a change', {schedule: [{cron: '* * * * *'}]}, 'changes nothing'],
    ['is in no currency', {unit: 'ZZZ'}, 'not a currency code'],
    ['refills although it limits concurrency', {inFlight: true}, 'an in-flight limit has no refill'],
    ...Object.entries<Partial<LimitInput>>({
      reset: {reset: daily},
      'schedule or temporary value': {schedule: [{cron: '* * * * *', scale: 2}]},
      'time zone': {timeZone: 'UTC'},
      'soft form': {soft: true},
      currency: {unit: 'USD'},
    }).map(
      ([what, change]) =>
        [
          `limits concurrency and has a ${what}`,
          {inFlight: true, refillAmount: 0, ...change},
          `an in-flight limit has no ${what}`,
        ] as [string, Partial<LimitInput>, string],
    ),
  ])('is rejected if it %s', (_, change, why) => {
    const error = failure(() => rate('x', 5, change))
    expect([error.code, error.message]).toEqual(['limit.invalid', expect.stringContaining(why)])
  })

  it('is rejected if its session is longer than 31.7 years', () => {
    const error = failure(() => quota('x', 5, {reset: {afterSeconds: MAX_PERIOD_SECONDS + 1}}))
    expect(error.code).toBe('limit.number')
  })

  it('has a whole number of slots, at most a million, if it limits concurrency', () => {
    for (const slots of [0, -1, 1.5, MAX_SLOTS + 1])
      expect(failure(() => inFlight('x', slots)).message).toContain(
        `The number of slots of limit "x" must be a whole number from 1 to 1000000, not ${slots}.`,
      )
  })

  it('stores factors in thousandths, rounded like the table', () => {
    const scales = [0.33333, 0.0001, 0.0025, 2.3].map(scale => ({cron: '* * * * *', scale}))
    expect(rate('x', 5, {schedule: scales}).schedule).toEqual(
      [0.333, 0.001, 0.002, 2.3].map(scale => ({cron: '* * * * *', scale})),
    )
  })

  it('has no field that does not apply', () => {
    const limit = rate('x', 5, {schedule: [], soft: false, inFlight: false, timeZone: undefined, unit: undefined})
    expect(Object.keys(limit)).toEqual(['name', 'capacity', 'refillAmount', 'refillPeriodSeconds'])
  })
})
