import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {gauge, sparkline, WHOLE_BLOCKS} from '../../../src/lib/core/text/gauge.js'
import {ASCII_GLYPHS, BLOCK_GLYPHS} from '../../../src/lib/live/screen/glyphs.js'

const anyGlyphs = fc.constantFrom(BLOCK_GLYPHS, ASCII_GLYPHS)
const anyWidth = fc.integer({min: 0, max: 80})
const anyCapacity = fc.integer({min: 1, max: 1_000_000})

describe('gauge', () => {
  it.each([
    [0, '░░░░░░░░', '[      ]'],
    [0.001, '▏░░░░░░░', '[_     ]'],
    [50, '████░░░░', '[###   ]'],
    [99.999, '███████▉', '[#####*]'],
    [100, '████████', '[######]'],
    [150, '███████▸', '[#####>]'],
    [-1, '◂▚░░░░░░', '[<x    ]'],
    [-50, '◂▚▚▚▚░░░', '[<xxx  ]'],
    [-500, '◂▚▚▚▚▚▚▚', '[<xxxxx]'],
  ])('draws %d of 100', (level, blocks, ascii) => {
    expect([gauge(level, 100, 8, BLOCK_GLYPHS), gauge(level, 100, 8, ASCII_GLYPHS)]).toEqual([blocks, ascii])
  })

  it('rounds to the nearest cell if drawn in whole cells', () => {
    const drawn = (share: number) => gauge(share, 1, 10, WHOLE_BLOCKS)
    expect([0, 0.04, 0.05, 0.42, 0.96, 1, 3].map(drawn)).toEqual([
      '░░░░░░░░░░',
      '░░░░░░░░░░',
      '█░░░░░░░░░',
      '████░░░░░░',
      '██████████',
      '██████████',
      '██████████',
    ])
  })

  it('always has the requested width', () => {
    const anyLevel = fc.double({noNaN: true, min: -1e9, max: 1e9})
    fc.assert(
      fc.property(
        anyLevel,
        fc.oneof(anyCapacity, fc.constant(0)),
        anyWidth,
        anyGlyphs,
        (level, capacity, width, glyphs) => {
          expect([...gauge(level, capacity, width, glyphs)]).toHaveLength(width)
        },
      ),
    )
  })

  it('grows with the level, in eighths', () => {
    const eighths = (text: string) => [...text].reduce((sum, each) => sum + BLOCK_GLYPHS.eighths.indexOf(each) + 1, 0)
    fc.assert(
      fc.property(
        anyCapacity,
        fc.integer({min: 1, max: 40}),
        fc.double({min: 0, max: 1, noNaN: true}),
        (capacity, width, part) => {
          const shown = eighths(gauge(capacity * part, capacity, width, BLOCK_GLYPHS))
          expect(Math.abs(shown - part * width * 8)).toBeLessThanOrEqual(1)
        },
      ),
    )
  })

  it('draws empty only for zero and full only for full', () => {
    fc.assert(
      fc.property(anyCapacity, fc.integer({min: 1, max: 40}), anyGlyphs, (capacity, width, glyphs) => {
        const draw = (level: number) => gauge(level, capacity, width, glyphs)
        expect(draw(0.001)).not.toBe(draw(0))
        expect(draw(capacity - 0.001)).not.toBe(draw(capacity))
        expect(draw(-0.001)).not.toBe(draw(0))
      }),
    )
  })
})

describe('sparkline', () => {
  it('distinguishes no sample from zero, and full from almost full', () => {
    expect(sparkline([null, 0, 0.001, 0.5, 0.999, 1, 1.5], 9, BLOCK_GLYPHS)).toBe('···▁▂▅▇██')
    expect(sparkline([null, 0, 0.001, 0.5, 0.999, 1, 1.5], 9, ASCII_GLYPHS)).toBe('   _.=*##')
  })

  it('shows the latest samples if there is little room', () => {
    expect(sparkline([0, 1, 0], 2, BLOCK_GLYPHS)).toBe('█▁')
  })

  it('always has the requested width', () => {
    const anyUsed = fc.array(fc.option(fc.double({noNaN: true, min: -1, max: 3})), {maxLength: 70})
    fc.assert(
      fc.property(anyUsed, anyWidth, anyGlyphs, (used, width, glyphs) => {
        expect([...sparkline(used, width, glyphs)]).toHaveLength(width)
      }),
    )
  })
})
