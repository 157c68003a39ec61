import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {textStart, textWidth} from '../../../src/lib/core/text/text-width.js'
import {cell, clip, columnsOf, seg, shortened, withRightEnd} from '../../../src/lib/live/screen/line.js'

describe('columns of a text', () => {
  it.each([
    ['user-1', 6],
    ['café', 4],
    ['cafe\u0301', 4],
    ['租户', 4],
    ['テナント', 8],
    ['ﾃﾅﾝﾄ', 4],
    ['회사', 4],
    ['Ａ１', 4],
    ['«Ωй»', 4],
    ['🚀', 2],
    ['👩‍💻', 2],
    ['🇩🇪', 2],
    ['❤️', 2],
    ['▏▎▍▌▋▊▉█░▚●▲✖○↑↓±·…–‖', 21],
  ])('of %s are %d', (text, width) => {
    expect(textWidth(text)).toBe(width)
  })
})

const anyName = fc.string({
  unit: fc.constantFrom('a', '-', 'é', '租', 'テ', '회', '🚀', '👩‍💻', '\u001b', '\u202e', '\u0301', '\u200d', 'ﾃ'),
  maxLength: 30,
})

describe('any name', () => {
  it('fills its cell exactly', () => {
    fc.assert(
      fc.property(anyName, fc.integer({min: 0, max: 40}), fc.constantFrom('left', 'right'), (name, width, align) => {
        expect(textWidth(cell(name, width, '…', align as 'left'))).toBe(width)
        expect(textWidth(shortened(name, width, '…'))).toBeLessThanOrEqual(width)
      }),
    )
  })

  it('is cut off at the edge of the screen, between characters', () => {
    fc.assert(
      fc.property(fc.array(anyName, {maxLength: 4}), fc.integer({min: 1, max: 60}), (names, width) => {
        const line = names.map(name => seg(name))
        expect(columnsOf(clip(line, width, '…'))).toBeLessThanOrEqual(width)
        expect(columnsOf(withRightEnd(line, [seg('9–9')], width + 4, '…'))).toBe(width + 4)
      }),
    )
  })

  it('never brings a control character to the screen', () => {
    fc.assert(
      fc.property(anyName, name => {
        expect(seg(name).text + cell(name, 99, '…')).not.toMatch(/[\p{Cc}\u202e]/u)
      }),
    )
  })
})

it('does not draw half of a wide character', () => {
  expect(textStart('租户', 3)).toBe('租')
  expect(cell('租户甲', 4, '…')).toBe('租… ')
})
