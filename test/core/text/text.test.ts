import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {
  formatCount,
  formatList,
  formatNumber,
  formatPercent,
  formatPlural,
  formatRate,
  formatShortNumber,
  formatShortPercent,
  formatShortSpan,
  formatSpan,
  formatTimeOfDay,
  formatWait,
  SHORT_NUMBER_WIDTH,
  SHORT_SPAN_WIDTH,
} from '../../../src/lib/core/text/text.js'

const anyTokens = fc.maxSafeInteger().map(milli => milli / 1000)

function valueIn(text: string): number {
  const [, digits = '', unit = ''] = /^(-?[\d.]+)([kMGTP]?)$/.exec(text) ?? []
  return Number(digits) * 1000 ** ' kMGTP'.indexOf(unit === '' ? ' ' : unit)
}

describe('counts', () => {
  it('have separators and agree with their noun', () => {
    expect([0, 999, 1_234_567].map(formatCount)).toEqual(['0', '999', '1,234,567'])
    expect([0, 1, 1200].map(count => formatPlural(count, 'poll'))).toEqual(['0 polls', '1 poll', '1,200 polls'])
    expect([1, 2].map(count => formatPlural(count, 'batch', 'batches'))).toEqual(['1 batch', '2 batches'])
  })
})

describe('numbers', () => {
  it.each([
    [34_655.75, '34,655.75', '34,655.75'],
    [0.999, '1', '0.99'],
    [-0.001, '0', '-0.01'],
    [-0.125, '-0.13', '-0.13'],
    [1.15, '1.15', '1.15'],
    [0.1 + 0.2, '0.3', '0.3'],
    [2.3 - 2, '0.3', '0.3'],
    [1e9, '1,000,000,000', '1,000,000,000'],
    [688_156_316.3, '688,156,316.3', '688,156,316.3'],
    [30_037_120_996.2, '30,037,120,996.2', '30,037,120,996.2'],
  ])('formats %d as %s, rounded down as %s', (value, nearest, down) => {
    expect([formatNumber(value), formatNumber(value, 'down')]).toEqual([nearest, down])
  })

  it('have the requested number of decimals', () => {
    expect([0, 1, 3].map(decimals => formatNumber(1234.5678, 'nearest', decimals))).toEqual([
      '1,235',
      '1,234.6',
      '1,234.568',
    ])
    expect(formatNumber(1234.5678, 'down', 1)).toBe('1,234.5')
  })

  it('never promise a missing token if rounded down (L6)', () => {
    const shownValue = (value: number) => Number(formatNumber(value, 'down').replaceAll(',', ''))
    fc.assert(fc.property(anyTokens, value => shownValue(value) <= value + 1e-14 * Math.abs(value)))
    expect(formatNumber(999.999, 'down')).toBe('999.99')
  })
})

describe('short numbers', () => {
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
    [-1e21, '<-999P'],
    [Number.NaN, '?'],
  ])('formats %d as %s', (value, text) => {
    expect(formatShortNumber(value)).toBe(text)
  })

  it.each([
    [0.999, '0.99'],
    [99_999, '99.9k'],
    [-0.5, '-0.5'],
    [-0.001, '-0.01'],
    [1.15, '1.15'],
    [-12_301, '-12.4k'],
  ])('rounds %d down to %s', (value, text) => {
    expect(formatShortNumber(value, 'down')).toBe(text)
  })

  it('always fit their column', () => {
    fc.assert(fc.property(fc.double(), value => formatShortNumber(value).length <= SHORT_NUMBER_WIDTH))
    fc.assert(fc.property(anyTokens, value => formatShortNumber(value, 'down').length <= SHORT_NUMBER_WIDTH))
  })

  it('never promise a missing token if rounded down (L6)', () => {
    fc.assert(
      fc.property(anyTokens, value => {
        const text = formatShortNumber(value, 'down')
        if (text.startsWith('<')) return value > 0 && value < 0.01
        return valueIn(text) <= value + 1e-6 * Math.abs(value) && (value >= 1 || valueIn(text) < 1)
      }),
    )
  })

  it('are off by less than one in a hundred', () => {
    fc.assert(
      fc.property(anyTokens, value => {
        const text = formatShortNumber(value)
        if (/[<>]/.test(text)) return Math.abs(value) < 0.01
        return Math.abs(valueIn(text) - value) <= Math.max(0.005, Math.abs(value) / 100) + 1e-9
      }),
    )
  })
})

it.each([
  [1000, '1,000'],
  [0.014, '0.01'],
  [50 / 86_400, '<0.01'],
  [-0.001, '>-0.01'],
  [0, '0'],
])('formats a rate of %d as %s: only zero is shown as zero', (rate, text) => {
  expect(formatRate(rate)).toBe(text)
})

describe('percentages', () => {
  it('are never rounded to nothing or to all', () => {
    const shares = [0, 0.004, 0.01, 0.5, 0.994, 0.999, 1, 25, -0.25]
    expect(shares.map(formatPercent)).toEqual([
      '0 %',
      '<1 %',
      '1 %',
      '50 %',
      '>99 %',
      '>99 %',
      '100 %',
      '2,500 %',
      '-25 %',
    ])
  })

  it('are rounded down and fit four characters in short form', () => {
    const shares = [0, 0.004, 0.29, 0.5, 0.999, 1, 25, -1]
    expect(shares.map(formatShortPercent)).toEqual(['0%', '<1%', '29%', '50%', '99%', '100%', '999%', '0%'])
    fc.assert(fc.property(fc.double({noNaN: true}), share => formatShortPercent(share).length <= 4))
  })
})

describe('time spans', () => {
  it.each([
    [0, '0 ms'],
    [999.4, '999 ms'],
    [1000, '1 s'],
    [1999, '1 s'],
    [60_000, '1 min'],
    [200_000, '3 min 20 s'],
    [3_605_000, '1 h 5 s'],
    [90_061_000, '1 d 1 h'],
  ])('formats %d ms as %s', (ms, text) => {
    expect(formatSpan(ms)).toBe(text)
  })

  it.each([
    [0.2, '1 ms'],
    [999, '999 ms'],
    [1001, '2 s'],
    [60_000, '1 min'],
    [60_001, '1 min 1 s'],
    [3_600_001, '1 h 1 min'],
    [86_400_001, '1 d 1 h'],
    [null, 'never'],
  ])('formats a wait of %s ms as %s: never too short', (ms, text) => {
    expect(formatWait(ms)).toBe(text)
  })

  it.each([
    [0, '<1s'],
    [-5, '<1s'],
    [45_000, '45s'],
    [200_000, '3m20s'],
    [180_000, '3m'],
    [7_500_000, '2h05m'],
    [273_600_000, '3d04h'],
    [99 * 86_400_000, '99d'],
    [100 * 86_400_000, '100d'],
    [1e15, '>9999d'],
  ])('formats %d ms in short as %s', (ms, text) => {
    expect(formatShortSpan(ms)).toBe(text)
  })

  it('always fit their column in short form', () => {
    const anyMs = fc.double({noNaN: true, min: -1e6, max: 1e18})
    fc.assert(fc.property(anyMs, ms => formatShortSpan(ms).length <= SHORT_SPAN_WIDTH))
  })
})

it('shows the time of day in UTC', () => {
  expect(formatTimeOfDay(1_700_000_000_000)).toBe('22:13:20Z')
})

it('ends a list with "and"', () => {
  expect([[], ['a'], ['a', 'b'], ['a', 'b', 'c']].map(formatList)).toEqual(['', 'a', 'a and b', 'a, b and c'])
})
