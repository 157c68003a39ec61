import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {printableText} from '../../../src/lib/core/text/printable.js'
import {cutText, graphemesOf, padText, textWidth} from '../../../src/lib/core/text/text-width.js'

describe('textWidth', () => {
  it.each([
    ['', 0],
    ['user-1', 6],
    ['Zoë', 3],
    ['e\u0301', 1],
    ['日本語', 6],
    ['ｱｲｳ', 3],
    ['１２', 4],
    ['한국어', 6],
    ['\u1112\u1161\u11ab', 2],
    ['🙂', 2],
    ['🫠', 2],
    ['👩🏽‍🚀', 2],
    ['❤️', 2],
    ['❤', 1],
    ['🇩🇪', 2],
    ['1️⃣', 2],
    ['नमस्ते', 4],
    ['…·→█', 4],
  ])('of %s is %i columns', (text, width) => {
    expect(textWidth(text)).toBe(width)
    // A combining mark forces the path that measures whole characters; the sum is the same.
    expect(textWidth(`${text}e\u0301`)).toBe(width + 1)
  })
})

it('uses the characters that Unicode defines, for any text', () => {
  const segmenter = new Intl.Segmenter('en', {granularity: 'grapheme'})
  for (const unit of ['grapheme', 'grapheme-composite', 'binary'] as const) {
    fc.assert(
      fc.property(fc.string({unit}), any => {
        const shown = printableText(any)
        expect(graphemesOf(shown)).toEqual(Array.from(segmenter.segment(shown), ({segment}) => segment))
      }),
      // Letters that join with the next one.
      {numRuns: 500, examples: [['\u{1193F}\0'], ['\u0D4Ea'], ['\u{16D67}\u{16D67}']]},
    )
  }
})

describe('cutText', () => {
  it('keeps the part that fits, and never half a character', () => {
    expect(cutText('日本語', 6)).toBe('日本語')
    expect(cutText('日本語', 5)).toBe('日本…')
    expect(cutText('日本語', 4)).toBe('日…')
    expect(cutText('👩🏽‍🚀👩🏽‍🚀', 3)).toBe('👩🏽‍🚀…')
    expect(cutText('e\u0301e\u0301e\u0301', 2)).toBe('e\u0301…')
    expect([cutText('日本', 1), cutText('日本', 0)]).toEqual(['…', ''])
  })

  it('is never wider than requested, and starts with whole characters of the text', () => {
    fc.assert(
      fc.property(fc.string({unit: 'grapheme'}), fc.integer({min: 0, max: 20}), (text, width) => {
        const cut = cutText(text, width)
        expect(textWidth(cut)).toBeLessThanOrEqual(width)
        const kept = graphemesOf(cut === text ? cut : cut.slice(0, -1))
        expect(graphemesOf(text).slice(0, kept.length)).toEqual(kept)
      }),
    )
  })
})

it('pads to a number of columns, on either side', () => {
  expect([padText('日', 4), padText('日', 4, 'right'), padText('long', 2)]).toEqual(['日  ', '  日', 'long'])
})
