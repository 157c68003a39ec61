import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {InvalidInput} from '../../../src/lib/core/errors.js'
import {type Limit, MAX_PERIOD_SECONDS, MAX_TOKENS, makeLimit, rateOf} from '../../../src/lib/core/limits/limit.js'
import {formatLimit, parseLimit, parseLimits} from '../../../src/lib/core/limits/limit-text.js'

const limit = (name: string, capacity: number, refillAmount: number, refillPeriodSeconds: number): Limit => ({
  name,
  capacity,
  refillAmount,
  refillPeriodSeconds,
})

function failure(action: () => unknown): InvalidInput {
  try {
    action()
  } catch (error) {
    if (error instanceof InvalidInput) return error
    throw error
  }
  throw new Error('expected a failure')
}

describe('reading limits', () => {
  it.each<[string, Limit]>([
    ['tpm=100000', limit('tpm', 100_000, 100_000, 60)],
    ['rpm=100/min', limit('rpm', 100, 100, 60)],
    ['tpd=1M/day', limit('tpd', 1_000_000, 1_000_000, 86_400)],
    ['rpm=10/sec:50', limit('rpm', 50, 10, 1)],
    ['custom=500/15min', limit('custom', 500, 500, 900)],
    ['rpm:100', limit('rpm', 100, 100, 60)],
    ['rpm:10/sec:50', limit('rpm', 50, 10, 1)],
    ['tpm=1.5k/2h:2M', limit('tpm', 2_000_000, 1500, 7200)],
    ['tpm=1.1M', limit('tpm', 1_100_000, 1_100_000, 60)],
    ['burst=10/s:5', limit('burst', 5, 10, 1)],
    ['D-17.my-limit=7/hour', limit('D-17.my-limit', 7, 7, 3600)],
  ])('%s', (text, expected) => {
    expect(parseLimit(text)).toEqual(expected)
  })

  it.each([
    ['rpm', 'rpm', '"=" is missing'],
    ['=5', '=', 'name is missing'],
    ['rpm=', ' ', 'rate is missing'],
    ['rpm=ten/min', 'ten', 'not a number'],
    ['rpm=-5', '-5', 'not a number'],
    ['rpm=10m', '10m', 'not a number'],
    ['rpm=0', '0', 'more than 0'],
    ['rpm=1.5', '1.5', 'whole number of tokens'],
    ['rpm=1.0005k', '1.0005k', 'whole number of tokens'],
    ['rpm=10/sek', 'sek', 'not one of sec, min, hour, day'],
    ['rpm=10/', ' ', 'not one of sec, min, hour, day'],
    ['rpm=10/0min', '0min', 'whole number of seconds'],
    ['rpm=10/500ms', '500ms', 'whole number of seconds'],
    ['rpm=10/101day/2', '/', 'second "/"'],
    ['rpm=10/11575day', '11575day', '31.7 years'],
    ['rpm=10:20:30', ':', 'second ":"'],
    ['rpm=10/min:', ' ', 'burst is missing'],
    ['rpm=10/min:x', 'x', 'burst "x"'],
    ['rpm=99999999999999', '99999999999999', 'maximum'],
  ])('rejects %s and points at "%s"', (text, piece, why) => {
    const error = failure(() => parseLimit(text))
    expect(error.code).toBe('limit.syntax')
    expect(error.message).toContain(why)
    const [, shown = '', carets = ''] = error.message.split('\n')
    expect(shown.padEnd(99).slice(carets.indexOf('^'), carets.lastIndexOf('^') + 1)).toBe(piece)
    expect(error.hint).toContain('NAME=RATE')
  })

  it.each(['wcu=5', 'ttl=5', '9x=5', 'a#b=5'])('rejects the name in %s', text => {
    expect(failure(() => parseLimit(text)).code).toBe('name.invalid')
  })

  it('rejects a name given twice', () => {
    expect(failure(() => parseLimits(['rpm=1', 'tpm=2', 'rpm=3'])).message).toBe('The limit "rpm" is given twice.')
  })
})

describe('writing limits', () => {
  it.each([
    ['tpm=100k/min', limit('tpm', 100_000, 100_000, 60)],
    ['rpm=10/sec:50', limit('rpm', 50, 10, 1)],
    ['tpd=1M/day', limit('tpd', 1_000_000, 1_000_000, 86_400)],
    ['custom=1500/15min', limit('custom', 1500, 1500, 900)],
    ['odd=1/61sec', limit('odd', 1, 1, 61)],
    ['week=1/7day', limit('week', 1, 1, 604_800)],
  ])('%s', (text, value) => {
    expect(formatLimit(value)).toBe(text)
  })

  it('is the inverse of reading', () => {
    const anyTokens = fc.oneof(
      fc.integer({min: 1, max: MAX_TOKENS}),
      fc.integer({min: 1, max: 9000}).map(k => k * 1000),
    )
    const anyLimit = fc.record({
      name: fc
        .stringMatching(/^[a-z][a-z0-9_.-]{0,20}$/)
        .filter(name => !['wcu', 'ttl', 'window', 'resource'].includes(name)),
      capacity: anyTokens,
      refillAmount: anyTokens,
      refillPeriodSeconds: fc.integer({min: 1, max: MAX_PERIOD_SECONDS}),
    })
    fc.assert(
      fc.property(anyLimit, value => {
        expect(parseLimit(formatLimit(value))).toEqual(value)
      }),
    )
  })
})

describe('numbers', () => {
  it.each([
    ['capacity', 0],
    ['capacity', 1.5],
    ['capacity', Number.NaN],
    ['refillAmount', -1],
    ['refillAmount', MAX_TOKENS + 1],
    ['refillPeriodSeconds', Infinity],
  ])('rejects %s = %s', (field, value) => {
    expect(failure(() => makeLimit({...limit('x', 1, 1, 1), [field]: value})).code).toBe('limit.number')
  })

  it('become millitokens and milliseconds', () => {
    expect(rateOf(limit('x', 50, 10, 1))).toEqual({
      capacityMilli: 50_000n,
      refillAmountMilli: 10_000n,
      refillPeriodMs: 1000,
    })
  })
})
