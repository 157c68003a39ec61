import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {
  COMPACT_WIDTH,
  compact,
  counted,
  exact,
  perSecond,
  SPAN_WIDTH,
  span,
  timeOfDay,
  wholePercent,
} from '../../../src/lib/ui/draw/format.js'

const anyTokens = fc.maxSafeInteger().map(milli => milli / 1000)

/** The number that a compact text stands for. */
function valueIn(text: string): number {
  const [, digits = '', unit = ''] = /^(-?[\d.]+)([kMGTP]?)$/.exec(text) ?? []
  return Number(digits) * 1000 ** ' kMGTP'.indexOf(unit === '' ? ' ' : unit)
}

describe('compact', () => {
  it.each([
    [0, '0'],
    [1, '1'],
    [12.345, '12.3'],
    [999.4, '999'],
    [999.6, '1k'],
    [12_345, '12.3k'],
    [-12_345, '-12.3k'],
    [1_250_000, '1.25M'],
    [0.001, '<0.01'],
    [-0.001, '>-0.01'],
    [9_007_199_254_740, '9.01T'],
    [1e21, '>999P'],
    [Number.NaN, '?'],
  ])('%d is %s', (value, text) => {
    expect(compact(value)).toBe(text)
  })

  it.each([
    [0.999, '0.99'],
    [99_999, '99.9k'],
    [-0.5, '-0.5'],
    [-0.001, '-0.01'],
    [1.15, '1.15'],
    [-12_301, '-12.4k'],
  ])('%d rounded down is %s', (value, text) => {
    expect(compact(value, 'down')).toBe(text)
  })

  it('always fits its column', () => {
    fc.assert(fc.property(fc.double(), value => compact(value).length <= COMPACT_WIDTH))
    fc.assert(fc.property(anyTokens, value => compact(value, 'down').length <= COMPACT_WIDTH))
  })

  it('never shows a token that does not exist (L6)', () => {
    fc.assert(
      fc.property(anyTokens, value => {
        const text = compact(value, 'down')
        if (text.startsWith('<')) return value > 0 && value < 0.01
        return valueIn(text) <= value + 1e-6 * Math.abs(value) && (value >= 1 || valueIn(text) < 1)
      }),
    )
  })

  it('is off by less than one in a hundred', () => {
    fc.assert(
      fc.property(anyTokens, value => {
        const text = compact(value)
        if (/[<>]/.test(text)) return Math.abs(value) < 0.01
        return Math.abs(valueIn(text) - value) <= Math.max(0.005, Math.abs(value) / 100) + 1e-9
      }),
    )
  })
})

describe('exact', () => {
  it.each([
    [34_655.75, '34,655.75', '34,655.75'],
    [0.999, '1', '0.99'],
    [-0.001, '0', '-0.01'],
    [1.15, '1.15', '1.15'],
  ])('%d is %s, rounded down %s', (value, nearest, down) => {
    expect([exact(value), exact(value, 'down')]).toEqual([nearest, down])
  })
})

describe('span', () => {
  it.each([
    [0, '<1s'],
    [-5, '<1s'],
    [45_000, '45s'],
    [200_000, '3m20s'],
    [180_000, '3m'],
    [7_500_000, '2h05m'],
    [273_600_000, '3d04h'],
    [99 * 86_400_000, '99d'],
    [1e15, '>9999d'],
  ])('%d ms is %s', (ms, text) => {
    expect(span(ms)).toBe(text)
  })

  it('always fits its column', () => {
    fc.assert(fc.property(fc.double({noNaN: true, min: -1e6, max: 1e18}), ms => span(ms).length <= SPAN_WIDTH))
  })
})

it('shows a small percentage as more than zero', () => {
  expect([0, 0.004, 0.5, 0.999, 1, 25].map(wholePercent)).toEqual(['0%', '<1%', '50%', '99%', '100%', '999%'])
  fc.assert(fc.property(fc.double({noNaN: true}), part => wholePercent(part).length <= 4))
})

it('formats counts and times of day', () => {
  expect([counted(1, 'poll'), counted(1200, 'poll')]).toEqual(['1 poll', '1,200 polls'])
  expect(timeOfDay(1_700_000_000_000)).toBe('22:13:20Z')
})

it.each([
  [1000, '1,000/s'],
  [0.014, '0.01/s'],
  [50 / 86_400, '<0.01/s'],
  [-0.001, '>-0.01/s'],
  [0, '0/s'],
])('shows a rate of %d as %s, and only zero as zero', (rate, text) => {
  expect(perSecond(rate)).toBe(text)
})
