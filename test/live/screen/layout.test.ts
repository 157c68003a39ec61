import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {heightsOf, isTooSmall} from '../../../src/lib/live/screen/frame.js'
import {MARGIN, overviewColumns} from '../../../src/lib/live/screen/overview-panel.js'

const widthOf = (columns: readonly {width: number}[]) =>
  MARGIN + columns.reduce((sum, {width}) => sum + width, 0) + columns.length - 1

const keysAt = (width: number, isWide = false) => overviewColumns(width, isWide).map(({key}) => key)

describe('columns of the overview', () => {
  it('fit every screen', () => {
    fc.assert(
      fc.property(fc.integer({min: 40, max: 500}), fc.boolean(), (width, isWide) => {
        expect(widthOf(overviewColumns(width, isWide))).toBeLessThanOrEqual(width)
      }),
    )
  })

  it('use the whole width, which long ids need', () => {
    for (const width of [60, 80, 120, 160, 240, 400])
      expect(widthOf(overviewColumns(width, false))).toBeGreaterThan(width - 12)
    expect(overviewColumns(300, false)[0]?.width).toBeGreaterThan(64)
  })

  it('include entity, resource and level even on the smallest screen', () => {
    expect(keysAt(40)).toEqual(['entity', 'resource', 'level'])
  })

  it('come in three layouts', () => {
    expect(keysAt(60)).toEqual(['entity', 'resource', 'gauge', 'level', 'refused'])
    expect(keysAt(79)).toEqual(['entity', 'resource', 'gauge', 'level', 'limit', 'refused', 'eta'])
    expect(keysAt(80)).toEqual(['entity', 'resource', 'gauge', 'level', 'limit', 'rate', 'refused', 'eta'])
    expect(keysAt(119)).toEqual(['entity', 'resource', 'gauge', 'level', 'limit', 'rate', 'refused', 'shards', 'eta'])
    expect(keysAt(120)).toEqual([
      'entity',
      'resource',
      'gauge',
      'level',
      'limit',
      'rate',
      'refused',
      'history',
      'shards',
      'pressure',
      'eta',
    ])
  })

  it('are fewer with wide names', () => {
    expect(keysAt(120, true)).toEqual(['entity', 'resource', 'level', 'rate', 'refused', 'eta'])
    const [entity, resource] = overviewColumns(120, true)
    expect([entity?.width, resource?.width]).toEqual([40, 36])
  })
})

it('divides the lines of the screen', () => {
  expect(heightsOf(24, true, false).body).toBe(19)
  expect(heightsOf(24, false, true).body).toBe(19)
  expect(heightsOf(1, true, true).body).toBe(0)
})

it('needs at least 40×8', () => {
  expect(isTooSmall({columns: 40, rows: 8})).toBe(false)
  expect(isTooSmall({columns: 39, rows: 8})).toBe(true)
  expect(isTooSmall({columns: 40, rows: 7})).toBe(true)
})
